"""Weights and internal memory: the caller's, or shared by several models; closed in any order."""

from __future__ import annotations

import gc
import itertools
import os
import threading

import numpy as np
import pytest
from bundles import changed, image, output, recorded
from test_outside_memory import descriptors, shared_file

from rknn_runtime import CoreMask, GeneralModel, InitFlag, Model, TensorMemory
from rknn_runtime.errors import (
    ClosedError,
    OperationFailedError,
    RknnStatusError,
    UnavailableError,
)
from rknn_runtime.npu.dma_heap import DmaBuffer
from rknn_runtime.sim import Live

FRAME = np.random.default_rng(3).integers(0, 256, (1, 8, 20, 3)).astype(np.uint8)
NOTHING = Live(0, 0, 0)
OUTSIDE, INTERNAL = InitFlag.MEM_ALLOC_OUTSIDE, InitFlag.INTERNAL_ALLOC_OUTSIDE
WEIGHT_BYTES, INTERNAL_BYTES = 5000, 9000


def case_of(soc="rk3588", internal_bytes=INTERNAL_BYTES):
    """A model that says how much memory it needs."""
    case = recorded(soc, inputs=[image(soc=soc)], input_arrays=[FRAME])
    case.data = changed(case.data, weight_bytes=WEIGHT_BYTES, internal_bytes=internal_bytes)
    return case


def same(model, case):
    np.testing.assert_array_equal(model(FRAME)[0], case.expected[0])


# Duplicates


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_duplicates_are_closed_in_any_order(control, kind, order):
    """Original, duplicate and its duplicate: the remaining ones run, and all is released."""
    case = case_of()
    original = kind(case.data, library="sim")
    models = [original, original.duplicate(), None]
    models[2] = models[1].duplicate(core_mask=CoreMask.CORE_1)
    assert all(type(model) is kind for model in models)
    assert control.calls("rknn_init") == 1
    assert control.calls("rknn_dup_context") == 2
    alive = list(models)
    for position in order:
        for model in alive:
            result = model(FRAME) if kind is Model else model.run(FRAME)
            np.testing.assert_array_equal(result[0], case.expected[0])
        alive.remove(models[position])
        models[position].close()
        with pytest.raises(ClosedError):
            models[position].run(FRAME)
    assert control.live == NOTHING


def test_weights_stay_as_long_as_a_duplicate(control):
    """The context of a closed original is destroyed after its last duplicate's, not before."""
    original = Model(case_of().data, library="sim")
    first, second = original.duplicate(), original.duplicate()
    original.close()
    assert original.is_closed
    assert control.live.contexts == 3
    assert control.live.memories == 4
    first.close()
    assert control.live.contexts == 2
    second.close()
    assert control.live == NOTHING


@pytest.mark.parametrize("code", [-1, -42])
def test_a_release_that_fails_is_told_once(control, code):
    """By the close that does it, which may be the duplicate's."""
    original = Model(case_of().data, library="sim")
    twin = original.duplicate()
    original.close()
    control.fail("rknn_destroy", 2, code)
    with pytest.raises(RknnStatusError) as caught:
        twin.close()
    assert caught.value.code == code
    assert twin.is_closed
    assert control.live == NOTHING


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_a_batch_has_no_duplicates(control, kind):
    """A batch of images has none: librknnrt 2.3.2 would end the process. A batch of vectors has."""
    batch, vectors = image((2, 3, 8, 20)), output("x", (2, 8))
    data = recorded(inputs=[batch]).data
    with (
        kind(data, library="sim") as model,
        pytest.raises(UnavailableError, match="a model of several images per run"),
    ):
        model.duplicate()
    assert control.calls("rknn_dup_context") == 0
    with kind(recorded(inputs=[vectors]).data, library="sim") as model:
        model.duplicate().close()
    assert control.calls("rknn_dup_context") == 1


# Weights of another model


@pytest.mark.parametrize("first", [0, 1])
def test_weights_of_another_model(control, first):
    """One file loaded twice, its weights once; closed in either order."""
    case = case_of()
    one = Model(case.data, library="sim")
    other = Model(case.data, library="sim", share_weights_with=one)
    same(one, case)
    same(other, case)
    pair = [one, other]
    pair.pop(first).close()
    same(pair[0], case)
    pair[0].close()
    assert control.live == NOTHING


