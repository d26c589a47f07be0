"""TensorMemory: NPU memory that is released once, and never under somebody's array."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from bundles import recorded

from rknn_runtime import TensorMemory
from rknn_runtime.errors import ClosedError
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import open_library


@pytest.fixture(params=["rk3588", "rv1106"])
def context(request, control):
    """A context of the simulated NPU without a model around it."""
    context = Context(open_library("sim"))
    context.initialise(recorded(request.param).data, 0)
    yield context
    context.close()


def test_the_array_is_the_memory(context):
    """Bytes written through one array are seen through another: a writable view."""
    with TensorMemory(context, 100) as memory:
        first, second = memory.array(), memory.array()
        assert (first.shape, first.dtype) == ((100,), np.uint8)
        assert not first.any()
        first[:] = np.arange(100)
        assert (second == np.arange(100)).all()
        assert memory.size_bytes == 100
        del first, second


def test_close_is_idempotent_and_final(context, control):
    """The second close does nothing; every use after it is a `ClosedError`."""
    memory = TensorMemory(context, 64)
    assert (control.live.memories, memory.is_closed) == (1, False)
    memory.close()
    memory.close()
    assert (control.live.memories, memory.is_closed) == (0, True)
    assert control.calls("rknn_destroy_mem") == 1
    for use in (memory.array, memory.sync_to_device, memory.sync_from_device):
        with pytest.raises(ClosedError, match="memory is closed"):
            use()
    assert repr(memory) == "<TensorMemory closed>"


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array,
        lambda array: array[10:20:3],
        lambda array: array.view(np.int16).reshape(5, 10).T,
        lambda array: memoryview(array)[4:],
        lambda array: array[3:4].reshape(()),
        lambda array: np.lib.stride_tricks.as_strided(array, (2, 2), (1, 1)),
        lambda array: np.frombuffer(array, np.uint8),
        lambda array: np.asarray(array).ravel(),
    ],
)
def test_no_view_is_left_without_memory(context, control, view):
    """While anything that shows the bytes is alive, `close` is a `BufferError`."""
    memory = TensorMemory(context, 100)
    alive = view(memory.array())
    assert memory.has_views
    with pytest.raises(BufferError, match="alive"):
        memory.close()
    assert control.live.memories == 1
    del alive
    memory.close()
    assert control.live.memories == 0


def test_a_with_block_does_not_hide_an_exception(context, control):
    """A view that a traceback holds forbids closing; the exception itself comes through."""

    def fails(array):
        raise KeyError("the real reason")

    with pytest.raises(KeyError, match="the real reason"), TensorMemory(context, 64) as memory:
        fails(memory.array())
    del memory
    gc.collect()
    assert control.live.memories == 0


def test_a_with_block_that_leaves_a_view_is_an_error(context):
    """Without another exception the `BufferError` is the news."""
    array = None
    with pytest.raises(BufferError), TensorMemory(context, 64) as memory:
        array = memory.array()
    assert array is not None
    del array
    memory.close()
