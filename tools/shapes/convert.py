r"""Convert an ONNX file to .rknn with the vendor's toolkit, quantized to int8 by default.

::

    python tools/shapes/convert.py examples/models/shapes.onnx --labels
    python tools/shapes/convert.py any.onnx --platform rk3588 rk3566 --fp16

Requirements, in a separate virtual environment (the toolkit pins old versions)::

    python3.11 -m venv rknn.venv          # the toolkit has wheels for CPython 3.6 to 3.12, x86-64
    rknn.venv/bin/pip install "setuptools<80" "numpy<=1.26.4" "protobuf<=4.25.4" "onnx==1.16.1" \
        "onnxruntime==1.18.1" "opencv-python-headless<4.12" psutil ruamel.yaml scipy tqdm \
        fast-histogram pillow
    rknn.venv/bin/pip install torch       # the CPU build; the toolkit asks for <= 2.4.0, 2.13 works
    rknn.venv/bin/pip install --no-deps rknn-toolkit2==2.3.2

The result lies next to the ONNX file, or in ``--out-dir``, as ``NAME_PLATFORM.rknn``.
"""

from __future__ import annotations

import argparse
import ast
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
from PIL import Image
from scenes import CALIBRATION_SEEDS, CLASSES, draw_input

try:
    from rknn.api import RKNN
except ImportError as error:
    raise SystemExit(f"{error}: see the requirements at the top of {__file__}") from error


def input_shapes(onnx_path: Path) -> list[tuple[str, list[int]]]:
    """Return name and static shape of each input of an ONNX file.

    Raises:
        ValueError: A dimension is not fixed.
    """
    graph = onnx.load(str(onnx_path), load_external_data=False).graph
    weights = {x.name for x in graph.initializer}
    result = []
    for value in graph.input:
        if value.name in weights:
            continue
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if not shape or min(shape) < 1:
            raise ValueError(f"input {value.name} has no static shape: {shape}; fix it first")
        result.append((value.name, shape))
    return result


def write_calibration(
    folder: Path, inputs: list[tuple[str, list[int]]], images: list[Path], count: int
) -> Path:
    """Write the toolkit's calibration list: one line per sample, one file per input.

    An input ``[1, 3, H, W]`` gets the given images, or synthetic scenes, scaled to H x W. Any other
    input gets uniform noise in 0..1, which serves for test data, not for accuracy.
    """
    rng = np.random.default_rng(0)
    lines = []
    for i in range(len(images) or count):
        files = []
        for k, (_, shape) in enumerate(inputs):
            if len(shape) == 4 and shape[1] == 3:
                path = folder / f"{i}_{k}.png"
                image = (
                    Image.open(images[i]).convert("RGB")
                    if images
                    else Image.fromarray(draw_input(CALIBRATION_SEEDS[i])[0])
                )
                image.resize((shape[3], shape[2]), Image.BILINEAR).save(path)
            else:
                path = folder / f"{i}_{k}.npy"
                np.save(path, rng.random(shape, dtype=np.float32))
            files.append(str(path))
        lines.append(" ".join(files))
    listing = folder / "calibration.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


@contextmanager
def built(
    onnx_path: Path,
    platform: str,
    *,
    quantize: bool = True,
    mean: list[float] | None = None,
    std: list[float] | None = None,
    images: list[Path] | None = None,
    count: int = 100,
    config: dict[str, object] | None = None,
    verbose: bool = False,
) -> Iterator[RKNN]:
    """Build a model and yield the toolkit's object, ready to export or to simulate.

    Args:
        onnx_path: The ONNX file, static shapes.
        platform: ``"rv1106"``, ``"rk3588"``, ...
        quantize: int8 weights and activations; else float16.
        mean: Per channel of the three-channel inputs, subtracted from the pixels 0..255.
        std: Per channel, divided by.
        images: Calibration images; synthetic scenes if empty.
        count: How many synthetic scenes.
        config: Further arguments of the toolkit's ``config``.
        verbose: Let the toolkit print its layer table.

    Raises:
        RuntimeError: A step of the toolkit failed; its messages are on stderr.
    """
    inputs = input_shapes(onnx_path)
    means = [[0.0] * s[1] if len(s) == 4 else [0.0] for _, s in inputs]
    stds = [[1.0] * s[1] if len(s) == 4 else [1.0] for _, s in inputs]
    for k, (_, shape) in enumerate(inputs):
        if len(shape) == 4 and shape[1] == 3:
            means[k], stds[k] = mean or [0.0] * 3, std or [255.0] * 3
    options: dict[str, object] = {"target_platform": platform}
    options.update(mean_values=means, std_values=stds)
    options.update(config or {})
    toolkit = RKNN(verbose=verbose)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _check("config", toolkit.config(**options))
            _check("load_onnx", toolkit.load_onnx(str(onnx_path)))
            dataset = None
            if quantize:
                dataset = str(write_calibration(Path(folder), inputs, images or [], count))
            _check("build", toolkit.build(do_quantization=quantize, dataset=dataset))
        yield toolkit
    finally:
        toolkit.release()


def _check(step: str, code: int | None) -> None:
    if code:
        raise RuntimeError(f"rknn-toolkit2: {step} failed with {code}")


def labels_json(inputs: list[tuple[str, list[int]]]) -> str:
    """Return the custom string of the example models: class names and input, as JSON."""
    height, width = inputs[0][1][2:]
    about = {"labels": list(CLASSES), "input": {"width": width, "height": height, "color": "RGB"}}
    return json.dumps(about, separators=(",", ":"))


def _setting(text: str) -> tuple[str, object]:
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


def main() -> None:
    """Convert an ONNX file for one or more platforms."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--platform", nargs="+", default=["rv1106", "rk3588"])
    parser.add_argument("--out-dir", type=Path)
    parser.add_argument("--fp16", action="store_true", help="do not quantize")
    parser.add_argument("--mean", type=float, nargs=3, default=[0.0] * 3)
    parser.add_argument("--std", type=float, nargs=3, default=[255.0] * 3)
    parser.add_argument("--images", type=Path, nargs="+", help="calibration images")
    parser.add_argument("--count", type=int, default=100, help="scenes to calibrate with")
    parser.add_argument("--labels", action="store_true", help="class names as custom string")
    parser.add_argument("--custom-string", help="any text below 1024 bytes")
    parser.add_argument("--all-cores", action="store_true", help="rk3588: commands for 3 cores")
    parser.add_argument("--config", type=_setting, nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    for platform in args.platform:
        config = dict(args.config)
        if platform == "rk3588" and not args.all_cores:
            config.setdefault("single_core_mode", True)  # half the file
        if args.labels:
            config["custom_string"] = labels_json(input_shapes(args.model))
        if args.custom_string is not None:
            config["custom_string"] = args.custom_string
        out = (args.out_dir or args.model.parent) / f"{args.model.stem}_{platform}.rknn"
        with built(
            args.model,
            platform,
            quantize=not args.fp16,
            mean=args.mean,
            std=args.std,
            images=args.images,
            count=args.count,
            config=config,
            verbose=args.verbose,
        ) as toolkit:
            _check("export_rknn", toolkit.export_rknn(str(out)))
        print(f"{out}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