def test_whose_weights_is_checked(control):
    """A loaded model of the same library, or none and no flag."""
    data = case_of().data
    with pytest.raises(ValueError, match="SHARE_WEIGHT_MEM needs share_weights_with"):
        Model(data, library="sim", flags=InitFlag.SHARE_WEIGHT_MEM)
    with pytest.raises(TypeError, match="share_weights_with: expected a Model, got bytes"):
        Model(data, library="sim", share_weights_with=data)
    one = Model(data, library="sim")
    one.close()
    with pytest.raises(ClosedError):
        Model(data, library="sim", share_weights_with=one)
    assert control.live == NOTHING


# Weights and internal memory of the caller


def give_all(model):
    """Bind memory to everything, as figure 3-4 of the vendor's guide has it."""
    size = model.memory_size
    model.set_weight_memory(TensorMemory(model, size.weight_bytes))
    model.set_internal_memory(TensorMemory(model, size.internal_bytes))
    model.bind_input(0, TensorMemory(model, 8192))
    model.bind_output("map", TensorMemory(model, 8192))


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_all_memory_comes_from_outside(control, soc):
    """The model allocates none, names the missing memory, and runs when it is set."""
    case = case_of(soc)
    with Model(case.data, library="sim", flags=OUTSIDE) as model:
        assert control.live.memories == 0
        with pytest.raises(
            RuntimeError,
            match=(
                "memory is missing for input 0 'image', output 0 'map', the weights, the internal"
            ),
        ):
            model.run()
        with pytest.raises(RuntimeError, match="input 0 'image' has no memory yet"):
            model.input_view()
        give_all(model)
        same(model, case)
        assert control.live.memories == 4
    assert control.live == NOTHING


def test_internal_memory_alone_comes_from_outside(control):
    """Inputs, outputs and weights are the model's as ever."""
    case = case_of()
    with Model(case.data, library="sim", flags=INTERNAL) as model:
        with pytest.raises(RuntimeError, match=r"missing for the internal memory$"):
            model.run(FRAME)
        with pytest.raises(ValueError, match="loaded with MEM_ALLOC_OUTSIDE, got one with"):
            model.set_weight_memory(TensorMemory(model, WEIGHT_BYTES))
        model.set_internal_memory(TensorMemory(model, INTERNAL_BYTES))
        same(model, case)


def test_inner_memory_is_checked(control):
    """Memory that is too small, another model's, in use, closed or not asked for is refused."""
    case = case_of()
    with Model(case.data, library="sim") as plain, \
            Model(case.data, library="sim", flags=OUTSIDE) as model:  # fmt: skip
        with pytest.raises(ValueError, match="MEM_ALLOC_OUTSIDE or INTERNAL_ALLOC_OUTSIDE"):
            plain.set_internal_memory(TensorMemory(plain, INTERNAL_BYTES))
        give_all(model)
        closed = TensorMemory(model, INTERNAL_BYTES)
        closed.close()
        for memory, error, message in (
            (TensorMemory(model, 64), ValueError, "at least 9000 bytes for the internal memory"),
            (TensorMemory(plain, INTERNAL_BYTES), ValueError, "shared_with"),
            (model.output_memory(), ValueError, "at least 9000"),
            (closed, ClosedError, "closed"),
            (None, TypeError, "expected a TensorMemory, got NoneType"),
        ):
            with pytest.raises(error, match=message):
                model.set_internal_memory(memory)
        used = TensorMemory(model, INTERNAL_BYTES)
        model.set_weight_memory(used)
        with pytest.raises(ValueError, match=r"expected one that nothing uses .*the weights"):
            model.set_internal_memory(used)
        with pytest.raises(BufferError, match="the memory is the weights of a model"):
            used.close()
        control.fail("rknn_set_internal_mem", 1, -1)
        with pytest.raises(OperationFailedError, match="rknn_set_internal_mem"):
            model.set_internal_memory(TensorMemory(model, INTERNAL_BYTES))
        same(model, case)
    assert control.live == NOTHING
    with pytest.raises(ClosedError):
        model.set_internal_memory(used)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_two_models_compute_in_one_memory(control, soc, first):
    """As large as the larger needs; closed in either order, the other runs on."""
    cases = [case_of(soc, 9000), case_of(soc, 20000)]
    flags = OUTSIDE if soc == "rv1106" else INTERNAL
    before = descriptors()
    models = [Model(case.data, library="sim", flags=flags) for case in cases]
    largest = TensorMemory(models[0], max(m.memory_size.internal_bytes for m in models))
    for model, memory in zip(models, (largest, largest.shared_with(models[1]))):
        if flags is OUTSIDE:
            give_all(model)
        model.set_internal_memory(memory)
    for model, case in zip(models, cases):
        same(model, case)
    models[first].close()
    same(models[1 - first], cases[1 - first])
    models[1 - first].close()
    del models, largest, memory
    gc.collect()
    assert control.live == NOTHING
    assert descriptors() == before


