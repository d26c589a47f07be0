"""Run a ``.rknn`` file on this machine: its NPU commands are executed, task by task.

No runtime of the vendor, no ONNX, no board. The known commands are executed; results have not been
compared with a board yet. Unknown commands are refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import as_int, plain
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import read_file
from rknn_runtime.errors import RknnError, UnavailableError
from rknn_runtime.npu.library import Library, open_library

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

__all__ = ["Emulation", "Emulator", "EmulatorError", "Machine", "NodeInfo", "TensorInfo", "Verdict"]

TEXT_BYTES = 512
#: What rknn_init takes.
MAX_MODEL_BYTES = 2**32 - 1
ALL_NODES = 2**32 - 1
#: Element types, numbered as in ONNX.
_NAMES = "float32 uint8 int8 uint16 int16 int32 int64 - bool float16"
DTYPES = {i: np.dtype(name) for i, name in enumerate(_NAMES.split(), 1) if name != "-"}


class Verdict(IntEnum):
    """How well the result of a node is known, best first."""

    #: Its commands are executed; every bit as the NPU is known to compute it.
    EXACT = lib.RKR_EMU_EXACT
    #: The same, but no network has proven commands of this kind on this SoC.
    DECODED = lib.RKR_EMU_DECODED
    #: Executed or computed in floating point: close, not every bit.
    FLOAT = lib.RKR_EMU_FLOAT
    #: Computed in floating point by a formula of which the file has only a part.
    ASSUMED = lib.RKR_EMU_ASSUMED
    #: Unknown: the model cannot run.
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
    #: None: a type that cannot be read.
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
    #: Why it is less than `Verdict.EXACT`; may be empty.
    reason: str
    #: Tasks of the NPU that are executed; 0: computed from its tensors.
    tasks: int
    #: Indices of tensors.
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    #: Whether the toolkit is known to make wrong commands for it, which boards execute, too, or its
    #: commands failed a trial; the reason says what to do.
    is_faulty: bool = False


@dataclass(frozen=True)
class Emulation:
    """How a model runs on the emulated NPU; ``str()`` is a summary of one line.

    It executes the commands of the file; it has not yet been compared with a board.
    """

    #: As the file names it: ``"rk3588"``.
    soc: str
    #: Nodes of the graph that runs, in execution order.
    nodes: tuple[NodeInfo, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many nodes have this verdict."""
        return sum(node.verdict == verdict for node in self.nodes)

    @property
    def uncertain(self) -> list[NodeInfo]:
        """The inexact nodes, the least known first."""
        known = (Verdict.EXACT, Verdict.NOTHING)
        nodes = [node for node in self.nodes if node.verdict not in known]
        return sorted(nodes, key=lambda node: -node.verdict)

    @property
    def is_runnable(self) -> bool:
        """Whether no node is refused."""
        return not self.count(Verdict.REFUSED)

    def __str__(self) -> str:
        always = (Verdict.EXACT, Verdict.FLOAT, Verdict.REFUSED)
        counts = ", ".join(
            f"{self.count(verdict)} {verdict.name.lower()}"
            for verdict in Verdict
            if verdict in always or (verdict is not Verdict.NOTHING and self.count(verdict))
        )
        return f"emulated {self.soc}: {counts}"


class EmulatorError(RknnError):
    """The emulated NPU cannot execute this model; the message names the reason."""


