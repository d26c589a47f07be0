"""Bundles with recorded outputs: the input of a `Model` selects the output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rknn_runtime import GeneralModel, Model
from rknn_runtime.enums import QuantType
from rknn_runtime.errors import OperationFailedError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

PROFILES = ["rk3588", "rk3566", "rk3576", "rv1106", "rv1103b"]


def describe(soc: str):
    image = describe_input("image", (1, 3, 20, 37), soc=soc, zero_point=-128, scale=1 / 255)
    output = describe_output("output", (1, 33, 7, 7), soc=soc, zero_point=3, scale=0.1)
    return image, output


@pytest.mark.parametrize("soc", PROFILES)
def test_records_are_told_apart_by_the_normalized_input(soc: str) -> None:
    """Two frames get their own outputs; a third one is refused."""
    rng = np.random.default_rng(7)
    image, output = describe(soc)
    frames = rng.integers(0, 256, (3, *image.shape)).astype(np.uint8)
    answers = rng.integers(-128, 128, (2, 1, 33, 7, 7)).astype(np.int8)
    bundle = bundle_from_arrays(
        [image],
        [output],
        [Record([answers[i]], [frames[i]]) for i in range(2)],
        soc=soc,
        preprocessing=[Preprocessing((0.0, 10.5, 20.0), (255.0, 200.0, 100.0), False)],
    )
    with Model(bundle, library="sim") as model:
        for i in (1, 0):
            (result,) = model(frames[i])
            expected = (answers[i].astype(np.float32) - np.float32(3)) * np.float32(0.1)
            np.testing.assert_array_equal(result, expected)
        with pytest.raises(OperationFailedError):
            model(frames[2])


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_tensors_without_an_index_are_numbered(soc: str) -> None:
    """Two inputs and two outputs, described in one line each, make the same bundle as numbered."""

    def made(*numbers: int) -> bytes:
        inputs = [
            describe_input(name, (1, 3, 8, 8), soc=soc, index=index)
            for name, index in zip("ab", numbers)
        ]
        outputs = [
            describe_output(name, (1, 5, 7, 7), soc=soc, index=index)
            for name, index in zip("xy", numbers)
        ]
        answer = Record([np.full((1, 5, 7, 7), value, np.float32) for value in (1, 2)])
        return bundle_from_arrays(inputs, outputs, [answer], soc=soc)

    assert made(0, 0) == made(0, 1)
    with Model(made(0, 0), library="sim") as model:
        assert [attr.index for attr in model.outputs] == [0, 1]
        first, second = model(*(np.zeros(attr.shape, np.uint8) for attr in model.inputs))
    assert (first == 1).all() and (second == 2).all()


@pytest.mark.parametrize("numbers", [(1, 0), (1, 1), (0, 2), (0, 0, 2)])
def test_indices_that_are_no_positions_are_refused(numbers: tuple[int, ...]) -> None:
    """They are not corrected: who gave them means something else."""
    image, _ = describe("rk3588")
    outputs = [describe_output(f"o{i}", (1, 4), index=index) for i, index in enumerate(numbers)]
    answer = Record([np.zeros((1, 4), np.float32)] * len(numbers))
    with pytest.raises(ValueError, match=r"outputs: expected the indices 0 to \d in this order"):
        bundle_from_arrays([image], outputs, [answer])


def test_dynamic_fixed_point() -> None:
    """Recorded real numbers come back equal, from our kernels and the runtime's."""
    reals = np.arange(-8, 8, dtype=np.float32).reshape(1, 16) / 8
    output = describe_output("y", (1, 16), scale=0.5, zero_point=7)
    assert output.native is not None
    native = replace(output.native, qnt_type=QuantType.DFP, fl=3)
    outputs = [replace(output, qnt_type=QuantType.DFP, fl=3, native=native)]
    bundle = bundle_from_arrays([describe_input("x", (1, 4))], outputs, [Record([reals])])
    x = np.zeros((1, 4), np.float32)
    with Model(bundle, library="sim") as model:
        np.testing.assert_array_equal(model(x)[0], reals)
        np.testing.assert_array_equal(model.output_raw(0), np.arange(-8, 8)[np.newaxis])
    with GeneralModel(bundle, library="sim") as general:
        np.testing.assert_array_equal(general.run(x)[0], reals)
