"""What the emulated NPU tells of a model: each node's verdict, and how far int8 leaves float."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rknn_runtime._ffi import lib

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Comparison",
    "Emulation",
    "NodeInfo",
    "TensorComparison",
    "TensorInfo",
    "Verdict",
]


class Verdict(IntEnum):
    """What is known about the result of a node."""

    #: Its commands are executed; every bit as the NPU is known to compute it.
    EXACT = lib.RKR_EMU_EXACT
    #: Executed or computed in floating point: close, not every bit.
    FLOAT = lib.RKR_EMU_FLOAT
    #: Not understood: the model does not run.
    REFUSED = lib.RKR_EMU_REFUSED
    #: Nothing to do: the ends of the graph.
    NOTHING = lib.RKR_EMU_NOTHING


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of the graph."""

    index: int
    name: str
    #: Logical, in the exporting framework's order.
    shape: tuple[int, ...]
    #: None: a type that is not read.
    dtype: np.dtype[Any] | None
    is_image: bool
    #: ``real = (value - zero_point) * scale``; 0.0 where it is not quantized.
    scale: float
    zero_point: int
    native_shape: tuple[int, ...]
    native_bytes: int


@dataclass(frozen=True)
class NodeInfo:
    """One node of the graph and how it is run."""

    index: int
    op: str
    name: str
    verdict: Verdict
    #: Why it is not `Verdict.EXACT`; may be empty.
    reason: str
    #: Tasks of the NPU that are executed; 0: computed from its tensors.
    tasks: int
    #: Indices of tensors.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class Emulation:
    """How a model runs on the emulated NPU; ``str()`` is a summary of one line.

    It executes the commands of the file; it has not yet been compared with a board.
    """

    #: As the file names it: ``"rk3588"``.
    soc: str
    #: Of the graph that runs, in the order in which they are executed.
    nodes: tuple[NodeInfo, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many nodes have this verdict."""
        return sum(node.verdict == verdict for node in self.nodes)

    @property
    def is_runnable(self) -> bool:
        """Whether no node is refused."""
        return not self.count(Verdict.REFUSED)

    def __str__(self) -> str:
        counts = ", ".join(
            f"{self.count(verdict)} {verdict.name.lower()}"
            for verdict in (Verdict.EXACT, Verdict.FLOAT, Verdict.REFUSED)
        )
        return f"emulated {self.soc}: {counts}"


@dataclass(frozen=True)
class TensorComparison:
    """A tensor on the emulated NPU beside the same one of the ONNX file, in float."""

    name: str
    #: The node that computes it: ``"ConvRelu"``.
    op: str
    #: Logical, in the exporting framework's order.
    shape: tuple[int, ...]
    #: Of the two as vectors: 1.0 is the same direction.
    cosine: float
    #: Largest difference, in the tensor's own unit.
    error: float
    #: One quantization step; 0.0 where the tensor is not quantized.
    step: float
    #: Part of the values, 0 to 1, that lie outside of the range of the type.
    saturated: float
    #: ``(channel, cosine)`` of the worst three of a tensor of rank 4.
    worst_channels: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Comparison:
    """A walk along the graph; ``str()`` is a table."""

    #: In the order in which they are computed.
    tensors: tuple[TensorComparison, ...]
    #: Names of tensors that the ONNX file does not have, or not in this size.
    missing: tuple[str, ...]

    def worst(self, count: int = 5) -> tuple[TensorComparison, ...]:
        """Return the tensors with the smallest cosines, smallest first."""
        return tuple(sorted(self.tensors, key=lambda tensor: tensor.cosine)[:count])

    def __str__(self) -> str:
        from rknn_runtime._files import printable_lines  # of what a model loads, nothing else

        rows = [f"{'cosine':>8} {'error':>10} {'step':>10} {'clipped':>8}  tensor"]
        rows += [
            f"{t.cosine:8.5f} {t.error:10.4g} {t.step:10.4g} {t.saturated:8.2%}  {t.name} ({t.op})"
            for t in self.tensors
        ]
        if self.missing:
            rows.append(f"not in the ONNX file: {', '.join(self.missing)}")
        return printable_lines(rows)