class Machine:
    """An emulator that somebody else opened, closes and protects from other threads."""

    def __init__(self, handle: Any, library: Library) -> None:
        self._library = library
        self._handle = handle
        info = ffi.new("rkr_emu_info *")
        self._check_status(self._function("get_info")(self._handle, info))
        #: As the file names it: ``"rk3588"``.
        self.soc = _text(info.soc)
        self.toolkit = _text(info.toolkit)
        #: Graphs in the file: one per shape of a dynamic model.
        self.graphs = int(info.graphs)
        self.model_bytes = int(info.model_bytes)
        self.internal_bytes = int(info.internal_bytes)
        #: Multiplications of one run.
        self.multiplications = int(info.multiplications)
        self._tasks = int(info.tasks)
        self.tensors = tuple(self._tensor(index) for index in range(info.tensors))
        self._node_count = int(info.nodes)
        self.inputs = tuple(self.tensors[i] for i in self._indices("get_inputs", info.inputs))
        self.outputs = tuple(self.tensors[i] for i in self._indices("get_outputs", info.outputs))

    def _function(self, name: str) -> Any:
        return ffi.cast(f"rkr_emu_{name}_fn *", self._library.symbol(f"rkr_emu_{name}"))

    def _check_status(self, status: int) -> None:
        if status != lib.RKR_OK:
            raise EmulatorError(_text(self._function("error")(self._handle)) or f"status {status}")

    def _indices(self, name: str, count: int) -> list[int]:
        indices = ffi.new("uint32_t[]", max(count, 1))
        self._check_status(self._function(name)(self._handle, indices))
        return [indices[i] for i in range(count)]

    def _tensor(self, index: int) -> TensorInfo:
        raw = ffi.new("rkr_emu_tensor *")
        self._check_status(self._function("get_tensor")(self._handle, index, raw))
        return TensorInfo(
            index,
            _text(raw.name),
            tuple(raw.dims[i] for i in range(raw.n_dims)),
            DTYPES.get(raw.type),
            bool(raw.is_pixel),
            float(raw.scale) if raw.quantized else 0.0,
            int(raw.zero_point),
            tuple(raw.native[i] for i in range(raw.n_native)),
            int(raw.native_bytes),
        )

    def _node(self, index: int) -> NodeInfo:
        raw = ffi.new("rkr_emu_node *")
        self._check_status(self._function("get_node")(self._handle, index, raw))
        return NodeInfo(
            index,
            _text(raw.op),
            _text(raw.name),
            Verdict(raw.verdict),
            _text(raw.reason),
            int(raw.tasks),
            tuple(self._present(raw.inputs, raw.n_inputs)),
            tuple(self._present(raw.outputs, raw.n_outputs)),
            bool(raw.is_faulty),
        )

    def _present(self, indices: Any, count: int) -> Iterator[int]:
        return (indices[i] for i in range(count) if indices[i] < len(self.tensors))

    @cached_property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """The nodes in execution order; their commands are tried on random values first.

        Raises:
            EmulatorError: There is no memory for that.
        """
        self._check_status(self._function("try")(self._handle))
        return self.untried

    @property
    def untried(self) -> tuple[NodeInfo, ...]:
        """The nodes with the verdicts that need no trial."""
        return tuple(self._node(index) for index in range(self._node_count))

    @property
    def is_runnable(self) -> bool:
        """Whether every node is understood."""
        return self.emulation.is_runnable

    @property
    def emulation(self) -> Emulation:
        """One entry per node."""
        return Emulation(self.soc, self.nodes)

    def kinds(self) -> list[tuple[int, str]]:
        """Return the node and the kind of each executed task: its units and types as a text."""
        text, node, found = ffi.new("char[]", TEXT_BYTES), ffi.new("uint32_t *"), []
        for task in range(self._tasks):
            get_kind = self._function("get_kind")
            self._check_status(get_kind(self._handle, task, node, text, TEXT_BYTES))
            if _text(text) and self.nodes[node[0]].tasks:
                found.append((int(node[0]), _text(text)))
        return found

    def walk(self) -> Iterator[NodeInfo]:
        """Execute all nodes in order, and yield each when its outputs hold its results.

        Their commands are not tried: see `nodes` for the verdicts.

        Raises:
            EmulatorError: An input has no values, or a node is not understood.
        """
        self._begin()
        for index in range(self._node_count):
            self._check_status(self._function("run_node")(self._handle, index))
            yield self._node(index)

    def _begin(self) -> None:
        """Prepare a run; who lends a machine has given it the inputs."""

    def normalisation(self, index: int) -> tuple[list[float], list[float]]:
        """Return mean and std of an input: none, one of each, or one per channel."""
        raw = ffi.new("rkr_emu_normalisation *")
        self._check_status(self._function("get_normalisation")(self._handle, index, raw))
        count = min(raw.count, 1) if raw.is_one else raw.count
        return [raw.mean[i] for i in range(count)], [raw.std[i] for i in range(count)]

    def read(self, tensor: TensorInfo | int) -> Array:
        """Return a copy of a tensor's values: its own shape and dtype, quantized.

        An inner tensor holds its values until a later node takes its memory.

        Raises:
            EmulatorError: The tensor has no values that can be read.
        """
        info = self._own(tensor)
        if info.dtype is None:
            raise EmulatorError(f"tensor {info.index} '{info.name}' has a type that is not read")
        return self._read(info, lib.RKR_EMU_READ_STORED, info.dtype)

    def read_float(self, tensor: TensorInfo | int) -> Array:
        """Return a copy of a tensor's values, dequantized: its own shape, float32.

        Raises:
            EmulatorError: The tensor has no values that can be read.
        """
        return self._read(self._own(tensor), lib.RKR_EMU_READ_FLOAT, np.dtype(np.float32))

    def _own(self, tensor: TensorInfo | int) -> TensorInfo:
        index = tensor.index if isinstance(tensor, TensorInfo) else tensor
        return self.tensors[as_int(index, "tensor", 0, len(self.tensors) - 1)]

    def _read(self, info: TensorInfo, form: int, dtype: np.dtype[Any]) -> Array:
        if not math.prod(info.shape):
            raise EmulatorError(f"tensor {info.index} '{info.name}' cannot be read: {info.shape}")
        read = self._function("read")
        self._check_status(read(self._handle, info.index, form, ffi.NULL, 0))
        out = np.empty(info.shape, dtype)
        data = ffi.from_buffer(out, require_writable=True)
        self._check_status(read(self._handle, info.index, form, data, out.nbytes))
        return out


