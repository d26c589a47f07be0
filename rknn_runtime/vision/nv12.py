"""The input of a model that was converted for NV12 camera frames: one tensor per plane."""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime.kernels.yuv import nv12_planes
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.model import Model

#: The toolkit's names of the planes of ``inputs_yuv_fmt``, after the input's own name.
_LUMA, _CHROMA = "_y_channel", "_uv_channel"


class Nv12Input:
    """The planes Y and UV of a model's input, as `nv12_input` finds them."""

    def __init__(self, model: Model) -> None:
        luma, _ = model.inputs
        self._model, self._frame = model, model._frame
        self.size = luma.height, luma.width
        self._row_bytes = luma.stored.w_stride or luma.width
        #: A memory that holds both planes -> the memory of its second plane.
        self._chromas: weakref.WeakKeyDictionary[TensorMemory, TensorMemory] = (
            weakref.WeakKeyDictionary()
        )

    def planes(self, image: Any, color: str) -> list[NDArray[np.uint8]]:
        """Check a frame; return views of its planes, ``(H, W)`` and ``(H / 2, W)``."""
        if color != "NV12":
            raise ValueError(
                f'color: expected "NV12", as the model was converted for it, got {color!r}: '
                "convert the image, or the model without inputs_yuv_fmt"
            )
        planes, size = nv12_planes(image)
        if size != self.size:
            raise ValueError(
                f"image: expected NV12 of the model's size {self.size}, got {size}: scale it "
                "before, as with the RGA"
            )
        return planes

    def chroma_of(self, memory: TensorMemory) -> TensorMemory:
        """Return the UV part of a memory that holds the rows of Y and then the rows of UV.

        It is made once and released with the frame's memory.
        """
        chroma = self._chromas.get(memory)
        if chroma is not None:
            return chroma
        luma, second = self._frame.inputs
        height, width = self.size
        begin = self._row_bytes * height
        context = self._frame.context
        with context.lock:
            context.check_open()
            try:
                memory.usable(context, luma.name, max(luma.needs, begin + second.needs))
            except ValueError as error:
                raise type(error)(
                    f"{error} (an NV12 frame of {width} x {height} in rows of {self._row_bytes} "
                    "bytes)"
                ) from None
        return self._chromas.setdefault(memory, self._part(memory, begin, second.needs))

    def _part(self, memory: TensorMemory, begin: int, size_bytes: int) -> TensorMemory:
        """Return a part of a DMA-BUF as a new memory."""
        if memory.fd < 0:
            raise ValueError(
                f"memory: expected one with a file descriptor, as from from_fd, got {memory!r}: UV "
                "is bound by it; or bind both planes with bind_input and run the model"
            )
        fd = os.dup(memory.fd)
        try:
            return TensorMemory.from_fd(
                self._model,
                fd,
                size_bytes,
                memory.offset + begin,
                owned=True,
                mapped=memory.is_mapped,
            )
        except BaseException:
            os.close(fd)
            raise


def nv12_input(model: Model) -> Nv12Input | None:
    """Return the two inputs of a model that was converted for NV12; None for other models."""
    if len(model.inputs) != 2:
        return None
    luma, chroma = model.inputs
    name = luma.name[: -len(_LUMA)]
    if (luma.name, chroma.name) != (name + _LUMA, name + _CHROMA):
        return None
    height, width = luma.shape[1:3]
    shapes = (luma.shape, chroma.shape) == ((1, height, width, 1), (1, height // 2, width, 1))
    takes = all(binding.dtype == np.uint8 for binding in model._frame.inputs)
    return Nv12Input(model) if shapes and takes and luma.is_nhwc and chroma.is_nhwc else None
