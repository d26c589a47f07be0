"""Wrong commands that rknn-toolkit2 2.3.2 is known to write: boards execute them, too."""

from __future__ import annotations

import os

from rknn_runtime.sim.emulator import Emulator, EmulatorError

__all__ = ["toolkit_faults"]


def toolkit_faults(model: str | os.PathLike[str] | bytes) -> tuple[str, ...]:
    """Find layers whose commands are known to be wrong.

    Args:
        model: The file's path, or its bytes.

    Returns:
        For each such layer a sentence with its name, what is wrong, and how to avoid it. Nothing
        for a file that the emulator cannot open.
    """
    try:
        nodes = Emulator(model).nodes
    except EmulatorError:
        return ()
    return tuple(f"{node.op} {node.name}: {node.reason}" for node in nodes if node.is_faulty)
