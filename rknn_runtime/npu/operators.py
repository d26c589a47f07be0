"""Custom operators: functions of Python or of a shared library that a runtime calls.

The runtime's memory is valid only during its call, but a function may keep its arrays: so inputs
and outputs are copied. ``priv_data`` holds a number that is a key of a table, never a pointer. An
exception cannot pass through C: it is kept, and raised after the run.
"""

from __future__ import annotations

import itertools
import math
import os
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import decoded, ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import LibraryLoadError, RknnError, UnavailableError
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import fault_of_file
from rknn_runtime.npu.locks import ExclusiveLock

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
    """A runtime's description of a tensor of a custom operator."""

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
        data: For the operator's use; None at first.
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
        context = operator.operators.context()
        context.check_status(status, f"rknn_custom_op_get_op_attr({name!r})")
        if attr.n_elems == 0 or attr.data == ffi.NULL:
            return default
        dtype = _dtype(attr.dtype, f"attribute {name!r}")
        if attr.n_elems > _MOST_ELEMENTS:
            raise RknnError(f"attribute {name!r} with {attr.n_elems} elements")
        content = bytes(ffi.buffer(attr.data, attr.n_elems * dtype.itemsize))
        if attr.dtype in _TEXT:
            value = content.partition(b"\0")[0].decode("utf-8", "backslashreplace")
            is_quoted = len(value) > 1 and value[0] == value[-1] == '"'  # toolkits write JSON
            return value[1:-1] if is_quoted else value
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


class Operators:
    """The custom operators of one context, and their exceptions. Not for direct use."""

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
        """Return the exception since the last call, once."""
        error, self._error = self._error, None
        return error

    def finish(self) -> None:
        """Call destroy for every node; then raise the first exception, if any."""
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
        name = decoded(attr.name, len(attr.name))
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
    """Keep the exception of a call, also a KeyboardInterrupt."""
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
    """Initialise a node; the runtime calls it through C."""
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
    """Compute a node; the runtime calls it through C."""
    node = _nodes.get(int(ffi.cast("uintptr_t", op_ctx.priv_data)))
    if node is None:  # its init failed, or its context is gone
        return int(lib.RKNN_ERR_FAIL)
    node._compute(op_ctx, _data(inputs, n_inputs), _data(outputs, n_outputs))
    return int(lib.RKNN_SUCC)


def register(
    context: Context,
    op_type: str,
    compute: Compute,
    init: Callable[[CustomOpNode], object] | None,
    destroy: Callable[[CustomOpNode], object] | None,
    is_duplicate: bool,
    take_note: Callable[[], None],
) -> None:
    """See `Operated.register_custom_op`; for `take_note` see `_operators`."""
    name = c_text(op_type, "op_type")
    for what, function in (("compute", compute), ("init", init), ("destroy", destroy)):
        if not callable(function) and (function is not None or what == "compute"):
            raise TypeError(f"{what}: expected a function, got {type(function).__name__}")
    operators = _operators(context, op_type, is_duplicate, take_note)
    operator = Operator(operators, op_type, compute, init, destroy)
    struct = ffi.new("rknn_custom_op *")
    struct.version, struct.target = 1, lib.RKNN_TARGET_TYPE_CPU
    struct.op_type = name
    struct.init = lib.rkr_custom_op_init
    struct.compute = lib.rkr_custom_op_compute
    thread = get_ident()
    with context.lock:
        handle = context.opened()
        _refuse_second(operators, op_type)
        context.keep(struct)  # the runtime may not copy it: this is not documented
        operators.by_type[op_type] = operator
        registering[thread] = operator
        try:
            status = lib.rkr_register_custom_ops(context.handle, handle, struct, 1)
        finally:
            del registering[thread]
        error = operators.take_exception()
        if status != lib.RKNN_SUCC or error is not None:
            del operators.by_type[op_type]
    if error is not None:
        raise error
    context.check_status(status, f"rknn_register_custom_ops({op_type!r})")


def register_library(
    context: Context,
    path: str | os.PathLike[str],
    is_duplicate: bool,
    take_note: Callable[[], None],
) -> str:
    """See `Operated.register_custom_op_library`; for `take_note` see `_operators`."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"path: expected one without null characters, got {path!r}")
    operators = _operators(context, "", is_duplicate, take_note)
    if b"/" not in name:  # the dynamic linker would search for it elsewhere
        name = b"./" + name
    text = os.fsdecode(name)
    op, message = ffi.new("rknn_custom_op **"), ffi.new("char[]", 1024)
    reason = fault_of_file(text)
    if reason is None:
        status = lib.rkr_plugin_open(context.handle, name, op, message, len(message))
        if status != lib.RKR_OK:
            reason = decoded(message)
    if reason is not None:
        raise LibraryLoadError(
            "the library of a custom operator cannot be loaded", [(text, reason)]
        )
    op_type = decoded(op[0].op_type)
    with context.lock:
        handle = context.opened()
        _refuse_second(operators, op_type)
        operators.by_type[op_type] = None
        status = lib.rkr_register_custom_ops(context.handle, handle, op[0], 1)
        if status != lib.RKNN_SUCC:
            del operators.by_type[op_type]
    context.check_status(status, f"rknn_register_custom_ops({op_type!r})")
    return op_type


def _operators(
    context: Context, op_type: str, is_duplicate: bool, take_note: Callable[[], None]
) -> Operators:
    """Return the operators of a context that can have some.

    `take_note` is called under the lock before the runtime has any: no run is without it.
    """
    with context.lock:
        context.check_open()
    context.library.require("rknn_register_custom_ops")
    if query.is_mini(context):
        raise UnavailableError("librknnmrt (RV1103, RV1106) has no custom operators")
    if is_duplicate:
        raise UnavailableError(
            "a duplicate takes no custom operators, which were seen to make librknnrt unstable "
            "there: load the model again, perhaps with share_weights_with="
        )
    with context.lock:
        if context.custom is None:
            context.custom = Operators(context)
        operators: Operators = context.custom
        take_note()
    _refuse_second(operators, op_type)
    return operators


def _refuse_second(operators: Operators, op_type: str) -> None:
    if op_type in operators.by_type:
        raise ValueError(f"op_type: expected one without a function, got {op_type!r} again")
