"""Which layer of a network suffers from quantization: the toolkit's accuracy analysis."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rknn_runtime.conversion.accuracy.analysis import Analysis, read_analysis
from rknn_runtime.conversion.calibration import images_in, listing, written
from rknn_runtime.conversion.environment import DEFAULT_VERSION, toolkit_python
from rknn_runtime.conversion.options import soc_named
from rknn_runtime.conversion.plan import plan_of
from rknn_runtime.conversion.toolkit import run_job

__all__ = ["analyse"]

#: What the analysis leaves in its folder.
ANALYSIS = "error_analysis.txt"


def analyse(
    model: str | os.PathLike[str],
    target: str,
    calibrate: str | os.PathLike[str],
    *,
    image: str | os.PathLike[str] | None = None,
    keep_graph: bool = False,
    color: str = "RGB",
    mean: Sequence[float] = (0, 0, 0),
    std: Sequence[float] = (255, 255, 255),
    algorithm: str = "normal",
    limit: int = 100,
    device: bool | str = False,
    toolkit: str = DEFAULT_VERSION,
    environment: str | os.PathLike[str] | None = None,
    python: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Analysis:
    """Quantize a network of one image with rknn-toolkit2, and have it judge every layer.

    The toolkit runs in the environment of its own that `convert` keeps.

    Args:
        model: An ``.onnx`` file.
        target: The SoC: ``"rk3588"``.
        calibrate: A folder of images to quantize with; they are letterboxed into the input.
        image: The image, or ``.npy`` file, to judge with. None: the first of the folder.
        keep_graph: Do not cut the head off in front of which `convert` ends the network.
        color: Channels of the input, ``"RGB"`` or ``"BGR"``.
        mean: Of the channels, in units of pixels.
        std: What to divide them by.
        algorithm: The toolkit's ``quantized_algorithm``.
        limit: Images to calibrate with at most, evenly out of the folder.
        device: Also run each layer on a board that is connected over USB: True, or its name as
            ``adb devices`` lists it.
        toolkit: Its version.
        environment: Where its environments are kept; see `convert`.
        python: The program to make one with.
        progress: Called with a line about each step.

    Returns:
        The analysis.

    Raises:
        InvalidModelError: The model, or what the toolkit wrote, cannot be read.
        OSError: A file cannot be read.
        RknnError: The toolkit cannot be installed, or failed; the message has its reason.
        TypeError: An argument of another type.
        ValueError: The network takes something else than one image, or an argument that is
            not known.
    """
    soc = soc_named(target).name
    source = Path(model)
    if source.suffix.lower() != ".onnx":
        raise ValueError(f"model: expected an .onnx file, got {source.name!r}")
    images = images_in(calibrate, "calibrate", limit)
    plan = plan_of(source, {}, keep_graph, "auto", None, color)
    if plan.size is None or plan.onnx is None:
        raise ValueError("model: expected a network that takes one image, got another")
    program = toolkit_python(toolkit, folder=environment, python=python, progress=progress)
    with tempfile.TemporaryDirectory(prefix="rknn-analysis-") as name:
        folder = Path(name)
        network = folder / "network.onnx"
        network.write_bytes(plan.onnx)
        paths = written(images, plan.size, plan.color, folder)
        judged = paths[:1]
        if image is not None:
            (folder / "judged").mkdir()
            judged = written([Path(image)], plan.size, plan.color, folder / "judged")
        arguments: dict[str, object] = {"inputs": judged, "output_dir": str(folder / "snapshot")}
        if device is not False:
            arguments["target"] = soc
            arguments["device_id"] = None if device is True else device
        job = {
            "config": {
                "target_platform": soc,
                "mean_values": [list(mean)[: plan.channels]],
                "std_values": [list(std)[: plan.channels]],
                "quantized_algorithm": algorithm,
            },
            "load": {"call": "load_onnx", "arguments": {"model": str(network)}},
            "build": {"do_quantization": True, "dataset": listing(paths, folder)},
            "accuracy_analysis": arguments,
        }
        run_job(program, job, progress)
        return read_analysis(folder / "snapshot" / ANALYSIS)
