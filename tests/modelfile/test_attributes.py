"""The rules by which the runtimes describe tensors, case by case.

`test_reader.py` compares them with recorded answers; here are SoCs without a recording, old
containers, and impossible files.
"""

from __future__ import annotations

import pytest

from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.soc import SOCS

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
RV1106 = Rules(SOCS["rv1106"], mini=True)


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
