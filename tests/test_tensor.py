"""TensorAttr: frozen metadata."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.tensor import TensorAttr


def attribute(native=None):
    return TensorAttr(
        index=1,
        name="scores",
        shape=(1, 20, 7, 7),
        layout=Layout.NCHW,
        dtype=TensorType.INT8,
        qnt_type=QuantType.AFFINE,
        zero_point=-128,
        scale=0.5,
        fl=0,
        n_elems=980,
        size=980,
        size_with_stride=980,
        w_stride=0,
        h_stride=0,
        native=native,
        nhwc=None,
    )


INTEGERS = (
    "index", "zero_point", "fl", "n_elems", "size", "size_with_stride", "w_stride", "h_stride",
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *(({name: 1.0}, TypeError, f"{name}: expected int, got 1.0") for name in INTEGERS),
        ({"shape": [1, 2]}, TypeError, r"shape: expected tuple, got \[1, 2\]"),
        ({"shape": (1, 2.0)}, TypeError, "shape: expected integers, got"),
        ({"shape": (1, 0)}, ValueError, "expected dimensions from 1 to"),
        ({"shape": (1, -1)}, ValueError, "expected dimensions from 1 to"),
        ({"shape": (1, 1 << 32)}, ValueError, "expected dimensions from 1 to"),
        ({"name": None}, TypeError, "name: expected str, got None"),
        ({"layout": 0}, TypeError, "layout: expected Layout, got 0"),
        ({"dtype": 2}, TypeError, "dtype: expected TensorType, got 2"),
        ({"qnt_type": 1}, TypeError, "qnt_type: expected QuantType, got 1"),
        ({"scale": "1"}, TypeError, "scale: expected float or int, got '1'"),
        ({"fl": 128}, ValueError, "fl: expected -128 to 127, got 128"),
        ({"native": "x"}, TypeError, "native: expected TensorAttr or NoneType, got 'x'"),
        ({"nhwc": ()}, TypeError, r"nhwc: expected TensorAttr or NoneType, got \(\)"),
    ],
)
def test_what_is_no_attribute_is_refused(change, error, message):
    """Each field has its type; a dimension and ``fl`` have the range of the vendor's struct."""
    with pytest.raises(error, match=message):
        replace(attribute(), **change)


def described(shape, layout, dtype=TensorType.INT8, **fields):
    return replace(attribute(), shape=shape, layout=layout, dtype=dtype, **fields)


def test_what_is_stored_is_the_native_attribute():
    """An attribute without a native one, as a native one is, lies in memory as it says."""
    native = described((1, 2, 7, 7, 16), Layout.NC1HWC2)
    assert attribute(native).stored is native
    assert native.stored is native


@pytest.mark.parametrize(
    ("layout", "native", "packed"),
    [
        (Layout.NCHW, Layout.NC1HWC2, True),
        (Layout.NHWC, Layout.NC1HWC2, True),
        (Layout.UNDEFINED, Layout.NC1HWC2, True),
        (Layout.NC1HWC2, Layout.NC1HWC2, False),  # librknnmrt 1.6.0
        (Layout.NCHW, Layout.NCHW, False),
        (Layout.NHWC, Layout.NHWC, False),
        (Layout.NC1HWC2, Layout.NCHW, False),
        (Layout.NC1HWC2, None, False),
        (Layout.NCHW, None, False),
    ],
)
def test_packed_is_what_memory_has_in_groups_and_the_shape_not(layout, native, packed):
    """Only then something must be unpacked."""
    stored = None if native is None else described((1,), native)
    assert described((1,), layout, native=stored).is_packed is packed


@pytest.mark.parametrize(
    ("shape", "layout", "nchw_shape", "is_nhwc", "takes_pixels"),
    [
        ((2, 3, 4, 5), Layout.NCHW, (2, 3, 4, 5), False, False),
        ((2, 4, 5, 3), Layout.NHWC, (2, 3, 4, 5), True, True),
        ((2, 4, 3, 5), Layout.NHWC, (2, 5, 4, 3), True, False),
    ],
)
def test_channels_height_and_width_of_either_order(
    shape, layout, nchw_shape, is_nhwc, takes_pixels
):
    """They are found wherever the layout has them."""
    attr = described(shape, layout)
    assert attr.nchw_shape == nchw_shape
    assert (attr.channels, attr.height, attr.width) == nchw_shape[1:]
    assert (attr.is_nhwc, attr.takes_pixels) == (is_nhwc, takes_pixels)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 2, 7, 7, 16), Layout.NC1HWC2),
        ((1, 20, 7, 7), Layout.UNDEFINED),
        ((1, 20, 7, 7), Layout.NC1HWC2),
        ((1, 20, 7), Layout.UNDEFINED),
        ((1, 20, 7), Layout.NHWC),
        ((1, 7, 7, 4, 1), Layout.NHWC),
        ((), Layout.NCHW),
    ],
)
def test_what_is_no_image_has_no_height(shape, layout):
    """The shape stays, and asking for a side raises with the reason."""
    attr = described(shape, layout)
    assert (attr.is_nhwc, attr.takes_pixels, attr.nchw_shape) == (False, False, shape)
    for name in ("channels", "height", "width"):
        with pytest.raises(ValueError, match=f"'scores': expected 4 dim.*, got {layout.name} "):
            getattr(attr, name)


