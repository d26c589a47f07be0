"""The rules by which the runtimes describe tensors, case by case.

`test_reader.py` compares them with recorded answers; here are SoCs without a recording, old
containers, and impossible files.
"""

from __future__ import annotations

import pytest

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.soc import SOCS

IMAGE = FileTensor(
    name="images",
    dtype=TensorType.INT8,
    layout=Layout.NC1HWC2,
    native_shape=(1, 1, 20, 20, 3),
    shape=(1, 3, 20, 20),
    zero_point=-128,
    scale=1 / 255,
    reserved_bytes=0,
    is_pixel_input=True,
)
FEATURES = FileTensor(
    name="output0",
    dtype=TensorType.INT8,
    layout=Layout.NC1HWC2,
    native_shape=(1, 3, 7, 7, 16),
    shape=(1, 33, 7, 7),
    zero_point=5,
    scale=0.25,
    reserved_bytes=2560,
    is_pixel_input=False,
)
RK3588 = Rules(SOCS["rk3588"], mini=False)
RK3588_OLD = Rules(SOCS["rk3588"], mini=False, runtime_version="1.5.2")
RV1106 = Rules(SOCS["rv1106"], mini=True)


@pytest.mark.parametrize(
    ("soc", "dtype", "w_stride"),
    [
        ("rk3588", TensorType.INT8, 32),
        ("rk3588", TensorType.FLOAT16, 24),
        ("rk3566", TensorType.INT8, 24),
        ("rk3566", TensorType.FLOAT16, 20),
        ("rk3568", TensorType.INT8, 24),
        ("rk3562", TensorType.INT8, 32),
        ("rk3576", TensorType.INT8, 32),
    ],
)
def test_rows_of_an_image_begin_at_the_alignment_of_the_soc(
    soc: str, dtype: TensorType, w_stride: int
) -> None:
    """20 pixels: rows of 8 bytes on RK3566 and RK3568, of 16 elsewhere, per channel."""
    tensor = IMAGE._replace(dtype=dtype)
    attr = input_attr(tensor, 0, Rules(SOCS[soc], mini=False))
    assert attr.w_stride == w_stride
    assert attr.size_with_stride == 20 * w_stride * 3 * dtype.numpy.itemsize
    assert attr.native == attr.nhwc


def test_a_collapsed_output() -> None:
    """7 * 7 pixels are one row of 52; all but librknnrt 1.5.2 report the reserved bytes."""
    native = output_attr(FEATURES, 2, RV1106).native
    assert native is not None
    assert native.shape == (1, 3, 1, 52, 16)
    assert (native.n_elems, native.size, native.size_with_stride) == (2496, 2560, 2560)
    assert (native.index, native.w_stride) == (2, 7)
    native = output_attr(FEATURES, 2, RK3588).native
    assert native is not None
    assert (native.n_elems, native.size, native.size_with_stride) == (2496, 2560, 2560)
    native = output_attr(FEATURES, 2, RK3588_OLD).native
    assert native is not None
    assert (native.n_elems, native.size, native.size_with_stride) == (2496, 2496, 2496)
    assert native.w_stride == 0


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 2), (4, 5), (1, 4)])
def test_multiples_of_four_pixels_and_single_ones_keep_height_and_width(
    height: int, width: int
) -> None:
    """Only other counts of pixels are padded to one row."""
    tensor = FEATURES._replace(shape=(1, 33, height, width), native_shape=(1, 3, height, width, 16))
    native = output_attr(tensor, 0, RK3588).native
    assert native is not None
    assert native.shape == (1, 3, height, width, 16)


