"""Calls of another thread between two steps of a call wait or are refused.

Each test puts the other thread's call where the steps meet, so that nothing depends on chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from bundles import recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, FRAME, softmax
from test_dynamic_shapes import BIG, DATA_BYTES, SMALL, frame
from threads import in_threads

from rknn_runtime import GeneralModel, InitFlag, Matmul, MatmulType, Model, TensorMemory
from rknn_runtime.errors import OperationFailedError, RknnStatusError
from rknn_runtime.npu import general, operators, raw
from rknn_runtime.sim import Live


def elsewhere(work):
    """Do something in another thread, and wait for it."""
    in_threads(work, [()])


def is_free(lock):
    """Whether another thread could take a lock now."""
    found = []

    def look():
        found.append(lock.try_acquire())
        if found[0]:
            lock.release()

    elsewhere(look)
    return found[0]


def test_the_general_api_is_refused_until_all_follows_the_shapes(control, monkeypatch):
    """The runtime has the new shapes already, this package still the old ones: nothing may run."""
    model = GeneralModel(DATA_BYTES, library="sim")
    image = frame(model)
    refused = []

    def meanwhile():
        for call in (
            lambda: model.run(image),
            lambda: raw.run(model),
            lambda: raw.inputs_set(model, image),
            lambda: raw.outputs_get(model),
        ):
            with pytest.raises(RuntimeError, match="set_input_shapes has not succeeded"):
                call()
            refused.append(call)

    class Taker(general.CopiedInput):
        def __init__(self, *arguments):
            elsewhere(meanwhile)
            super().__init__(*arguments)

    monkeypatch.setattr(general, "CopiedInput", Taker)
    model.set_input_shapes(SMALL)
    assert len(refused) == 4
    assert model.run(frame(model))[0].shape == model.outputs[0].shape
    model.close()


def test_a_raw_run_waits_for_shapes(control):
    """After a choice that failed, too: memory that the runtime still has may be closed by then."""
    with Model(DATA_BYTES, library="sim") as model:
        control.fail("rknn_set_input_shapes", 1, -1)
        with pytest.raises(OperationFailedError):
            model.set_input_shapes(SMALL)
        with pytest.raises(RuntimeError, match="choose shapes again"):
            raw.run(model)
        model.set_input_shapes(SMALL)
        raw.run(model)


def test_a_failed_choice_leaves_memory_to_the_model_or_to_the_caller(control):
    """Memory that it kept cannot be closed, released memory can, and the next choice works."""
    with Model(DATA_BYTES, library="sim") as model:
        model.set_input_shapes(SMALL)
        small = TensorMemory(model, 32 * 32 * 3)
        model.bind_input(0, small)
        control.fail("rknn_set_io_mem", 1, -1)
        with pytest.raises(RknnStatusError):
            model.set_input_shapes(BIG)
        with pytest.raises(BufferError, match="the memory is output 0"):
            model.output_memory().close()
        small.close()
        model.set_input_shapes(BIG)
        with pytest.raises(RuntimeError, match="memory is missing for input 0"):
            raw.run(model)  # which would read from what is closed
        for shapes in (SMALL, BIG):
            model.set_input_shapes(shapes)
            model.bind_input(0, TensorMemory(model, 1 << 16))
            model.run(frame(model))
    assert control.last_violation == ""
    assert control.live == Live(0, 0, 0)


def test_a_duplicate_knows_of_pixels_that_came_meanwhile(control, monkeypatch):
    """The runtime takes all other inputs for pixels there, too, so they are refused."""
    with GeneralModel(recorded().data, library="sim") as model:
        image = np.zeros(model.inputs[0].shape, np.uint8)
        duplicate = GeneralModel._duplicate

        def late(twin, *arguments):
            elsewhere(lambda: model.run(image))
            duplicate(twin, *arguments)

        monkeypatch.setattr(GeneralModel, "_duplicate", late)
        with model.duplicate() as twin, pytest.raises(TypeError, match="as before, got float32"):
            twin.run(image.astype(np.float32))


def test_a_type_of_operators_is_registered_once(control, monkeypatch):
    """If two threads register one, the second is refused."""
    with Model(CUSTOM_SOFTMAX, library="sim") as model:

        class Slow(operators.Operator):
            def __init__(self, *arguments):
                monkeypatch.undo()
                elsewhere(lambda: model.register_custom_op(CUSTOM, softmax))
                super().__init__(*arguments)

        monkeypatch.setattr(operators, "Operator", Slow)
        with pytest.raises(ValueError, match="expected one without a function"):
            model.register_custom_op(CUSTOM, softmax)
        assert control.calls("rknn_register_custom_ops") == 1
        model(FRAME)


def test_runs_know_of_operators_before_the_runtime_has_any(control, monkeypatch):
    """Else an interrupt, or a run between the two, would lose what an operator raises."""
    take_note, seen = Model._take_note, []

    def watched(model):
        seen.append((control.calls("rknn_register_custom_ops"), is_free(model._context.exclusive)))
        take_note(model)

    monkeypatch.setattr(Model, "_take_note", watched)
    with Model(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(CUSTOM, softmax)
        assert seen == [(0, False)]
        assert not model._frame._is_plain


def test_no_run_goes_on_with_operators_that_came_meanwhile(control, monkeypatch):
    """Operators compute within a call of run, and their exceptions would be lost."""
    with Model(CUSTOM_SOFTMAX, library="sim", flags=InitFlag.FENCE_OUT_OUTSIDE) as model:

        def late(*_):
            elsewhere(lambda: model.register_custom_op(CUSTOM, softmax))
            return -1

        monkeypatch.setattr(raw, "checked_fence", late)
        with pytest.raises(ValueError, match="expected one without custom operators"):
            raw.start(model)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_rows_that_could_not_be_chosen_are_not_multiplied(control, nth):
    """The runtime may have one number of rows and this package another: it says so, until then."""
    k = n = 64
    b = np.random.default_rng(0).integers(-8, 8, (k, n)).astype(np.int8)
    with Matmul((4, 8), k, n, MatmulType.INT8_MM_INT8_TO_INT32, library="sim") as matmul:
        matmul.write_b(b)
        a = np.ones((4, k), np.int8)
        control.reset()
        control.fail("rknn_matmul_set_io_mem", nth, -1)
        with pytest.raises(OperationFailedError):
            matmul.set_m(8)
        for call in (lambda: matmul(a), matmul.run):
            with pytest.raises(RuntimeError, match="choose m again"):
                call()
        matmul.set_m(8)
        np.testing.assert_array_equal(matmul(np.ones((8, k), np.int8))[7], b.sum(0, np.int32))
        matmul.set_m(4)
        np.testing.assert_array_equal(matmul(a)[3], b.sum(0, np.int32))