AFFINE, DFP, NONE = QuantType.AFFINE, QuantType.DFP, QuantType.NONE


@pytest.mark.parametrize(
    ("dtype", "qnt_type", "zero_point", "scale", "fl", "affine"),
    [
        ("INT8", AFFINE, -128, 0.5, 3, (-128, 0.5)),
        ("UINT8", AFFINE, 128, 0.5, 0, (128, 0.5)),
        ("INT16", AFFINE, 0, 0.5, 0, (0, 0.5)),
        ("INT4", AFFINE, 1, 0.5, 0, (1, 0.5)),
        ("INT32", AFFINE, 0, 0.5, 0, (0, 0.5)),
        # The range is checked elsewhere.
        ("INT8", AFFINE, 300, 0.5, 0, (300, 0.5)),
        ("INT8", AFFINE, 0, math.inf, 0, (0, math.inf)),
        # librknnrt's values for tensors without quantization; for int8 they are a quantization.
        ("INT8", AFFINE, 0, 1.0, 0, (0, 1.0)),
        ("INT16", AFFINE, 0, 1.0, 0, (0, 1.0)),
        ("INT64", AFFINE, 0, 1.0, 0, None),
        ("INT32", AFFINE, 0, 1.0, 0, None),
        ("BOOL", AFFINE, 0, 1.0, 0, None),
        ("INT64", AFFINE, 1, 1.0, 0, (1, 1.0)),
        # RV1106's words.
        ("INT64", AFFINE, 0, 0.0, 0, None),
        ("INT8", AFFINE, 5, 0.0, 0, None),
        ("INT8", AFFINE, 5, -0.5, 0, None),
        ("INT8", AFFINE, 5, 2.0**-127, 0, None),
        ("INT8", AFFINE, 5, 2.0**-126, 0, (5, 2.0**-126)),
        ("INT8", DFP, 5, 0.5, 3, (0, 0.125)),
        ("INT16", DFP, 5, 0.0, -3, (0, 8.0)),
        ("INT8", DFP, 0, 0.0, 127, (0, 2.0**-127)),
        ("INT8", DFP, 0, 0.0, -128, (0, 2.0**128)),
        ("INT8", NONE, 5, 0.5, 3, None),
        ("FLOAT16", AFFINE, 0, 1.0, 0, None),
        ("FLOAT32", AFFINE, 3, 0.5, 0, None),
        ("BFLOAT16", AFFINE, 0, 1.0, 0, None),
        ("FLOAT16", DFP, 0, 0.0, 3, None),
    ],
)
def test_the_affine_pair_of_what_is_stored(dtype, qnt_type, zero_point, scale, fl, affine):
    """One rule for both runtimes' ways to say that nothing is quantized, and for DFP."""
    native = described(
        (4,), Layout.UNDEFINED, TensorType[dtype],
        qnt_type=qnt_type, zero_point=zero_point, scale=scale, fl=fl,
    )  # fmt: skip
    assert native.affine == affine
    assert described((4,), Layout.UNDEFINED, TensorType.FLOAT32, native=native).affine == affine


@pytest.mark.parametrize(
    ("shape", "layout", "dtype", "w_stride", "h_stride", "strides", "n_bytes"),
    [
        ((2, 3, 4, 5), Layout.NCHW, "INT8", 0, 0, (60, 20, 5, 1), 120),
        ((2, 3, 4, 5), Layout.NCHW, "INT8", 8, 8, (60, 20, 5, 1), 120),
        ((2, 4, 5, 3), Layout.NHWC, "UINT8", 0, 0, (60, 15, 3, 1), 120),
        ((2, 4, 5, 3), Layout.NHWC, "UINT8", 8, 0, (96, 24, 3, 1), 192),
        ((2, 4, 5, 3), Layout.NHWC, "FLOAT16", 8, 6, (288, 48, 6, 2), 576),
        ((1, 2, 7, 7, 16), Layout.NC1HWC2, "INT16", 7, 0, (3136, 1568, 224, 32, 2), 3136),
        ((3, 5), Layout.UNDEFINED, "INT64", 0, 0, (40, 8), 120),
        ((), Layout.UNDEFINED, "INT64", 0, 0, (), 8),
    ],
)
def test_strides_are_those_of_memory(shape, layout, dtype, w_stride, h_stride, strides, n_bytes):
    """Rows of NHWC are padded to ``w_stride``, images to ``h_stride`` rows; all else is dense."""
    attr = described(shape, layout, TensorType[dtype], w_stride=w_stride, h_stride=h_stride)
    assert attr.strides == strides
    assert attr.array_bytes == n_bytes


def test_strides_of_elements_that_numpy_does_not_have():
    """Two INT4 share a byte."""
    with pytest.raises(TypeError, match="INT4"):
        _ = described((8,), Layout.UNDEFINED, TensorType.INT4).strides


@pytest.mark.parametrize("view", [None, "native", "nhwc"])
@pytest.mark.parametrize("field", ["size", "size_with_stride"])
def test_a_buffer_holds_what_any_view_asks_for(view, field):
    """The runtimes report several sizes, and write as much as the largest."""
    views = {"native": attribute(), "nhwc": attribute()}
    if view is None:
        attr = replace(attribute(), **views, **{field: 999})
    else:
        views[view] = replace(views[view], **{field: 999})
        attr = replace(attribute(), **views)
    assert attr.buffer_bytes == 999
    assert attribute().buffer_bytes == 980
