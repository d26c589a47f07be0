"""A call that binds memory is interrupted between any two steps; the model runs on.

Ctrl-C and lack of memory do that. The interrupt is raised at each bytecode in turn of the functions
that bind and that collect bound memory.
"""

from __future__ import annotations

import gc
import itertools
import sys
from contextlib import suppress

import numpy as np
import pytest
from bundles import image, output, real, values

from rknn_runtime import InitFlag, Model, TensorMemory
from rknn_runtime.npu.binding import Binding, BoundTensors, InnerMemory
from rknn_runtime.sim import Record, bundle_from_arrays

WHITE, BLACK = (np.full((1, 8, 20, 3), value, np.uint8) for value in (255, 0))
MAP = output("map", (1, 5, 4, 6))
ANSWERS = [values(MAP, seed) for seed in range(2)]
BUNDLE = bundle_from_arrays(
    [image()], [MAP], [Record([ANSWERS[0]], [WHITE]), Record([ANSWERS[1]], [BLACK])]
)
STEPS = {
    function.__code__
    for function in (
        Binding.bind,
        Model._bind_locked,
        BoundTensors.outdate,
        BoundTensors.refresh,
        BoundTensors.replaced,
        InnerMemory.give,
    )
}


class Interrupt(BaseException):
    """In the place of a KeyboardInterrupt."""


def interrupted(nth, call, *arguments, **options):
    """Call, with an interrupt at the nth bytecode of the steps; return whether one came."""
    left = nth

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code not in STEPS:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(*arguments, **options)
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def answer(model):
    """Run on the bound memory; return which image it held."""
    model.run()
    output = model.output_f32(0)
    (found,) = (i for i, answer in enumerate(ANSWERS) if (real(answer, MAP) == output).all())
    return found


@pytest.fixture
def model(control):
    """With white pixels in its own memory."""
    with Model(BUNDLE, library="sim") as model:
        model.input_view()[...] = WHITE
        yield model


def black(model):
    """Make a memory with black pixels for a model whose own memory is bound."""
    memory = TensorMemory(model, model.input_memory().size_bytes)
    memory.array()[...] = 0
    return memory


@pytest.mark.parametrize("sync", [True, False])
def test_a_model_runs_on_what_it_says_is_bound(model, control, sync):
    """Either the old memory is bound or the new one, and unused memory is released."""
    own = model.input_memory()
    for nth in itertools.count(1):
        other = black(model)
        was_interrupted = interrupted(nth, model.bind_input, 0, other, sync=sync)
        is_other = model.input_memory() is other
        del other
        gc.collect()
        assert answer(model) == is_other
        model.bind_input(0, own)
        assert answer(model) == 0
        assert control.live.memories == 2
        if not was_interrupted:
            break
    assert nth > 50


def test_a_first_memory_is_bound_or_missing(control):
    """A model without its own memory can repeat an interrupted call."""
    for nth in itertools.count(1):
        with Model(BUNDLE, library="sim", flags=InitFlag.MEM_ALLOC_OUTSIDE) as model:
            model.set_internal_memory(TensorMemory(model, 4096))
            model.set_weight_memory(TensorMemory(model, 4096))
            model.bind_output(0, TensorMemory(model, 4096))
            memory = TensorMemory(model, 4096)
            memory.array()[...] = 0
            was_interrupted = interrupted(nth, model.bind_input, 0, memory)
            if was_interrupted:
                model.bind_input(0, memory)
            assert answer(model) == 1
        if not was_interrupted:
            break
    assert nth > 50


@pytest.mark.parametrize("give", [Model.set_internal_memory, Model.set_weight_memory])
@pytest.mark.parametrize("is_first", [True, False])
def test_memory_for_what_is_inside_lives_while_the_runtime_may_have_it(control, give, is_first):
    """Either the old memory is set or the new one; each run waits for others in the same memory."""
    for nth in itertools.count(1):
        with Model(BUNDLE, library="sim", flags=InitFlag.MEM_ALLOC_OUTSIDE) as model:
            for each in (Model.set_internal_memory, Model.set_weight_memory):
                if each is not give or not is_first:
                    each(model, TensorMemory(model, 4096))
            memory = TensorMemory(model, 4096)
            memory.array()[...] = 0
            model.bind_input(0, memory)
            model.bind_output(0, TensorMemory(model, 4096))
            was_interrupted = interrupted(nth, give, model, TensorMemory(model, 4096))
            gc.collect()
            assert control.live.memories >= 3 + (not is_first)
            if is_first and was_interrupted:
                with suppress(RuntimeError):
                    model.run()  # missing, or the last step was done
                give(model, TensorMemory(model, 4096))
            assert answer(model) == 1
            gc.collect()
            assert control.live.memories == 4
        if not was_interrupted:
            break
    assert nth > 50