class Emulator(Machine):
    """One model on an emulated NPU. Not for several threads at a time.

    Args:
        model: The file's path, or its bytes.
        graph: Which graph of a model with dynamic shapes; 0 is the largest.
        library: The simulated runtime that holds the emulator; None opens this package's.

    Raises:
        EmulatorError: The file cannot be read, or its SoC or container is not understood.
            A model with nodes that are not understood opens: see `nodes`.
        OSError: The file cannot be opened.
        UnavailableError: ``library`` holds no emulator.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        graph: int = 0,
        library: Library | None = None,
    ) -> None:
        library = open_library("sim") if library is None else library
        if not isinstance(library, Library):
            raise TypeError(f"library: expected a Library, got {type(library).__name__}")
        if not library.is_simulated:
            raise UnavailableError(f"{library!r} is not simulated: it has no emulator")
        graph = as_int(graph, "graph", 0, 2**32 - 1)
        if not isinstance(model, bytes):
            try:
                model = read_file(model, MAX_MODEL_BYTES)
            except ValueError as error:
                raise EmulatorError(str(error)) from None
        text, out = ffi.new("char[]", TEXT_BYTES), ffi.new("rkr_emu **")
        bytes_of = ffi.from_buffer("uint8_t[]", model)
        opened = ffi.cast("rkr_emu_open_fn *", library.symbol("rkr_emu_open"))
        status = opened(bytes_of, len(model), graph, out, text, TEXT_BYTES)
        if status != lib.RKR_OK:
            raise EmulatorError(ffi.string(text).decode("utf-8", "replace") or f"status {status}")
        close = ffi.cast("rkr_emu_close_fn *", library.symbol("rkr_emu_close"))
        super().__init__(ffi.gc(out[0], close), library)
        self._given: dict[int, tuple[int, Array]] = {}

    def set_input(self, index: int, values: Array) -> None:
        """Give an input its values.

        Args:
            index: Which input.
            values: uint8 ``(n, h, w, c)`` for an image, normalised by the NPU; else the
                tensor's own shape and dtype, quantized already. Copied.

        Raises:
            EmulatorError: The input cannot be set so.
        """
        index = as_int(index, "index", 0, len(self.inputs) - 1)
        values = plain(values, "values")
        tensor = self.inputs[index]
        form = lib.RKR_EMU_AS_STORED
        expected, dtype = tensor.shape, tensor.dtype
        if tensor.is_image and values.dtype == np.uint8:
            n, c, h, w = tensor.shape
            form, expected, dtype = lib.RKR_EMU_AS_PIXELS, (n, h, w, c), np.dtype(np.uint8)
        if values.shape != expected or values.dtype != dtype:
            raise ValueError(
                f"values: expected {expected} {dtype}, got {values.shape} {values.dtype}"
            )
        self._give(index, form, np.array(values, order="C"))

    def _give(self, index: int, form: int, values: Array) -> None:
        data = ffi.from_buffer(values)
        self._check_status(
            self._function("set_input")(self._handle, index, form, data, values.nbytes)
        )
        self._given[index] = form, values

    def _begin(self) -> None:
        """A run uses up its inputs: they are given again."""
        for index, (form, values) in self._given.items():
            self._give(index, form, values)

    def run(self, nodes: int = ALL_NODES) -> None:
        """Execute all nodes in order, or the first ones only.

        Raises:
            EmulatorError: An input has no values, or a node is not understood.
        """
        nodes = as_int(nodes, "nodes", 0, ALL_NODES)
        self._begin()
        self._check_status(self._function("run")(self._handle, nodes))


def _text(text: Any) -> str:
    return str(ffi.string(text).decode("utf-8", "replace")) if text != ffi.NULL else ""
