"""Commands that rknn-toolkit2 2.3.2 writes wrongly, and those that fail the emulator's trial."""

from __future__ import annotations

import os

from rknn_runtime.sim.emulator import Emulator, EmulatorError

__all__ = ["toolkit_faults"]


def toolkit_faults(model: str | os.PathLike[str] | bytes) -> tuple[str, ...]:
    """Find layers whose commands are known to be wrong, or give other results than their operator.

    Boards execute the former, too. Of the latter nobody knows whether the commands are wrong or are
    read wrongly here.

    Args:
        model: The file's path, or its bytes.

    Returns:
        For each such layer a sentence with its name, what is wrong, and what to do. Nothing
        for a file that the emulator cannot open.
    """
    try:
        nodes = Emulator(model).nodes
    except EmulatorError:
        return ()
    return tuple(f"{node.op} {node.name}: {node.reason}" for node in nodes if node.is_faulty)
