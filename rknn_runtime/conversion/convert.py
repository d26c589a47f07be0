"""Convert a trained network to a ``.rknn`` file, on a PC."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, as_float, as_list
from rknn_runtime._files import replace_file
from rknn_runtime.conversion.calibration import images_in, listing, written
from rknn_runtime.conversion.environment import DEFAULT_VERSION, VERSIONS, toolkit_python
from rknn_runtime.conversion.judge import ScoreFunction
from rknn_runtime.conversion.ladder import ALL, STEPS, Build, climb
from rknn_runtime.conversion.options import (
    LOADERS,
    check_names,
    check_possible,
    check_torchscript,
)
from rknn_runtime.conversion.plan import Plan, custom_string, plan_of
from rknn_runtime.conversion.report import Conversion, decoder_options, judged
from rknn_runtime.conversion.simulation import Ranges
from rknn_runtime.conversion.toolkit import run_job
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.soc import soc_named
from rknn_runtime.sim.faults import toolkit_faults
from rknn_runtime.vision.images import IMAGE_SUFFIXES
from rknn_runtime.vision.labels import Labels
from rknn_runtime.vision.tasks import TASKS


def convert(
    model: str | os.PathLike[str],
    soc: str,
    path: str | os.PathLike[str] | None = None,
    *,
    target: float | None = None,
    effort: float = 15,
    score: ScoreFunction | None = None,
    without: Sequence[str] = (),
    calibrate: str | os.PathLike[str] | None = None,
    evaluate: str | os.PathLike[str] | None = None,
    keep_graph: bool = False,
    head: str = "auto",
    task: str | None = None,
    labels: Labels | str | os.PathLike[str] | None = None,
    color: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    config: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
    build: Mapping[str, Any] | None = None,
    report: bool = True,
    limit: int = 100,
    toolkit: str = DEFAULT_VERSION,
    environment: str | os.PathLike[str] | None = None,
    python: str | None = None,
    with_torch: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Conversion:
    """Convert a network with the vendor's rknn-toolkit2, which is installed on first use.

    The graph of a detector is cut before its boxes and scores are joined, so that each gets its
    own scale in int8. The file holds its head, so ``Detector(Model(path))`` needs nothing else.

    Args:
        model: An ``.onnx`` file with fixed shapes. The toolkit also reads ``.tflite``, TorchScript
            (``.pt``, with `with_torch`), ``.prototxt``, ``.cfg`` and ``.pb``, which are not cut.
        soc: The SoC, such as ``"rk3588"``.
        path: The file to write, replaced only after success. None: ``NAME_TARGET.rknn`` beside
            the model.
        target: The part of the float network's results to keep, up to 1.0, judged on images outside
            of the calibration: of its objects, by the measure of the task (equal texts, mIoU,
            PCK), of its top-1 classes, else the worst cosine of an output. Steps of rising cost are
            tried until it is reached, and the best file is written. None: the toolkit's int8 alone.
        effort: Minutes to spend on that. Repeat an interrupted call to continue it.
        score: A judge to use instead: called with the outputs of the float network and of the file
            for one image, it returns 0..1.
        without: Steps to leave out, by the names that the report has.
        calibrate: A folder of images to quantize with, letterboxed as by `Detector`, or for a text
            recognizer of PaddleOCR placed as by `TextRecognizer`; or a ``.txt`` file in the
            toolkit's form, for networks that take no image. None: float16.
        evaluate: A folder of images to judge by. None: the images of `calibrate`, for `target` in
            variants.
        keep_graph: Do not cut the graph.
        head: The head, as for `Detector`; ``"auto"`` finds it.
        task: The task of the network, by which the commands use it and files are judged, such
            as ``"semantic"``, a key of `rknn_runtime.vision.tasks.TASKS`. Other tasks than
            ``"detect"`` are not cut. None: as the ``.onnx`` file or its family shows.
        labels: Names of the classes, or a file of them. None: those of the ``.onnx`` file.
        color: The colour order of the input, ``"RGB"`` or ``"BGR"``. None: that of the network's
            family, such as BGR for YOLOX, else RGB.
        mean: The mean of each channel, in 0..255, which the NPU subtracts. None: the family's, if
            `std` is not given either, else 0.
        std: The divisor of each channel. None: the family's, if `mean` is not given either, else
            255.
        config: Further parameters of the toolkit's ``config``.
        load: Further parameters of its ``load_onnx`` (or ``load_...``).
        build: Further parameters of its ``build``.
        report: Compare the file with the float network, on the simulated NPU.
        limit: The largest number of images, evenly spread over a folder.
        toolkit: The version of the toolkit.
        environment: The place of the toolkit's environments; None: the user's cache.
        python: The Python to make an environment with; None: this one, or one on the ``PATH``.
        with_torch: Also install PyTorch (5.5 GB), which only TorchScript needs.
        progress: Called with a line about each step.

    Returns:
        The file, the cut, and the report.

    Raises:
        ImportError: Pillow is missing, for images.
        InvalidModelError: The file is no network.
        OSError: A file cannot be read or written.
        RknnError: The toolkit cannot be installed, or failed with a `ToolkitError`.
        ValueError: An argument does not fit the network or the SoC.
    """
    say = progress or (lambda line: None)
    chip = soc_named(soc, "soc")
    source = Path(os.fspath(model))
    call = _loader(source)
    if color not in ("RGB", "BGR", None):
        raise ValueError(f'color: expected "RGB" or "BGR", got {color!r}')
    if toolkit not in VERSIONS:
        raise ValueError(f"toolkit: expected {' or '.join(VERSIONS)}, got {toolkit!r}")
    if call == "load_pytorch":
        check_torchscript(source)
    config, load, build = (
        _parameters(group, name, each, toolkit)
        for group, name, each in (
            ("config", "config", config), ("load", call, load), ("build", "build", build)
        )
    )  # fmt: skip
    if call == "load_pytorch" and not with_torch:
        raise ValueError(
            "with_torch: expected True for TorchScript, got False: the toolkit loads it with "
            "PyTorch, which takes 5.5 GB; an .onnx file does not need it"
        )
    if task not in (None, *TASKS):
        raise ValueError(f"task: expected one of {', '.join(TASKS)}, got {task!r}")
    plan = plan_of(source, load, keep_graph, head, labels, color, task)
    notes, family = list(plan.notes), plan.family
    is_given = mean is not None or std is not None or {"mean_values", "std_values"} & set(config)
    if family is not None and not is_given:
        mean, std = family.mean, family.std
        notes.append(str(family if color is None else family._replace(color=color)))
    if plan.image is not None and not is_given:
        notes.append(
            f"{plan.image!r} gets pixels as the network expects them: with several inputs nothing "
            "is normalized unless mean_values and std_values say how, with a row for each input"
        )
    if is_given or plan.channels in (1, 3):  # else the input is no image
        config.setdefault("mean_values", _numbers((0, 0, 0) if mean is None else mean, "mean"))
        config.setdefault("std_values", _numbers((255, 255, 255) if std is None else std, "std"))
    color = plan.color if color is None else color
    notes += check_possible(chip, calibrate is not None, config, plan.operators)
    images = _images(calibrate, "calibrate", limit)
    shown = _images(evaluate, "evaluate", limit) or images or _listed(calibrate, plan, limit)
    if images and plan.size is None:
        raise ValueError(
            "calibrate: expected a .txt file in the toolkit's form for a network that takes "
            "no image, got a folder"
        )
    if target is not None:
        _check_climb(target, plan, images, config, build, without)
    said, has_labels = custom_string(
        plan.head, plan.labels, plan.task, plan.size, color, characters=plan.characters
    )
    place = source.with_name(f"{source.stem}_{chip.name}.rknn") if path is None else Path(path)
    keys = None
    if not has_labels and plan.labels is None:
        keys = place.with_suffix(".txt")
        notes.append(
            f"the characters do not fit into the file: give characters={str(keys)!r} to "
            "TextRecognizer, or --labels to rknn-runtime detect"
        )
    elif not has_labels:
        notes.append("the names of the classes do not fit into the file: give labels= to Detector")
    runner = toolkit_python(
        toolkit, folder=environment, python=python, with_torch=with_torch, progress=say
    )
    with tempfile.TemporaryDirectory(prefix="rknn-convert-") as name:
        folder = Path(name)
        network = source.resolve()
        if plan.onnx is not None:
            network = folder / "network.onnx"
            network.write_bytes(plan.onnx)
        key = "tf_pb" if call == "load_tensorflow" else "model"
        job = {
            "config": _config(config, plan, chip.name, said),
            "load": {"call": call, "arguments": {key: str(network), **plan.load}},
            "build": {
                "do_quantization": calibrate is not None,
                "dataset": _dataset(calibrate, images, plan, folder),
                **build,
            },
            "export": str(folder / "network.rknn"),
        }
        climbed, log = None, ""
        if target is None:
            log = run_job(runner, job, say)
            replace_file(place, Path(folder, "network.rknn").read_bytes())
        else:
            means, stds = (config[key][0][: plan.channels] for key in ("mean_values", "std_values"))
            given = Preprocessing(tuple(means), tuple(stds), rgb2bgr=False)
            climbed = climb(
                plan, images, shown if evaluate else (), given,
                decoder_options(plan), _builder(runner, job, folder), chip, target, place, effort,
                say, score, without,
            )  # fmt: skip
        notes += toolkit_faults(place)
        if keys is not None:
            replace_file(keys, "".join(f"{each}\n" for each in plan.characters or "").encode())
        found = None
        if report and shown and plan.onnx is not None and plan.size is not None:
            say("comparing with the network in float")

            def simulate(given: Sequence[Path]) -> list[list[Array]]:
                return _simulated(runner, job, plan, given, folder, say)

            found = judged(place, plan, shown, folder, config, simulate, notes)
    return Conversion(
        place, chip.name, plan.cut, plan.head.name if plan.head else plan.read_as, tuple(notes),
        found, log, climbed, plan.task,
    )  # fmt: skip


def _check_climb(
    target: float,
    plan: Plan,
    images: Sequence[Path],
    config: Mapping[str, Any],
    build: Mapping[str, Any],
    without: Sequence[str],
) -> None:
    """Refuse options that a climb cannot have."""
    if not 0 < as_float(target, "target") <= 1:
        raise ValueError(f"target: expected a number above 0 and up to 1, got {target!r}")
    for step in without:
        if step not in STEPS or step == "toolkit":
            known = ", ".join(name for name in STEPS if name != "toolkit")
            raise ValueError(f"without: expected names of {known}, got {step!r}")
    if plan.onnx is None or not images:
        lacking = "no images" if plan.onnx else "another model"
        raise ValueError(
            "target: expected an .onnx file of one image and a folder of images to calibrate "
            f"with, got {lacking}"
        )
    usual = {"quantized_algorithm": "normal", "quantized_method": "channel"}
    given = {name: config[name] for name in usual if config.get(name, usual[name]) != usual[name]}
    for name in ("quantized_dtype", "dynamic_input"):
        given.update({name: config[name]} if config.get(name) else {})
    if given or build:
        name, value = next(iter({**given, **build}.items()))
        raise ValueError(f"{name}: expected none with a target, got {value!r}")


def _builder(runner: str, job: Mapping[str, Any], folder: Path) -> Build:
    """Return what builds files with ranges and types of our own."""
    one = folder / "one.txt"

    def build(
        onnx: bytes, ranges: Ranges, wide: Sequence[str], stored: Sequence[str], path: Path
    ) -> dict[str, Any]:
        network, table = folder / "network.onnx", folder / "ranges.json"
        network.write_bytes(onnx)
        dataset = Path(job["build"]["dataset"])
        if ranges:  # the images no longer matter
            one.write_text(dataset.read_text("utf-8").split("\n")[0] + "\n", "utf-8")
            dataset = one
        made = folder / "network.rknn"
        load = {**job["load"]["arguments"], "model": str(network)}
        steps = {"config": job["config"], "load": {**job["load"], "arguments": load}}
        if ALL in wide:
            steps["build"] = {"do_quantization": False}
            table.write_text("{}", "utf-8")
        else:
            steps["hybrid"] = {
                "dataset": str(dataset), "name": network.stem, "table": str(table),
                "ranges": {name: list(pair) for name, pair in ranges.items()},
                "wide": list(wide), "stored": list(stored),
            }  # fmt: skip
        run_job(runner, {**steps, "export": str(made)})
        shutil.move(made, path)
        found: dict[str, Any] = json.loads(table.read_text("utf-8"))
        return found

    return build


def _loader(source: Path) -> str:
    if source.suffix.lower() not in LOADERS:
        raise ValueError(
            f"model: expected a file of {', '.join(LOADERS)}, got {str(source)!r}; export a "
            "network of Ultralytics with: yolo export model=best.pt format=onnx"
        )
    if not source.is_file():
        raise FileNotFoundError(2, "No such file", str(source))
    return LOADERS[source.suffix.lower()]


def _parameters(
    group: str, call: str, given: Mapping[str, Any] | None, version: str
) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{group}: expected a mapping, got {type(given).__name__}")
    check_names(call, given or {}, version)
    return dict(given or {})


def _numbers(values: Sequence[float], name: str) -> list[list[float]]:
    try:
        return [[float(value) for value in as_list(values, name, "a list of numbers")]]
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number for each channel, got {values!r}") from None


def _images(folder: str | os.PathLike[str] | None, name: str, limit: int) -> list[Path]:
    """List the images of a folder; none for a list in the toolkit's form."""
    if folder is None or os.fspath(folder).endswith(".txt"):
        return []
    return images_in(folder, name, limit)


