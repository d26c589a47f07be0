"""Enumerations have the numbers that the vendor's runtimes understand."""

from __future__ import annotations

import numpy as np
import pytest

from rknn_runtime.enums import CoreMask, InitFlag, Layout, QuantType, TensorType


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (Layout, {"NCHW": 0, "NHWC": 1, "NC1HWC2": 2, "UNDEFINED": 3}),
        (QuantType, {"NONE": 0, "DFP": 1, "AFFINE": 2}),
        (
            TensorType,
            {
                "FLOAT32": 0, "FLOAT16": 1, "INT8": 2, "UINT8": 3, "INT16": 4, "UINT16": 5,
                "INT32": 6, "UINT32": 7, "INT64": 8, "BOOL": 9, "INT4": 10, "BFLOAT16": 11,
            },
        ),
        (
            CoreMask,
            {
                "AUTO": 0, "CORE_0": 1, "CORE_1": 2, "CORE_0_1": 3, "CORE_2": 4,
                "CORE_0_1_2": 7, "ALL": 0xFFFF,
            },
        ),
        (
            InitFlag,
            {
                "PRIOR_HIGH": 0, "PRIOR_MEDIUM": 1, "PRIOR_LOW": 2, "ASYNC": 4,
                "COLLECT_PERF": 8, "MEM_ALLOC_OUTSIDE": 0x10, "SHARE_WEIGHT_MEM": 0x20,
                "FENCE_IN_OUTSIDE": 0x40, "FENCE_OUT_OUTSIDE": 0x80,
                "COLLECT_MODEL_INFO_ONLY": 0x100, "INTERNAL_ALLOC_OUTSIDE": 0x200,
                "EXECUTE_FALLBACK_PRIOR_DEVICE_GPU": 0x400, "ENABLE_SRAM": 0x800,
                "SHARE_SRAM": 0x1000, "DISABLE_PROC_HIGH_PRIORITY": 0x2000,
                "DISABLE_FLUSH_INPUT_MEM_CACHE": 0x4000,
                "DISABLE_FLUSH_OUTPUT_MEM_CACHE": 0x8000, "MODEL_BUFFER_ZERO_COPY": 0x10000,
            },
        ),
    ],
)  # fmt: skip
def test_members_have_the_vendors_numbers(enum, values):
    """Names and numbers are those of the API reference, and there are no others."""
    assert {name: int(member) for name, member in enum.__members__.items()} == values


@pytest.mark.parametrize(
    "dtype", [member for member in TensorType if member.name not in ("INT4", "BFLOAT16")]
)
def test_the_numpy_dtype_has_the_same_name(dtype):
    """`numpy` is the dtype of that name."""
    assert dtype.numpy == np.dtype(dtype.name.lower())


@pytest.mark.parametrize("dtype", [TensorType.INT4, TensorType.BFLOAT16])
def test_elements_that_numpy_does_not_have_are_refused(dtype):
    """There is no dtype to fall back to silently."""
    with pytest.raises(TypeError, match=f"no dtype for {dtype.name}"):
        dtype.numpy  # noqa: B018
