"""The vendor's converter, rknn-toolkit2, as far as a network of vectors needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.errors import RknnError

__all__ = ["build"]

_HOW_TO_INSTALL = (
    "converting needs the vendor's rknn-toolkit2, on x86-64 or 64-bit ARM Linux with Python 3.8 to "
    "3.12: pip install rknn-toolkit2==2.3.2 'setuptools<82' 'onnx<=1.18'"
)


def build(
    onnx: bytes, target: str, custom_string: str, examples: Array | None, folder: Path
) -> Path:
    """Convert an ONNX file.

    Args:
        onnx: the file.
        target: the SoC, as the toolkit spells it.
        custom_string: for the model.
        examples: ``(n, batch, features) float32``: inputs to quantize with; None: float16.
        folder: an empty one, for all that is written.

    Returns:
        The ``.rknn`` file in the folder.

    Raises:
        ImportError: the toolkit is missing; says what to install.
        RknnError: it refused.
    """
    try:
        from rknn.api import RKNN
    except ImportError as error:
        raise ImportError(f"{_HOW_TO_INSTALL} ({error})") from error
    source, made = folder / "network.onnx", folder / "network.rknn"
    source.write_bytes(onnx)
    dataset = None if examples is None else _written(examples, folder)
    toolkit = RKNN()
    try:
        config: dict[str, Any] = {"target_platform": target, "custom_string": custom_string}
        _checked("config", lambda: toolkit.config(**config))
        _checked("load_onnx", lambda: toolkit.load_onnx(str(source)))
        quantized = dataset is not None
        _checked("build", lambda: toolkit.build(do_quantization=quantized, dataset=dataset))
        _checked("export_rknn", lambda: toolkit.export_rknn(str(made)))
    finally:
        toolkit.release()
    return made


def _checked(call: str, work: Callable[[], object]) -> None:
    """Do a step; the toolkit returns -1, raises what it likes, or ends the program."""
    try:
        result = work()
    except (Exception, SystemExit) as error:
        raise RknnError(f"rknn-toolkit2 failed in {call}: {error}") from error
    if result not in (0, None):
        raise RknnError(f"rknn-toolkit2 failed in {call} with {result}: see what it printed")


def _written(examples: Array, folder: Path) -> str:
    """Write inputs as the toolkit reads them, and the list of their files."""
    paths = []
    for i, rows in enumerate(examples):
        paths.append(folder / f"example{i}.npy")
        np.save(paths[-1], rows)
    listing = folder / "examples.txt"
    listing.write_text("".join(f"{path}\n" for path in paths), "utf-8")
    return str(listing)
