"""Every flow tens of thousands of times: no memory grows, no descriptor is left."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from bundles import image, recorded
from test_dynamic_shapes import BIG, DATA_BYTES, SMALL
from test_outside_memory import FRAME, case_of, descriptors, shared_file
from test_shared_memory import INTERNAL_BYTES, OUTSIDE, give_all
from test_shared_memory import case_of as case_of_needs

from rknn_runtime import (
    GeneralModel,
    InputSpec,
    Layout,
    Model,
    OutputSpec,
    TensorMemory,
    TensorType,
)

pytestmark = pytest.mark.soak

#: Beyond what the first rounds take: an allocator's slack, not a leak of 10 bytes a round.
MOST_KILOBYTES = 192
#: In a process that ran thousands of tests the heap's holes are filled at times; a leak grows
#: each time.
TIMES = 3


def resident_kilobytes():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def check(round_of, rounds, warm_up):
    """Run rounds, and compare memory and descriptors with those after the first ones."""
    for _ in range(warm_up):
        round_of()
    gc.collect()
    files, growth = descriptors(), []
    while len(growth) < TIMES and not any(each <= MOST_KILOBYTES for each in growth):
        kilobytes = resident_kilobytes()
        for _ in range(rounds):
            round_of()
        gc.collect()
        growth.append(resident_kilobytes() - kilobytes)
        assert descriptors() == files
    assert min(growth) <= MOST_KILOBYTES, growth


def test_a_ring_of_buffers(control):
    """20,000 frames from buffers of a camera."""
    with Model(case_of().data, library="sim") as model:
        ring = [
            TensorMemory.from_fd(model, shared_file(4096), 4096, owned=True, mapped=False)
            for _ in range(4)
        ]

        def turn():
            for memory in ring:
                model.bind_input(0, memory, sync=False)

        check(turn, 20_000, 2_000)


def test_buffers_that_come_and_go(control):
    """20,000 imports, each bound, run, let go and closed."""
    with Model(recorded().data, library="sim") as model:
        own = model.input_memory()

        def turn():
            memory = TensorMemory.from_fd(model, shared_file(4096), 4096, owned=True)
            model.bind_input(0, memory)
            model.run()
            model.bind_input(0, own)
            memory.close()

        check(turn, 20_000, 2_000)


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_arrays_of_every_kind(control, kind):
    """20,000 frames of float32 in NCHW."""
    spec = InputSpec(dtype=TensorType.FLOAT32, layout=Layout.NCHW)
    array = np.ascontiguousarray(FRAME.transpose(0, 3, 1, 2), np.float32)
    options = {"outputs": [OutputSpec(dtype=TensorType.FLOAT32)]} if kind is Model else {}
    with kind(case_of().data, library="sim", inputs=[spec], **options) as model:
        check(lambda: model.run(array), 20_000, 2_000)


def test_loads_with_memory_from_outside(control):
    """2,000 models, two in one internal memory."""
    data = case_of_needs().data

    def turn():
        models = [Model(data, library="sim", flags=OUTSIDE) for _ in range(2)]
        for model in models:
            give_all(model)
        memory = TensorMemory(models[0], INTERNAL_BYTES)
        models[0].set_internal_memory(memory)
        models[1].set_internal_memory(memory.shared_with(models[1]))
        for model in models:
            model.run(FRAME)
            model.close()

    check(turn, 1_000, 200)


def test_duplicates(control):
    """2,000 of them, and of originals that are closed first."""
    data = case_of().data

    def turn():
        original = Model(data, library="sim")
        twin = original.duplicate()
        shared = Model(data, library="sim", share_weights_with=twin)
        original.close()
        twin.close()
        shared.run(FRAME)
        shared.close()

    check(turn, 1_000, 200)


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_shapes(control, kind):
    """3,000 choices."""
    with kind(DATA_BYTES, library="sim") as model:

        def turn():
            for shapes in (SMALL, BIG):
                model.set_input_shapes(shapes)
                model.run(np.zeros(shapes[0], np.uint8))

        check(turn, 1_500, 200)


def test_refusals(control):
    """20,000 wrong arguments, of specs, memories and shapes."""
    with Model(recorded(inputs=[image()]).data, library="sim") as model:
        small = TensorMemory(model, 8)
        fd = shared_file(64)

        def turn():
            with pytest.raises(ValueError):
                model.bind_input(0, small)
            with pytest.raises(ValueError):
                TensorMemory.from_fd(model, fd, 4096, owned=True)
            with pytest.raises(ValueError):
                model.set_input_shapes([(1, 2, 3, 4)])
            with pytest.raises(ValueError):
                model.output_f32("none")

        check(turn, 5_000, 500)
        os.close(fd)
