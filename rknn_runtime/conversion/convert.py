"""From a trained network to a ``.rknn`` file, on a PC."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, as_list
from rknn_runtime._files import printable_lines, replace_file
from rknn_runtime.conversion.calibration import images_in, listing, written
from rknn_runtime.conversion.environment import DEFAULT_VERSION, VERSIONS, toolkit_python
from rknn_runtime.conversion.facts import custom_string
from rknn_runtime.conversion.options import (
    LOADERS,
    check_names,
    check_possible,
    check_torchscript,
    soc_named,
)
from rknn_runtime.conversion.plan import Plan, plan_of
from rknn_runtime.conversion.report import ConversionReport, judged
from rknn_runtime.conversion.toolkit import run_job
from rknn_runtime.vision.labels import Labels

__all__ = ["Conversion", "convert"]


@dataclass(frozen=True)
class Conversion:
    """What was made; ``str()`` is the report."""

    #: The ``.rknn`` file.
    path: Path
    #: The SoC.
    target: str
    #: Tensors that the network was cut at; none where it ends as it did.
    cut: tuple[str, ...]
    #: The form of the head, as `Detector.head` names it; None: none is known.
    head: str | None
    #: What to know: warnings, and why nothing was cut.
    notes: tuple[str, ...]
    #: None where it was not asked for, or cannot be made.
    report: ConversionReport | None
    #: All that the toolkit printed.
    log: str = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but the log as plain Python values, ready for JSON."""
        return {
            "file": str(self.path),
            "target": self.target,
            "cut": list(self.cut),
            "head": self.head,
            "notes": list(self.notes),
            "report": self.report and self.report.to_dict(),
        }

    def __str__(self) -> str:
        ends = f"cut at {len(self.cut)} tensors" if self.cut else "ends as it did"
        lines = [f"{self.path}: for {self.target}, {ends}, head {self.head or 'not known'}"]
        lines += [f"note: {note}" for note in self.notes]
        if self.report is not None:
            lines += str(self.report).split("\n")
        return printable_lines(lines)


@dataclass(frozen=True)
class _Request:
    """The arguments of `convert`, checked."""

    model: Path
    target: str
    path: Path
    calibrate: str | os.PathLike[str] | None
    color: str
    config: dict[str, Any]
    load: dict[str, Any]
    build: dict[str, Any]


