"""An input or output of a model in NPU memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.tensor import TensorAttr

__all__ = ["Binding", "check_layouts", "element_dtype"]

_NO_INT64 = (
    "librknnmrt takes no int64 that it is not to convert (2.3.2 was seen to refuse it): export the "
    "network with this input as int32 or float32, with a Cast behind it where it must be int64"
)


class Binding:
    """One input or output: its memory, and the array in it that only this package sees."""

    def __init__(
        self,
        context: Context,
        name: str,
        attr: TensorAttr,
        bound: TensorAttr,
        info: Any,
        least_bytes: int = 0,
    ) -> None:
        """Prepare; nothing is bound yet.

        Args:
            context: Of the model.
            name: Such as ``input 0 'images'``, for messages.
            attr: The logical attribute.
            bound: The attribute that the memory has.
            info: The same as ``rknn_tensor_attr *`` for the runtime.
            least_bytes: Of memory, when the attributes want less.

        Raises:
            RknnError: The attributes make no sense.
        """
        self.name = name
        self.attr = attr
        self.shape = bound.shape
        self.dtype = element_dtype(name, bound)
        self._strides = bound.strides
        # The runtimes do not check the size.
        self.needs = max(least_bytes, bound.array_bytes, attr.buffer_bytes)
        if not 0 < self.needs < 2**32:
            raise RknnError(f"{name}: the runtime's attributes make {self.needs} bytes of it")
        self._context = context
        self._info = info
        self._memory: TensorMemory | None = None
        #: What the runtime may have: the same, and others only where a call was interrupted.
        self._held: list[TensorMemory] = []
        #: Whether `BoundTensors.run` syncs the caches.
        self.is_synced = True
        #: Whether the memory is the model's, and not one that the caller bound.
        self.is_own = True
        self._bytes: Array | None = None
        self._array: Array | None = None

    @property
    def memory(self) -> TensorMemory:
        """What is bound.

        Raises:
            RuntimeError: Nothing is.
        """
        if self._memory is None:
            raise RuntimeError(f"{self.name} has no memory yet: bind one first")
        return self._memory

    @property
    def is_bound(self) -> bool:
        """Whether there is a memory."""
        return self._memory is not None

    def memory_after(self, before: Binding | None, is_outside: bool) -> TensorMemory | None:
        """Return the memory to bind, after the shape changed or at first.

        Args:
            before: What stood in this place in the shape before; None: nothing.
            is_outside: Every memory is the caller's.

        Returns:
            That of ``before`` if it is large enough, else a new one. None: the caller has to
            bind one.
        """
        memory = None
        if before is not None:
            memory, self.is_own, self.is_synced = before._memory, before.is_own, before.is_synced
        if before is not None and memory is not None and memory.size_bytes < self.needs:
            memory.bind(None)  # so that its owner may close it, whatever becomes of this choice
            memory, before._memory, self.is_synced = None, None, True
        if memory is None and self.is_own and not is_outside:
            memory = TensorMemory(self._context, self.needs)
        return memory

    @property
    def is_seen(self) -> bool:
        """Whether there is a memory that the CPU sees."""
        return self._memory is not None and self._memory.is_mapped

    def bind(self, memory: TensorMemory) -> None:
        """Bind a memory in place of what was bound, inside ``with context.lock``.

        Raises:
            ClosedError: The memory is closed.
            RknnStatusError: The runtime refused; what was bound before still is.
            ValueError: It is too small, of another model, or bound to something else.
        """
        pointer = memory.usable(self._context, self.name, self.needs)
        context, held = self._context, self._held
        # First: an interrupt leaves it bound to us at worst, never to nobody, and alive.
        noted, self._held = memory.bind(self.name), [*held, memory]
        status = lib.rkr_set_io_mem(context.handle, context.opened(), pointer, self._info)
        if status:
            memory.bind(noted)
            self._held = held
            is_refused_int64 = (
                status == lib.RKNN_ERR_PARAM_INVALID and self._info.type == TensorType.INT64
            )
            detail = _NO_INT64 if is_refused_int64 else ""
            context.check_status(status, f"rknn_set_io_mem({self.name})", detail)
        self._memory = memory
        self._drop()
        self._held = [memory]
        for before in held:
            if before is not memory:
                before.bind(None)

    def settle(self) -> None:
        """Bind what was bound before a call that was interrupted, inside ``with context.lock``.

        Raises:
            RknnStatusError: The runtime refused.
        """
        if self._memory is not None and len(self._held) > 1:
            self.bind(self._memory)

    def _view_of(self, data: Array) -> Array:
        return np.ndarray(self.shape, self.dtype, data, strides=self._strides)

    def view(self) -> Array:
        """Return the array in NPU memory as a view for the caller, inside ``with context.lock``."""
        return self._view_of(self.memory.locked_array())

    def private(self) -> Array:
        """Return the array that only this package sees, inside ``with context.lock``.

        Raises:
            BufferError: The CPU does not see the memory.
            RuntimeError: Nothing is bound.
        """
        if self._array is None:
            self._remember()
            assert self._array is not None
        return self._array

    def _remember(self) -> None:
        """Take the private array, over the private bytes."""
        data = self.memory.span.private()
        self._bytes, self._array = data, self._view_of(data)

    @property
    def span(self) -> tuple[int, int, str] | None:
        """Begin and end of the memory as the CPU sees it, and whose it is; None: nowhere."""
        if not self.is_seen:
            return None
        begin = self.memory.span.address
        return begin, begin + self.memory.size_bytes, f"the memory of {self.name}"

    def _drop(self) -> None:
        """Drop the private arrays."""
        self._bytes = self._array = None

    def forget(self) -> None:
        """Drop what is in the memory, before that is released."""
        self._drop()


def element_dtype(name: str, attr: TensorAttr) -> np.dtype[Any]:
    """Return the dtype of the stored elements.

    Raises:
        RknnError: NumPy has none such.
    """
    try:
        return attr.dtype.numpy
    except TypeError as error:
        raise RknnError(f"{name}: {error}") from None


def check_layouts(name: str, attr: TensorAttr) -> None:
    """Check that the native array can hold the logical tensor: a view of it is trusted.

    Raises:
        RknnError: It cannot.
    """
    native = attr.stored
    fits = native.shape == attr.shape
    if attr.is_packed:
        fits = len(native.shape) == 5 and len(attr.shape) == 4
        if fits:
            native_n, c1, rows, columns, c2 = native.shape
            n, channels, height, width = attr.nchw_shape
            fits = (
                native_n == n
                and c1 * c2 >= channels
                and (
                    (rows, columns) == (height, width) or (rows == 1 and columns >= height * width)
                )
            )
    elif native.is_nhwc:
        fits = native.nchw_shape == attr.nchw_shape
    if not fits:
        raise RknnError(
            f"{name}: the runtime's native layout {native.layout.name} {native.shape} does not "
            f"hold {attr.layout.name} {attr.shape}"
        )
