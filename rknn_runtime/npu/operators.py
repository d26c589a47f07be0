"""Custom operators: Python functions that a runtime calls for nodes of a model.

The runtime's memory is valid during its call only, but a function may keep its arrays: so inputs
and outputs are copied, once each. The number in ``priv_data`` tells which node a call is for; it
is a key of a table, never a pointer. An exception cannot pass through C: it is kept, and raised
when the run is over.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.context import Context

if TYPE_CHECKING:
    from rknn_runtime._locks import ExclusiveLock

__all__ = [
    "Compute",
    "CustomOpNode",
    "CustomOpTensor",
    "Operator",
    "Operators",
    "c_text",
    "registering",
]

#: Of one attribute: far more than any node has.
_MOST_ELEMENTS = 1 << 20
_NAME_BYTES = 255
_TEXT = (TensorType.INT8, TensorType.UINT8)
_numbers = itertools.count(1)
#: By the number in ``priv_data``. Weak: functions often know their model.
_nodes: weakref.WeakValueDictionary[int, CustomOpNode] = weakref.WeakValueDictionary()
#: The operator whose nodes a runtime is initialising, by thread.
registering: dict[int, Operator] = {}


class CustomOpTensor(NamedTuple):
    """What a runtime says of a tensor of a custom operator."""

    #: As the runtime calls it.
    name: str
    #: In the framework's order.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class CustomOpNode:
    """One node of a model that a custom operator computes.

    Attributes:
        op_type: Its type, as the model names it.
        inputs: Its inputs.
        outputs: Its outputs.
        data: Whatever the operator keeps for it; None at first.
    """

    def __init__(self, operator: Operator) -> None:
        self.op_type = operator.op_type
        self.inputs: tuple[CustomOpTensor, ...] = ()
        self.outputs: tuple[CustomOpTensor, ...] = ()
        self.data: Any = None
        self._operator = operator
        self._thread: int | None = None
        self._op_ctx = ffi.NULL

    def __repr__(self) -> str:
        return f"<CustomOpNode {self.op_type} {self.inputs} -> {self.outputs}>"

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node, inside ``init`` or ``compute``.

        Args:
            name: As in the ONNX file; ``"name"`` is the node's own name behind its type.
            default: Returned where there is none.

        Returns:
            Text as str, numbers as a 1-D array of int64 or float32, also where it is one. Copies.

        Raises:
            RknnError: The runtime's answer makes no sense.
            RuntimeError: Called elsewhere, or by another thread.
            TypeError: The name is no str.
            ValueError: A name that C does not take.
        """
        text = c_text(name, "name")
        if self._thread != get_ident():
            raise RuntimeError(
                "attribute: expected to be called inside init or compute, on their thread; keep "
                "in node.data what you need elsewhere"
            )
        attr = ffi.new("rknn_custom_op_attr *")
        operator = self._operator
        status = lib.rkr_custom_op_get_op_attr(operator.library, self._op_ctx, text, attr)
        operator.context_check(status, f"rknn_custom_op_get_op_attr({name!r})")
        if attr.n_elems == 0 or attr.data == ffi.NULL:
            return default
        dtype = _dtype(attr.dtype, f"attribute {name!r}")
        if attr.n_elems > _MOST_ELEMENTS:
            raise RknnError(f"attribute {name!r} with {attr.n_elems} elements")
        content = bytes(ffi.buffer(attr.data, attr.n_elems * dtype.itemsize))
        if attr.dtype in _TEXT:
            return _unquoted(content.partition(b"\0")[0].decode("utf-8", "backslashreplace"))
        return np.frombuffer(content, dtype).copy()

    def _enter(self, op_ctx: Any) -> None:
        self._op_ctx, self._thread = op_ctx, get_ident()
        self._operator.lock.lent_to = self._thread

    def _leave(self) -> None:
        self._operator.lock.lent_to = None
        self._op_ctx, self._thread = ffi.NULL, None

    def _describe(self, inputs: list[_Data], outputs: list[_Data]) -> None:
        self.inputs = tuple(each.tensor for each in inputs)
        self.outputs = tuple(each.tensor for each in outputs)

    def _compute(self, op_ctx: Any, inputs: list[_Data], outputs: list[_Data]) -> None:
        self._describe(inputs, outputs)
        blocks = [ffi.new("char[]", each.size_bytes) for each in (*inputs, *outputs)]
        for each, block in zip(inputs, blocks):
            ffi.memmove(block, each.address, each.size_bytes)
        arrays: list[Array] = [
            np.ndarray(each.tensor.shape, each.tensor.dtype, ffi.buffer(block))
            for each, block in zip((*inputs, *outputs), blocks)
        ]
        try:
            self._enter(op_ctx)
            returned = self._operator.compute(
                self, tuple(arrays[: len(inputs)]), tuple(arrays[len(inputs) :])
            )
        finally:
            self._leave()
        if returned is not None:
            raise TypeError(
                f"compute of {self.op_type}: expected None, as outputs are written in place "
                f"(outputs[0][...] = result), got {type(returned).__name__}"
            )
        for each, block in zip(outputs, blocks[len(inputs) :]):
            ffi.memmove(each.address, block, each.size_bytes)


Compute = Callable[[CustomOpNode, "tuple[Array, ...]", "tuple[Array, ...]"], None]


class _Data(NamedTuple):
    """A tensor in a runtime's memory, for the time of one call."""

    tensor: CustomOpTensor
    address: Any
    size_bytes: int


