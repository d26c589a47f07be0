"""Bundles with recorded outputs: what goes in decides what comes out, through `Model`."""

from __future__ import annotations

import numpy as np
import pytest

from rknn_runtime import Model
from rknn_runtime.errors import OperationFailedError
from rknn_runtime.modelfile.reader import Preprocessing
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

PROFILES = ["rk3588", "rk3566", "rk3576", "rv1106", "rv1103b"]


def describe(soc: str):
    image = describe_input("image", (1, 3, 20, 37), soc=soc, zero_point=-128, scale=1 / 255)
    output = describe_output("output", (1, 33, 7, 7), soc=soc, zero_point=3, scale=0.1)
    return image, output


@pytest.mark.parametrize("soc", PROFILES)
def test_a_record_for_any_input_comes_back_through_the_native_layout(soc: str) -> None:
    """Recorded values survive packing with padded channels and planes, on every profile."""
    rng = np.random.default_rng(7)
    image, output = describe(soc)
    values = rng.integers(-128, 128, (1, 33, 7, 7)).astype(np.int8)
    bundle = bundle_from_arrays([image], [output], [Record([values])], soc=soc)
    with Model(bundle, library="sim") as model:
        (result,) = model(np.zeros(image.shape, np.uint8))
    expected = (values.astype(np.float32) - np.float32(3)) * np.float32(0.1)
    np.testing.assert_array_equal(result, expected)


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