def test_models_in_one_memory_take_turns(control):
    """However both came by it: one runs while the other waits, in different threads."""
    case = case_of()
    fd = shared_file(INTERNAL_BYTES)
    models = [Model(case.data, library="sim", flags=INTERNAL) for _ in range(3)]
    for model in models[:2]:
        model.set_internal_memory(TensorMemory.from_fd(model, fd, INTERNAL_BYTES))
    models[2].set_internal_memory(TensorMemory(models[2], INTERNAL_BYTES))
    turns = [model._inner.turns for model in models]
    assert turns[0] is turns[1] is not turns[2]
    done = threading.Event()

    def work():
        models[1].run(FRAME)
        done.set()

    thread = threading.Thread(target=work)
    with turns[0].held():
        thread.start()
        same(models[2], case)
        assert not done.is_set()
        with pytest.raises(RuntimeError, match="reentrant call"):
            models[0].run(FRAME)  # as a signal handler would
    thread.join()
    assert done.is_set()
    for model in models:
        model.close()
    os.close(fd)


def test_a_duplicate_needs_no_weights_of_its_own(control):
    """It needs internal memory, inputs and outputs."""
    case = case_of()
    with Model(case.data, library="sim", flags=OUTSIDE) as model:
        give_all(model)
        with model.duplicate() as twin:
            with pytest.raises(RuntimeError, match=r"'map', the internal memory$"):
                twin.run()
            twin.set_internal_memory(TensorMemory(twin, INTERNAL_BYTES))
            twin.bind_input(0, TensorMemory(twin, 8192))
            twin.bind_output(0, TensorMemory(twin, 8192))
            same(twin, case)


# The model's own file in a DMA-BUF


@pytest.fixture
def buffer_of(monkeypatch):
    """Buffers of files in memory, as there is no heap."""
    monkeypatch.setattr(
        "rknn_runtime.npu.dma_heap.allocate", lambda size, heap="system": shared_file(size)
    )
    monkeypatch.setattr("rknn_runtime.npu.dma_heap._sync", lambda fd, flags: None)
    return DmaBuffer.of_file


def test_a_model_stays_in_its_buffer(control, buffer_of, tmp_path):
    """It is loaded from there, and the buffer stays open as long as the model."""
    case = case_of()
    path = tmp_path / "model.bundle"
    path.write_bytes(case.data)
    flag = InitFlag.MODEL_BUFFER_ZERO_COPY
    buffer = buffer_of(path)
    with Model(buffer, library="sim", flags=flag) as model:
        with pytest.raises(BufferError):
            buffer.close()
        same(model, case)
        twin = model.duplicate()
    same(twin, case)
    twin.close()
    del model, twin
    gc.collect()
    buffer.close()
    with pytest.raises(ValueError, match="closed"):
        Model(buffer, library="sim", flags=flag)
    with pytest.raises(TypeError, match="model: expected a DmaBuffer with MODEL_BUFFER_ZERO_COPY"):
        Model(case.data, library="sim", flags=flag)
    assert control.live == NOTHING