@pytest.mark.parametrize(("c1", "reported"), [(1, 2), (2, 2), (3, 4)])
def test_old_containers_have_their_channel_groups_paired(c1: int, reported: int) -> None:
    """Librknnrt rounds C1 of container versions 2 to 4 up to even."""
    tensor = FEATURES._replace(shape=(1, 16 * c1, 4, 4), native_shape=(1, c1, 4, 4, 16))
    rules = RK3588._replace(container_version=2)
    native = output_attr(tensor, 0, rules).native
    assert native is not None
    assert native.shape == (1, reported, 4, 4, 16)
    native = output_attr(tensor, 0, RK3588).native
    assert native is not None
    assert native.shape == (1, c1, 4, 4, 16)


def test_an_output_made_by_the_cpu_keeps_its_layout() -> None:
    """ArgMax of rank 4: int64 in NCHW, not quantized."""
    tensor = FEATURES._replace(
        dtype=TensorType.INT64,
        layout=Layout.NCHW,
        native_shape=(1, 1, 7, 7),
        shape=(1, 1, 7, 7),
        zero_point=None,
        scale=None,
    )
    attr = output_attr(tensor, 0, RK3588)
    assert attr.native is not None
    assert (attr.native.layout, attr.native.shape) == (Layout.NCHW, (1, 1, 7, 7))
    assert (attr.native.n_elems, attr.qnt_type) == (7 * 7, QuantType.AFFINE)


def test_the_reserved_bytes_are_an_input_s_for_librknnrt_1_5_2_alone() -> None:
    """As the size with strides of a logical input that is no image."""
    tensor = IMAGE._replace(shape=(1, 8), native_shape=(1, 8), is_pixel_input=False,
                                 layout=Layout.UNDEFINED, reserved_bytes=16)  # fmt: skip
    for rules, expected in ((RK3588, 8), (RK3588_OLD, 16), (RV1106, 8)):
        assert input_attr(tensor, 0, rules).size_with_stride == expected


def test_a_logical_type_of_its_own_decides_the_logical_sizes() -> None:
    """Old containers have float32 reported for int8 tensors, with strides in float32, too."""
    image = IMAGE._replace(api_dtype=TensorType.FLOAT32)
    attr = input_attr(image, 0, RK3588)
    assert attr.native is not None
    assert attr.size_with_stride == 4 * attr.native.size_with_stride
    features = FEATURES._replace(shape=(1, 8, 128, 128), native_shape=(1, 1, 128, 128, 16),
        api_dtype=TensorType.FLOAT32,
    )  # fmt: skip
    assert output_attr(features, 0, RK3588).size_with_stride == 16 * 128 * 128 * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (1, 33, 0, 7)},
        {"shape": (1, -33, 7, 7)},
        {"shape": (1,) * 17},
        {"native_shape": (1, 2, 7, 7, 16)},
        {"native_shape": (2, 3, 7, 7, 16)},
        {"native_shape": (1, 3, 7, 6, 16)},
        {"native_shape": (1, 48, 7, 7)},
        {"native_shape": (1, 33, 7, 7), "layout": Layout.NHWC, "shape": (1, 32, 7, 7)},
        {"is_pixel_input": True},
        {"zero_point": None},
        {"scale": float("nan")},
        {"scale": float("inf")},
        {"reserved_bytes": 2**32},
    ],
)
def test_a_tensor_that_contradicts_itself_is_refused(changes: dict[str, object]) -> None:
    """A native shape must hold the logical one; numbers must be reportable."""
    tensor = FEATURES._replace(**changes)  # type: ignore[arg-type]
    for describe in (input_attr, output_attr):
        with pytest.raises(ValueError, match="output0"):
            describe(tensor, 0, RK3588)


def test_a_tensor_beyond_32_bits_is_refused() -> None:
    """Runtimes report sizes as u32; a wrapped one would be a too small buffer."""
    shape = (1, 16, 65536, 8192)
    tensor = FEATURES._replace(shape=shape, native_shape=(1, 1, 65536, 8192, 16))
    for rules in (RK3588, RV1106):
        for describe in (input_attr, output_attr):
            with pytest.raises(ValueError, match="4 GiB"):
                describe(tensor, 0, rules)
