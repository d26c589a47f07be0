"""Hands custom operators to a runtime: Python functions, or those of a shared library."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import get_ident

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import LibraryLoadError, UnavailableError
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import fault_of_file
from rknn_runtime.npu.operators import (
    Compute,
    CustomOpNode,
    Operator,
    Operators,
    c_text,
    registering,
)

__all__ = ["register", "register_library"]


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
            reason = ffi.string(message).decode("utf-8", "backslashreplace")
    if reason is not None:
        raise LibraryLoadError(
            "the library of a custom operator cannot be loaded", [(text, reason)]
        )
    op_type: str = ffi.string(op[0].op_type).decode("utf-8", "backslashreplace")
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
