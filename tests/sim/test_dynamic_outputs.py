"""Outputs of a dynamic model in the NPU's own layout, as measured on three librknnrt.

Bound so by rknn_set_io_mem, in both shapes of the model: 1.5.2 writes int8; 1.6.0 and 2.3.2 let
rknn_run fail with -1; float32 is written by 2.3.2 alone. In NCHW and NHWC all of them write all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from paths import DATA
from sim_api import Api, bytes_of

from rknn_runtime._ffi import lib
from rknn_runtime.enums import Layout, TensorType

MODEL = (DATA / "models" / "dyn_in_rk3588.rknn").read_bytes()
NATIVE, NHWC = int(Layout.NC1HWC2), int(Layout.NHWC)
SHAPES = [(48, 40), (32, 32)]


def bound(api: Api, height: int, width: int, dtype: TensorType, layout: int) -> tuple[int, Any]:
    """Run in a shape; return the status and the bytes of the output."""
    attr = api.good_attr("in", "logical")
    attr.dims[1], attr.dims[2] = height, width
    assert lib.rkr_set_input_shapes(api.handle, api.context, 1, attr) == 0
    source = api.bind("in", type=TensorType.UINT8)
    bytes_of(source)[:] = np.arange(source.size) % 251
    target = api.create_mem(48 * 40 * 32 * 4 + 4096)
    out = api.good_attr("out", "native" if layout == NATIVE else "logical")
    out.type, out.fmt = int(dtype), layout
    assert api.set_io_mem(target, out) == 0
    status, data = api.run(), bytes_of(target).copy()
    assert api.destroy_mem(source) == api.destroy_mem(target) == 0
    return status, data


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_floats_are_written_in_the_layout_of_the_npu(height: int, width: int) -> None:
    """As NHWC has them, 16 channels at a time."""
    channels, c2 = 24, 16
    with Api(MODEL) as api:
        status, native = bound(api, height, width, TensorType.FLOAT32, NATIVE)
        assert status == 0
        _, plain = bound(api, height, width, TensorType.FLOAT32, NHWC)
    expected = plain.view(np.float32)[: height * width * channels]
    planes = native.view(np.float32)[: 2 * height * width * c2].reshape(2, height * width, c2)
    found = planes.transpose(1, 0, 2).reshape(height * width, 2 * c2)[:, :channels]
    np.testing.assert_array_equal(found.ravel(), expected)


@pytest.mark.parametrize("dtype", [TensorType.INT8, TensorType.FLOAT16])
@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_other_elements_fail(height: int, width: int, dtype: TensorType) -> None:
    """rknn_run says -1, and the message what to bind."""
    with Api(MODEL) as api:
        status, _ = bound(api, height, width, dtype, NATIVE)
        assert status == lib.RKNN_ERR_FAIL
        assert "bind it in NCHW" in api.control.last_message
        assert bound(api, height, width, TensorType.INT8, NHWC)[0] == 0