def _listed(calibrate: str | os.PathLike[str] | None, plan: Plan, limit: int) -> list[Path]:
    """Return the images that a list in the toolkit's form names, for a network of one image."""
    if calibrate is None or plan.size is None:
        return []
    place = Path(calibrate)
    lines = [line.strip() for line in place.read_text("utf-8").splitlines() if line.strip()]
    found = [Path(line) if Path(line).exists() else place.parent / line for line in lines[:limit]]
    are_images = all(path.suffix.lower() in IMAGE_SUFFIXES and path.exists() for path in found)
    return found if are_images else []


def _config(given: Mapping[str, Any], plan: Plan, target: str, said: str) -> dict[str, Any]:
    """Complete the arguments of the toolkit's ``config``."""
    config = {**given, "target_platform": target}
    if plan.channels == 1:
        for name in ("mean_values", "std_values"):
            if len(config[name]) == 1:
                config[name] = [config[name][0][:1]]
    if said:
        config.setdefault("custom_string", said)
    return config


def _dataset(
    calibrate: str | os.PathLike[str] | None, images: Sequence[Path], plan: Plan, folder: Path
) -> str | None:
    if images and plan.size is not None:
        return listing(written(images, plan.size, plan.color, folder, plan.fit), folder)
    return None if calibrate is None else str(Path(calibrate).resolve())


def _simulated(
    runner: str,
    job: Mapping[str, Any],
    plan: Plan,
    images: Sequence[Path],
    folder: Path,
    say: Callable[[str], None],
) -> list[list[Array]]:
    """Run images on the toolkit's simulator, which builds the network again."""
    inputs, outputs = folder / "inputs", folder / "outputs"
    inputs.mkdir()
    outputs.mkdir()
    assert plan.size is not None
    paths = written(images, plan.size, plan.color, inputs, plan.fit)
    simulate = {"inputs": [[path] for path in paths], "folder": str(outputs)}
    steps = {name: step for name, step in job.items() if name != "export"}
    run_job(runner, {**steps, "simulate": simulate}, say)
    found = []
    for i in range(len(paths)):
        with np.load(outputs / f"{i}.npz") as arrays:
            found.append([arrays[name] for name in arrays.files])
    return found
