"""What ``rknn-runtime info --emulate`` adds: how the model runs on the emulated NPU."""

from __future__ import annotations

from typing import Any

from rknn_runtime.emulation import Emulation, Verdict

__all__ = ["as_json", "emulate", "lines", "summary"]

#: Nodes that a page lists; a network in float16 has hundreds of them.
MOST_NODES = 20


def emulate(model: str) -> Emulation | str:
    """Open a model on the emulated NPU; where that fails, return why."""
    # Only here: nothing else of the command line opens the simulated runtime.
    from rknn_runtime.sim.emulator import Emulator, EmulatorError

    try:
        return Emulator(model).emulation
    except EmulatorError as error:
        return str(error)


def summary(found: Emulation | str) -> str:
    """A few words for a table."""
    if isinstance(found, str):
        return "refused"
    return "runs" if found.is_runnable else f"{found.count(Verdict.REFUSED)} nodes refused"


def lines(found: Emulation | str) -> list[list[str]]:
    """The rows for one model: a summary, then the nodes that are not exact, with the reason."""
    if isinstance(found, str):
        return [[f"refused: {found}"]]
    nodes = [node for node in found.nodes if node.verdict in (Verdict.FLOAT, Verdict.REFUSED)]
    nodes.sort(key=lambda node: node.verdict is not Verdict.REFUSED)
    rows = [[f"{found}; not yet compared with a board"]]
    rows += [
        [f"  {node.verdict.name.lower()}: {node.op} {node.name}: {node.reason}"]
        for node in nodes[:MOST_NODES]
    ]
    if len(nodes) > MOST_NODES:
        rows.append([f"  and {len(nodes) - MOST_NODES} more"])
    return rows


def as_json(found: Emulation | str) -> dict[str, Any]:
    """The same with stable keys, and all nodes."""
    if isinstance(found, str):
        return {"refused": found, "nodes": []}
    keys = ("op", "name", "reason", "tasks")
    return {
        "refused": None,
        "nodes": [
            {"verdict": node.verdict.name, **{key: getattr(node, key) for key in keys}}
            for node in found.nodes
        ],
    }
