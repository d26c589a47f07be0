"""Elements of native tensors in place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import layout as reference
from variants import random, same_bits

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.kernels import Nc1hwc2Layout
from rknn_runtime.tensor import TensorAttr

pytestmark = pytest.mark.filterwarnings("error")


def attr(shape, layout, native=None, dtype=TensorType.INT8, zero_point=-5, scale=0.5):
    """Make an attribute with the fields that the layout reads."""
    return TensorAttr(
        index=0,
        name="output",
        shape=shape,
        layout=layout,
        dtype=dtype,
        qnt_type=QuantType.AFFINE,
        zero_point=zero_point,
        scale=scale,
        fl=0,
        n_elems=int(np.prod(shape)),
        size=int(np.prod(shape)),
        size_with_stride=int(np.prod(shape)),
        w_stride=0,
        h_stride=0,
        native=native,
        nhwc=None,
    )


@pytest.mark.parametrize(
    ("native", "logical"),
    [
        ((1, 6, 8, 9, 16), (1, 84, 8, 9)),
        ((1, 2, 1, 52, 16), (1, 20, 7, 7)),
        ((1, 3, 20, 1, 16), (1, 33, 20, 1)),
    ],
)
def test_the_layout_finds_every_element(native, logical):
    """Offset plus prediction times stride reads what unpacking gives, for W > 1 too."""
    layout = Nc1hwc2Layout.from_attr(attr(logical, Layout.NCHW, attr(native, Layout.NC1HWC2)))
    src = random(native, np.int8)
    _, channels, height, width = logical
    assert (layout.channels, layout.num_predictions) == (channels, height * width)
    offsets = layout.channel_offsets(0, channels)
    assert offsets.tolist() == [layout.channel_offset(c) for c in range(channels)]
    predictions = np.arange(layout.num_predictions) * layout.prediction_stride
    actual = src.ravel()[offsets[:, None] + predictions]
    same_bits(actual.reshape(logical), reference.nchw(src, channels, height, width))


def test_the_layout_of_a_native_attribute_counts_the_padding():
    """Without the logical attribute all channels and positions count."""
    layout = Nc1hwc2Layout.from_attr(attr((1, 2, 1, 52, 16), Layout.NC1HWC2))
    assert (layout.channels, layout.num_predictions) == (32, 52)
    assert (layout.prediction_stride, layout.channel_offset(17)) == (16, 52 * 16 + 1)


def test_the_layout_reads_nhwc_attributes():
    """Channels are the last dimension of a logical NHWC attribute."""
    native = attr((1, 2, 4, 6, 16), Layout.NC1HWC2)
    layout = Nc1hwc2Layout.from_attr(attr((1, 4, 6, 20), Layout.NHWC, native))
    assert (layout.channels, layout.num_predictions) == (20, 24)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"qnt_type": QuantType.DFP, "fl": 3}, 0.875),
        ({"qnt_type": QuantType.NONE}, 7.0),
        ({"zero_point": 0, "scale": 0.0}, 7.0),  # RV1106's words for integers like indices
    ],
)
def test_the_layout_dequantizes_by_the_rule_of_the_attribute(fields, value):
    """Dynamic fixed point gives a scale of 2^-fl; plain integers stand for themselves."""
    native = replace(attr((1, 1, 1, 4, 16), Layout.NC1HWC2), **fields)
    layout = Nc1hwc2Layout.from_attr(native)
    assert layout.dequantize(7) == np.float32(value)
    assert layout.integer_threshold(value) == 7


@given(
    st.floats(width=32, allow_nan=False),
    st.integers(-128, 127),
    st.floats(2.0**-20, 2.0**10, width=32),
)
def test_the_integer_threshold_selects_the_same_elements(threshold, zero_point, scale):
    """Comparing integers accepts what comparing dequantized floats accepts, for all 256."""
    layout = Nc1hwc2Layout.from_attr(
        attr((1, 1, 1, 4, 16), Layout.NC1HWC2, zero_point=zero_point, scale=scale)
    )
    raw = np.arange(-128, 128)
    expected = layout.dequantize(raw) >= np.float32(threshold)
    assert ((raw >= layout.integer_threshold(threshold)) == expected).all()


def test_a_threshold_beyond_the_range_yields_nothing():
    """The largest stored integer is not accepted by a threshold above it."""
    layout = Nc1hwc2Layout.from_attr(attr((1, 1, 1, 4, 16), Layout.NC1HWC2))
    assert layout.integer_threshold(66.0) == 127
    assert layout.integer_threshold(66.1) == 128
    assert layout.integer_threshold(float("inf")) == 128
    assert layout.integer_threshold(float("-inf")) == -128


def test_the_layout_refuses_what_it_cannot_describe():
    """Another layout, floats, NaN and missing channels are errors."""
    with pytest.raises(ValueError, match="expected NC1HWC2 with 5 dimensions"):
        Nc1hwc2Layout.from_attr(attr((1, 84, 8400), Layout.UNDEFINED))
    with pytest.raises(ValueError, match="integer elements, got float16"):
        Nc1hwc2Layout.from_attr(attr((1, 1, 1, 4, 16), Layout.NC1HWC2, dtype=TensorType.FLOAT16))
    layout = Nc1hwc2Layout.from_attr(attr((1, 2, 1, 4, 16), Layout.NC1HWC2))
    with pytest.raises(ValueError, match="channel: expected 0 to 31, got 32"):
        layout.channel_offset(32)
    with pytest.raises(ValueError, match="count: expected 0 to 2, got 3"):
        layout.channel_offsets(30, 3)
    with pytest.raises(ValueError, match="got nan"):
        layout.integer_threshold(float("nan"))
