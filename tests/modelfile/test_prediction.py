"""The time of a run, predicted from a file's layers."""

from __future__ import annotations

import pytest
from paths import DATA, PROJECT

from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile import Layer, LayerTensor, predict, read_layers
from rknn_runtime.modelfile.prediction import PREDICTED_SOCS

SHAPES = read_layers(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")


def layer(
    macs: int,
    stored: int,
    device: str = "NPU",
    operator: str = "Conv",
    dtype: TensorType = TensorType.INT8,
) -> Layer:
    tensors = (LayerTensor("x", (1, 8), dtype, stored),)
    return Layer(operator, "x", device, 1, tensors, (), 0, macs)


def test_the_longer_of_two_times_counts_and_says_what_bounds() -> None:
    """On RK3588 963 MACs a nanosecond, 5.01 bytes a nanosecond, 5 us a layer."""
    compute = layer(963_000_000, 5010)
    bandwidth = layer(1, 5_010_000)
    found = predict([compute, bandwidth, layer(0, 5010, "CPU"), layer(0, 9, "")], "rk3588")
    assert [time.bound for time in found.layers] == ["compute", "bandwidth", "CPU", ""]
    assert [time.us for time in found.layers] == pytest.approx([1005, 1005, 6, 0])
    assert found.ms == pytest.approx(2.016)
    assert found.fps == pytest.approx(1000 / 2.016)
    assert found.fastest_ms == pytest.approx(2.016 / 1.18)
    assert found.slowest_ms == pytest.approx(2.016 * 1.18)


@pytest.mark.parametrize("dtype", [TensorType.FLOAT16, TensorType.INT16])
def test_wide_layers_multiply_at_half_the_rate_and_widen_the_range(dtype: TensorType) -> None:
    """A model may mix them with int8; each layer is priced by what it reads."""
    narrow, wide = layer(963_000_000, 0), layer(963_000_000, 0, dtype=dtype)
    mixed = predict([narrow, wide], "rk3588")
    assert [time.us for time in mixed.layers] == pytest.approx([1005, 2005])
    ranges = [
        found.slowest_ms / found.ms
        for found in (predict([narrow], "rk3588"), mixed, predict([wide], "rk3588"))
    ]
    assert ranges == sorted(ranges) and ranges[0] < ranges[1] < ranges[2]


def test_a_float16_file_is_predicted() -> None:
    fp16 = read_layers(DATA / "models" / "fp16_ic1_w37_rk3588.rknn")
    assert predict(fp16, "rk3588").ms > 0


@pytest.mark.parametrize("soc", PREDICTED_SOCS)
def test_every_known_soc_has_an_error_and_a_wider_range(soc: str) -> None:
    """The medians are below the 15 % that a prediction is held to."""
    found = predict(SHAPES, soc)
    assert 0 < found.median_error <= 0.15
    assert found.fastest_ms * (1 + found.median_error) < found.ms
    assert found.ms * (1 + found.median_error) < found.slowest_ms


def test_what_has_no_public_figures_is_not_predicted() -> None:
    """Another SoC, and a model without multiplications."""
    with pytest.raises(UnavailableError, match=r"soc: expected one of .*, got 'rv1106'"):
        predict(SHAPES, "rv1106")
    with pytest.raises(UnavailableError, match="no layer of this model multiplies"):
        predict([], "rk3588")
    with pytest.raises(ValueError, match="batch: expected 1 to"):
        predict(SHAPES, "rk3588", batch=0)
    with pytest.raises(TypeError, match="batch: expected an integer, got"):
        predict(SHAPES, "rk3588", batch=1.5)  # type: ignore[arg-type]
