"""Results get their own memory, which is used again when nobody holds it."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from bundles import output, recorded

from rknn_runtime import GeneralModel, Model
from rknn_runtime.enums import TensorType
from rknn_runtime.npu.outputs import ResultPool
from rknn_runtime.sim import describe_input

#: Two outputs of 256 and 320 KiB as float32.
BIG = [(1, 40, 40, 40), (1, 50, 40, 40)]
FRAME = np.zeros((8, 20, 3), np.uint8)


def of(shapes, **options):
    return recorded(
        outputs=[output(f"y{i}", shape, index=i, **options) for i, shape in enumerate(shapes)]
    )


def address(array):
    return array.__array_interface__["data"][0]


def test_results_are_used_again_when_nobody_has_them():
    """``y = model(x)`` alternates between two blocks; held results are never overwritten."""
    case = of(BIG)
    with Model(case.data, library="sim") as model:
        seen = set()
        for _ in range(6):
            y = model(FRAME)
            seen.add(address(y[0]))
        assert len(seen) == 2
        held = [model(FRAME)[1] for _ in range(5)]
        for array in held:
            array[...] = -1
        part = model(FRAME)[1][0, 3:5, ::2]
        part[...] = -2
        later = [model(FRAME) for _ in range(5)]
        assert all((array == -1).all() for array in held) and (part == -2).all()
        for result in later:
            for array, expected in zip(result, case.expected):
                np.testing.assert_array_equal(array, expected)


def one(model):
    return model.output_f32(1)


def converted(model):
    return model.run(FRAME[None])[1]


def stored(model):
    return model.run(FRAME[None], float_outputs=False)[1]


@pytest.mark.parametrize(
    ("kind", "take"), [(Model, one), (GeneralModel, converted), (GeneralModel, stored)]
)
def test_every_new_result_is_used_again(kind, take):
    """Also results of ``output_f32`` and `GeneralModel`, with either dtype, but no held ones."""
    case = of(BIG, dtype=TensorType.INT8, zero_point=-3, scale=0.25)
    with kind(case.data, library="sim") as model:
        if kind is Model:
            model.run(FRAME)
        expected = take(model).copy()
        seen = set()
        for _ in range(6):
            y = take(model)
            seen.add(address(y))
        assert len(seen) == 2
        held = [take(model) for _ in range(5)]
        for array in held:
            array[...] = -1
        later = [take(model) for _ in range(3)]
        assert all((array == -1).all() for array in held)
        for array in later:
            assert array.dtype == (np.int8 if take is stored else np.float32)
            np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(later[0], expected)


def test_results_outlive_the_model():
    """Nothing of them is freed while an array is alive, in whatever way it is held."""
    case = of(BIG)
    model = Model(case.data, library="sim")
    whole, buffer = model(FRAME)[0], memoryview(model(FRAME)[1])
    model.close()
    assert model._results._blocks == []
    del model
    gc.collect()
    np.testing.assert_array_equal(whole, case.expected[0])
    np.testing.assert_array_equal(np.asarray(buffer), case.expected[1])


@pytest.mark.parametrize("names", [None, ["int8", "float32", "int64", "float16", "int8"]])
def test_arrays_of_a_pool_are_apart(names):
    """Each has its own shape and memory, from a cache line on; also an empty one."""
    shapes = [(3, 5), (0, 7), (), (1, 400000), (129,)]
    dtypes = names and [np.dtype(name) for name in names]
    for chosen in (shapes, shapes[:3]):
        arrays = ResultPool(chosen, dtypes).arrays()
        assert [array.shape for array in arrays] == chosen
        for number, array in enumerate(arrays):
            assert array.dtype == (dtypes[number] if dtypes else np.float32)
            assert array.flags.carray
            array[...] = number
        assert all((array == number).all() for number, array in enumerate(arrays))
        if chosen is shapes:
            assert {(address(a) - address(arrays[0])) % 64 for a in arrays if a.size} == {0}


def views(shapes, overlap):
    """One array per shape in one block, each beginning `overlap` bytes before the last one ends."""
    sizes = [4 * int(np.prod(shape)) for shape in shapes]
    block = np.empty(sum(sizes), np.uint8)
    arrays, begin = [], 0
    for shape, size in zip(shapes, sizes):
        arrays.append(np.ndarray(shape, np.float32, block, begin))
        begin += size - overlap
    return arrays


SMALL = [(1, 5, 4, 6), (1, 5, 4, 6), (1, 10)]


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_outs_that_overlap_are_refused(control, kind):
    """The same array twice, or a part of it, in any order; side by side they are taken."""
    case = of(SMALL)
    with kind(case.data, library="sim") as model:
        frame = FRAME[None]
        use = model if kind is Model else model.run
        first, second, third = views(SMALL, 4)
        before = control.calls("rknn_run")
        for out in ([first, first, third], [first, second, third], [second, first, third.copy()]):
            with pytest.raises(
                ValueError, match=r"^out\[\d\]: expected memory of its own, got that of out\[\d\]"
            ):
                use(frame, out=out)
        assert control.calls("rknn_run") == before
        for array, expected in zip(use(frame, out=views(SMALL, 0)), case.expected):
            np.testing.assert_array_equal(array, expected)


def test_an_out_that_overlaps_an_input():
    """A `Model` has copied its input before; a `GeneralModel` refuses any overlap."""
    case = recorded(
        inputs=[describe_input("a", (1, 8), zero_point=0, scale=0.5)],
        outputs=[output("y", (1, 8), dtype=TensorType.INT8)],
    )
    memory = np.zeros(24, np.float32)
    with GeneralModel(case.data, library="sim") as model:
        for begin in (0, 1, 7):
            with pytest.raises(
                ValueError, match=r"out\[0\]: expected memory of its own, got that of input 0"
            ):
                model.run(memory[None, :8], out=[memory[None, begin : begin + 8]])
        (y,) = model.run(memory[None, :8], out=[memory[None, 8:16]])
        np.testing.assert_array_equal(y, case.expected[0])
    with Model(case.data, library="sim") as model:
        for begin in (8, 7, 0, 0):
            memory[:] = 0
            (y,) = model(memory[None, :8], out=[memory[None, begin : begin + 8]])
            np.testing.assert_array_equal(y, case.expected[0])
            assert not memory[16:].any()


def test_an_out_in_the_models_own_memory_is_refused():
    """It would be overwritten before it is read, or the next run would read it."""
    case = recorded(outputs=[output("y", (1, 8), dtype=TensorType.FLOAT32)])
    with Model(case.data, library="sim") as model:
        for memory, name in (
            (model.output_memory(), "output 0"),
            (model.input_memory(), "input 0"),
        ):
            out = memory.array()[:32].view(np.float32).reshape(1, 8)
            for use in (lambda o: model(FRAME, out=[o]), lambda o: model.output_f32(0, o)):
                with pytest.raises(ValueError, match=rf"^out\[\d\]: expected .* that of .*{name}"):
                    use(out)
            del out
