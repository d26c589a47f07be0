"""Commands that rknn-toolkit2 2.3.2 writes wrongly, and those that fail the emulator's trial."""

from __future__ import annotations

import os

from rknn_runtime.sim.emulator import Emulator, EmulatorError

__all__ = ["toolkit_faults"]


def toolkit_faults(
    model: str | os.PathLike[str] | bytes, *, is_tried: bool = True
) -> tuple[str, ...]:
    """Find layers whose commands are known to be wrong, or give other results than their operator.

    Boards execute the former, too. Of the latter nobody knows whether the commands are wrong or are
    read wrongly here.

    Args:
        model: The file's path, or its bytes.
        is_tried: Also try the commands on random values, which takes longer than all the rest.

    Returns:
        For each such layer a sentence with its name, what is wrong, and what to do. Nothing
        for a file that the emulator cannot open.
    """
    try:
        emulator = Emulator(model)
        nodes = emulator.nodes if is_tried else emulator.untried
    except EmulatorError:
        return ()
    return tuple(f"{node.op} {node.name}: {node.reason}" for node in nodes if node.is_faulty)
