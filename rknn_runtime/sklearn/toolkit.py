"""The vendor's converter, rknn-toolkit2, as far as a network of vectors needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array

__all__ = ["build"]


def build(
    onnx: bytes, target: str, custom_string: str, examples: Array | None, folder: Path
) -> Path:
    """Convert an ONNX file, in this process where it has the toolkit, else in one of its own.

    Args:
        onnx: The file.
        target: The SoC, as the toolkit spells it.
        custom_string: For the model.
        examples: ``(n, batch, features) float32``: inputs to quantize with; None: float16.
        folder: An empty one, for all that is written.

    Returns:
        The ``.rknn`` file in the folder.

    Raises:
        OSError: The toolkit's environment cannot be written.
        RknnError: The toolkit cannot be installed, or refused.
    """
    # Boards do not convert.
    from rknn_runtime.conversion.environment import toolkit_python
    from rknn_runtime.conversion.toolkit import run_job

    source, made = folder / "network.onnx", folder / "network.rknn"
    source.write_bytes(onnx)
    dataset = None if examples is None else _written(examples, folder)
    job: dict[str, Any] = {
        "config": {"target_platform": target, "custom_string": custom_string},
        "load": {"call": "load_onnx", "arguments": {"model": str(source)}},
        "build": {"do_quantization": dataset is not None, "dataset": dataset},
        "export": str(made),
    }
    run_job(None if _is_here() else toolkit_python(), job)
    return made


def _is_here() -> bool:
    """Whether this Python has the toolkit itself."""
    try:
        import rknn.api  # noqa: F401
    except ImportError:
        return False
    return True


def _written(examples: Array, folder: Path) -> str:
    """Write inputs as the toolkit reads them, and the list of their files."""
    paths = []
    for i, rows in enumerate(examples):
        paths.append(folder / f"example{i}.npy")
        np.save(paths[-1], rows)
    listing = folder / "examples.txt"
    listing.write_text("".join(f"{path}\n" for path in paths), "utf-8")
    return str(listing)