def convert(
    model: str | os.PathLike[str],
    target: str,
    path: str | os.PathLike[str] | None = None,
    *,
    calibrate: str | os.PathLike[str] | None = None,
    evaluate: str | os.PathLike[str] | None = None,
    keep_graph: bool = False,
    head: str = "auto",
    labels: Labels | str | os.PathLike[str] | None = None,
    color: str = "RGB",
    mean: Sequence[float] = (0, 0, 0),
    std: Sequence[float] = (255, 255, 255),
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
    """Convert a network with the vendor's rknn-toolkit2, which is installed when it is needed.

    A detector's graph is cut in front of what joins its boxes and scores, so that each has a
    scale of its own in int8, and the file says which head it has: ``Detector(Model(path))``
    needs nothing else.

    Args:
        model: An ``.onnx`` file with fixed shapes. Others are handed to the toolkit as they are:
            ``.tflite``, TorchScript (``.pt``, with `with_torch`), ``.prototxt``, ``.cfg``,
            ``.pb``.
        target: The SoC, such as ``"rk3588"``.
        path: Of the file to write, replaced when all has succeeded. None: beside the model,
            ``NAME_TARGET.rknn``.
        calibrate: A folder of images to quantize with, which go through the letterbox of
            `Detector`; or, for networks of something else, a ``.txt`` file in the toolkit's form.
            None: float16.
        evaluate: A folder of images for the report. None: that of `calibrate`.
        keep_graph: Do not cut.
        head: What the network is, as for `Detector`; ``"auto"`` finds it.
        labels: Names of the classes, or a file of them. None: what the ``.onnx`` file says.
        color: Of the network's input, ``"RGB"`` or ``"BGR"``.
        mean: Of each channel, in 0..255, which the NPU subtracts.
        std: What it then divides by.
        config: Further parameters of the toolkit's ``config``, by its names.
        load: Of its ``load_onnx`` (or ``load_...``).
        build: Of its ``build``.
        report: Compare the file with the network in float, on the simulated NPU.
        limit: How many images are taken at most, evenly out of each folder.
        toolkit: Its version.
        environment: Where its environments are kept; None: the user's cache.
        python: To make one with; None: this one, or one of the ``PATH``.
        with_torch: Install PyTorch, too (5.5 GB), which only TorchScript needs.
        progress: Called with a line about each step.

    Returns:
        The file, what was cut, and the report.

    Raises:
        ImportError: Pillow is missing, for images.
        InvalidModelError: The network's file cannot be read.
        OSError: A file cannot be read or written.
        RknnError: The toolkit cannot be installed, or refused: a `ToolkitError`.
        TypeError: An argument of another type.
        ValueError: An argument that does not fit the network or the SoC; says what would.
    """
    say = progress or (lambda line: None)
    soc = soc_named(target)
    request = _checked(model, soc.name, path, calibrate, color, mean, std, config, load, build)
    if toolkit not in VERSIONS:
        raise ValueError(f"toolkit: expected {' or '.join(VERSIONS)}, got {toolkit!r}")
    call = LOADERS[request.model.suffix.lower()]
    if call == "load_pytorch":
        check_torchscript(request.model)
    for name, given in (("config", request.config), (call, request.load), ("build", request.build)):
        check_names(name, given, toolkit)
    if call == "load_pytorch" and not with_torch:
        raise ValueError(
            "with_torch: expected True for TorchScript, got False: the toolkit loads it with "
            "PyTorch, which takes 5.5 GB; an .onnx file needs none of it"
        )
    plan = plan_of(request.model, request.load, keep_graph, head, labels, color)
    notes = list(plan.notes)
    notes += check_possible(soc, calibrate is not None, request.config, plan.operators)
    images = _images(calibrate, "calibrate", limit)
    shown = _images(evaluate, "evaluate", limit) or images
    runner = toolkit_python(
        toolkit, folder=environment, python=python, with_torch=with_torch, progress=say
    )
    with tempfile.TemporaryDirectory(prefix="rknn-convert-") as name:
        folder = Path(name)
        job = _job(request, plan, images, folder, notes)
        log = run_job(runner, job, say)
        made = Path(job["export"])
        replace_file(request.path, made.read_bytes())
        found = None
        if report and shown and plan.onnx is not None and plan.size is not None:
            say("comparing with the network in float")

            def simulate(given: Sequence[Path]) -> list[list[Array]]:
                return _simulated(runner, job, plan, given, folder, say)

            found = judged(request.path, plan, shown, folder, request.config, simulate, notes)
    return Conversion(
        request.path, soc.name, plan.cut, plan.head and plan.head.name, tuple(notes), found, log
    )


def _checked(
    model: str | os.PathLike[str],
    target: str,
    path: str | os.PathLike[str] | None,
    calibrate: str | os.PathLike[str] | None,
    color: str,
    mean: Sequence[float],
    std: Sequence[float],
    config: Mapping[str, Any] | None,
    load: Mapping[str, Any] | None,
    build: Mapping[str, Any] | None,
) -> _Request:
    source = Path(os.fspath(model))
    if source.suffix.lower() not in LOADERS:
        raise ValueError(
            f"model: expected a file of {', '.join(LOADERS)}, got {str(source)!r}; export a "
            "network of Ultralytics with: yolo export model=best.pt format=onnx"
        )
    if not source.is_file():
        raise FileNotFoundError(2, "No such file", str(source))
    if color not in ("RGB", "BGR"):
        raise ValueError(f'color: expected "RGB" or "BGR", got {color!r}')
    for name, group in (("config", config), ("load", load), ("build", build)):
        if group is not None and not isinstance(group, Mapping):
            raise TypeError(f"{name}: expected a mapping, got {type(group).__name__}")
    given = dict(config or {})
    given.setdefault("mean_values", _numbers(mean, "mean"))
    given.setdefault("std_values", _numbers(std, "std"))
    place = source.with_name(f"{source.stem}_{target}.rknn") if path is None else Path(path)
    return _Request(
        source, target, place, calibrate, color, given, dict(load or {}), dict(build or {})
    )


def _numbers(values: Sequence[float], name: str) -> list[list[float]]:
    try:
        return [[float(value) for value in as_list(values, name, "a list of numbers")]]
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number for each channel, got {values!r}") from None


def _images(folder: str | os.PathLike[str] | None, name: str, limit: int) -> list[Path]:
    """Images of a folder; none where there is none, or a list in the toolkit's form."""
    if folder is None or os.fspath(folder).endswith(".txt"):
        return []
    return images_in(folder, name, limit)


def _job(
    request: _Request, plan: Plan, images: list[Path], folder: Path, notes: list[str]
) -> dict[str, Any]:
    """Describe what the toolkit has to do."""
    quantized = request.calibrate is not None
    config = {**request.config, "target_platform": request.target}
    if plan.channels == 1:
        for name in ("mean_values", "std_values"):
            if len(config[name]) == 1:
                config[name] = [config[name][0][:1]]
    elif plan.channels != 3 and request.config["mean_values"] == [[0.0, 0.0, 0.0]]:
        del config["mean_values"], config["std_values"]  # no image
    said, has_labels = custom_string(
        plan.head, plan.labels, plan.task, plan.size, request.color, quantized=quantized
    )
    if said:
        config.setdefault("custom_string", said)
    if not has_labels:
        notes.append("the names of the classes do not fit into the file: give labels= to Detector")
    dataset = None
    if images:
        if plan.size is None:
            raise ValueError(
                "calibrate: expected a .txt file in the toolkit's form for a network that takes "
                "no image, got a folder"
            )
        paths = written(images, plan.size, plan.color, folder)
        dataset = listing(paths, folder)
    elif quantized:
        dataset = str(Path(os.fspath(request.calibrate or "")).resolve())
    source = request.model.resolve()
    if plan.onnx is not None:
        source = folder / "network.onnx"
        source.write_bytes(plan.onnx)
    call = LOADERS[request.model.suffix.lower()]
    key = "tf_pb" if call == "load_tensorflow" else "model"
    return {
        "config": config,
        "load": {"call": call, "arguments": {key: str(source), **plan.load}},
        "build": {"do_quantization": quantized, "dataset": dataset, **request.build},
        "export": str(folder / "network.rknn"),
    }


def _simulated(
    runner: str,
    job: Mapping[str, Any],
    plan: Plan,
    images: Sequence[Path],
    folder: Path,
    say: Callable[[str], None],
) -> list[list[Array]]:
    """Run images on the toolkit's own simulator, which builds the network once more."""
    inputs, outputs = folder / "inputs", folder / "outputs"
    inputs.mkdir()
    outputs.mkdir()
    assert plan.size is not None
    paths = written(images, plan.size, plan.color, inputs)
    simulate = {"inputs": [[path] for path in paths], "folder": str(outputs)}
    steps = {name: step for name, step in job.items() if name != "export"}
    run_job(runner, {**steps, "simulate": simulate}, say)
    found = []
    for i in range(len(paths)):
        with np.load(outputs / f"{i}.npz") as arrays:
            found.append([arrays[name] for name in arrays.files])
    return found