class Operator:
    """The functions for one type of nodes, in one context. Not for direct use."""

    def __init__(
        self,
        operators: Operators,
        op_type: str,
        compute: Compute,
        init: Callable[[CustomOpNode], object] | None,
        destroy: Callable[[CustomOpNode], object] | None,
    ) -> None:
        self.operators, self.op_type = operators, op_type
        self.compute, self.init, self.destroy = compute, init, destroy
        self.nodes: list[CustomOpNode] = []
        self.lock: ExclusiveLock = operators.context().exclusive
        self.library = operators.context().handle

    def context_check(self, status: int, call: str) -> None:
        """Raise the exception for a status that is not success."""
        self.operators.context().check_status(status, call)


class Operators:
    """The custom operators of one context, and what they raised. Not for direct use."""

    def __init__(self, context: Context) -> None:
        self._context = weakref.ref(context)
        #: By their types; None: of a shared library.
        self.by_type: dict[str, Operator | None] = {}
        self._error: BaseException | None = None

    def context(self) -> Context:
        """Return the context, which has this object."""
        context = self._context()
        assert context is not None
        return context

    def keep(self, error: BaseException) -> None:
        """Keep the first exception until the run is over."""
        if self._error is None:
            self._error = error

    def take_exception(self) -> BaseException | None:
        """Return what was raised since the last call, once."""
        error, self._error = self._error, None
        return error

    def finish(self) -> None:
        """Call destroy for every node, all of them; raise what the first one raised."""
        nodes = [
            node
            for operator in self.by_type.values()
            if operator is not None and operator.destroy is not None
            for node in operator.nodes
        ]
        self.by_type.clear()
        for node in nodes:
            try:
                node._operator.destroy(node)  # type: ignore[misc]  # chosen above
            except BaseException as error:
                self.keep(error)
        first = self.take_exception()
        if first is not None:
            raise first


def c_text(name: str, what: str) -> bytes:
    """Return a name as C takes it."""
    if not isinstance(name, str):
        raise TypeError(f"{what}: expected a str, got {type(name).__name__}")
    text = name.encode("utf-8", "surrogateescape")
    if not text or b"\0" in text or len(text) > _NAME_BYTES:
        raise ValueError(
            f"{what}: expected 1 to {_NAME_BYTES} bytes without null characters, got {name!r}"
        )
    return text


def _unquoted(text: str) -> str:
    """Toolkits write text as JSON does."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def _dtype(number: int, what: str) -> np.dtype[Any]:
    try:
        return TensorType(number).numpy
    except (TypeError, ValueError):
        raise RknnError(f"{what} of type {number}") from None


def _data(tensors: Any, count: int) -> list[_Data]:
    """Read a runtime's description of tensors; refuse one that cannot be true."""
    found = []
    for i in range(count):
        attr, mem = tensors[i].attr, tensors[i].mem
        name = ffi.string(attr.name, len(attr.name)).decode("utf-8", "backslashreplace")
        if attr.n_dims > len(attr.dims):
            raise RknnError(f"{name!r} with {attr.n_dims} dimensions")
        dtype = _dtype(attr.type, repr(name))
        shape = tuple(attr.dims[0 : attr.n_dims])
        size_bytes = math.prod(shape) * dtype.itemsize
        if mem.virt_addr == ffi.NULL or mem.offset < 0 or not 0 < size_bytes <= mem.size:
            raise RknnError(
                f"{name!r}: {size_bytes} bytes in a memory of {mem.size} at offset {mem.offset}"
            )
        address = ffi.cast("char *", mem.virt_addr) + mem.offset
        found.append(_Data(CustomOpTensor(name, shape, dtype), address, size_bytes))
    return found


def _keep(kind: Any, error: BaseException, traceback: Any) -> None:
    """Keep what a call raised, also a KeyboardInterrupt."""
    operator = registering.get(get_ident())
    if operator is None:
        op_ctx = traceback.tb_frame.f_locals["op_ctx"]
        node = _nodes.get(int(ffi.cast("uintptr_t", op_ctx.priv_data)))
        operator = None if node is None else node._operator
    if operator is not None:
        operator.operators.keep(error)


@ffi.def_extern(onerror=_keep, error=lib.RKNN_ERR_FAIL)  # type: ignore[untyped-decorator]
def rkr_python_op_init(
    op_ctx: Any, inputs: Any, n_inputs: int, outputs: Any, n_outputs: int
) -> int:
    operator = registering.get(get_ident())
    if operator is None:  # later than the runtime's guide says: compute will fail
        return int(lib.RKNN_ERR_FAIL)
    node = CustomOpNode(operator)
    node._describe(_data(inputs, n_inputs), _data(outputs, n_outputs))
    if operator.init is not None:
        try:
            node._enter(op_ctx)
            operator.init(node)
        finally:
            node._leave()
    number = next(_numbers)
    _nodes[number] = node
    operator.nodes.append(node)
    op_ctx.priv_data = ffi.cast("void *", number)
    return int(lib.RKNN_SUCC)


@ffi.def_extern(onerror=_keep, error=lib.RKNN_ERR_FAIL)  # type: ignore[untyped-decorator]
def rkr_python_op_compute(
    op_ctx: Any, inputs: Any, n_inputs: int, outputs: Any, n_outputs: int
) -> int:
    node = _nodes.get(int(ffi.cast("uintptr_t", op_ctx.priv_data)))
    if node is None:  # its init failed, or its context is gone
        return int(lib.RKNN_ERR_FAIL)
    node._compute(op_ctx, _data(inputs, n_inputs), _data(outputs, n_outputs))
    return int(lib.RKNN_SUCC)
