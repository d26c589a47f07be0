"""Ranges from samples: the toolkit's where it shows them, and least errors where it does not."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from paths import DATA

from rknn_runtime import Model, TensorType
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.quantization import Calibrator, affine_parameters, calibrate
from rknn_runtime.quantization.divergence import absolute_histogram, kl_cut
from rknn_runtime.quantization.histogram import HALF, Histogram
from rknn_runtime.sim import bundle_from_onnx

ALGORITHMS = ("normal", "kl_divergence", "mmse")
RANDOM = np.random.default_rng(0)
INT8_MODELS = sorted((DATA / "models").glob("*_rk3588.rknn"))


def test_scale_and_zero_point_are_those_of_the_toolkit() -> None:
    """For the range of every int8 input and output that the files of the tests document."""
    seen = 0
    for path in INT8_MODELS:
        with opened(path) as data:
            file = ModelFile(data)
            info, ranges = file.info(), file.calibration()
        for attr in (*info.inputs, *info.outputs):
            if attr.affine is None or attr.stored.dtype is not TensorType.INT8:
                continue
            kept = ranges[attr.name]
            scale, zero_point = affine_parameters(kept.lowest, kept.highest)
            assert (zero_point, scale) == (attr.affine[0], pytest.approx(attr.affine[1], rel=1e-6))
            seen += 1
    assert seen >= 8


@pytest.mark.parametrize(
    ("low", "high", "symmetric", "scale", "zero_point"),
    [
        (-1.0, 1.55, False, 0.01, -28),
        (0.0, 2.55, False, 0.01, -128),
        (1.0, 2.55, False, 0.01, -128),  # 0 is covered
        (-2.55, -1.0, False, 0.01, 127),
        (-6.35, 2.0, True, 0.05, 0),
        (0.0, 0.0, False, 1.0, -128),
        (0.0, 0.0, True, 1.0, 0),
    ],
)
def test_parameters_by_hand(low, high, symmetric, scale, zero_point) -> None:
    """Symmetric: 127 steps of the larger side. Else 255 steps from end to end."""
    found = affine_parameters(low, high, symmetric=symmetric)
    assert found == (pytest.approx(scale), zero_point)


def test_normal_is_from_the_smallest_to_the_largest() -> None:
    """Over all samples, of any shape and type."""
    samples = [np.float32([[1, -2]]), np.float64([0.5, 3, 0]), np.int8([2])]
    (found,) = calibrate(iter(samples)).ranges
    assert (found.lowest, found.highest) == (-2, 3)
    assert (found.measured_lowest, found.measured_highest) == (-2, 3)
    assert (found.scale, found.zero_point) == (pytest.approx(5 / 255), -26)


def _distributions() -> dict[str, list[np.ndarray]]:
    """Samples by rules that round alike on every machine."""
    u = (np.arange(4096) + 0.5) / 4096
    ramp = 2 * u - 1
    long_tailed = ramp / np.sqrt(2 * u * (1 - u))  # Student's t, 2 degrees of freedom
    bell = u + np.roll(u, 1365)[::-1] + np.roll(u, 777) + np.roll(u, 3001)[::-1] * u - 1.5
    outlier, outliers = bell.copy(), bell.copy()
    outlier[100] = 40
    outliers[[100, 200, 300]] = -7, 9, -8
    relu = np.maximum(long_tailed, 0)
    return {
        "long-tailed": [long_tailed],
        "ramp": [ramp],
        "positive": [1 / np.sqrt(u)],
        "negative": [-1 / np.sqrt(u)],
        "cubic": [ramp**3],
        "bell": [bell],
        "one outlier": [outlier],
        "outliers": [outliers],
        "relu": [relu],
        "squares": [np.abs(bell) ** 2],
        "several": [bell, 2 * outliers, long_tailed / 3, relu],
        "scaled": [ramp**3 * scale for scale in (1, 5, 0.1)],
        "constant": [np.full(4096, 3), long_tailed],
        "zeros": [np.zeros(4096), outliers],
    }


#: What rknn-toolkit2 2.3.2 wrote into its files for kl_divergence, of a network that hands its
#: input through four times: the range of the input, and that of the output.
#: ``mmse`` gave the same.
RECORDED = {
    "long-tailed": (
        (-24.276804, 24.276804),
        (-24.276804, 24.276804),
    ),
    "ramp": ((-0.999267697, 0.999267697), (-0.999267697, 0.999267697)),
    "positive": ((1.00006104, 23.5554942), (1.00006104, 23.5554942)),
    "negative": (
        (-23.5554942, -1.00006104),
        (-23.5554942, -1.00006104),
    ),
    "cubic": ((-0.998779833, 0.998779833), (-0.998779833, 0.998779833)),
    "bell": ((-0.818416119, 1.2443521), (-0.818416119, 1.2443521)),
    "one outlier": ((-0.818416119, 40.0), (-0.818416119, 40.0)),
    "outliers": ((-1.26123047, 1.26123047), (-1.26123047, 1.26123047)),
    "relu": ((0.0, 24.276804), (0.0, 24.276804)),
    "squares": (
        (5.08398301e-09, 1.54765614),
        (5.08398301e-09, 1.5484122),
    ),
    "several": (
        (-8.09226823, 24.276804),
        (-14.7785435, 14.7785435),
    ),
    "scaled": ((-4.99389923, 4.99389923), (-4.99389923, 4.99389923)),
    "constant": (
        (-24.276804, 24.276804),
        (-15.5908947, 15.5908947),
    ),
    "zeros": ((-1.26123047, 1.26123047), (-1.26123047, 1.26123047)),
}


@pytest.mark.parametrize("name", RECORDED)
def test_divergence_is_the_toolkits(name) -> None:
    """Of inputs each sample by itself, of all else all samples as one; to float32's rounding."""
    samples = [each.astype(np.float32) for each in _distributions()[name]]
    as_input, as_output = RECORDED[name]
    (found,) = calibrate(samples, "kl_divergence").ranges
    assert (found.lowest, found.highest) == pytest.approx(as_input, rel=1e-7)
    (found,) = calibrate([np.stack(samples * 4)], "kl_divergence").ranges
    assert (found.lowest, found.highest) == pytest.approx(as_output, rel=1e-7)


#: First bin, its and the next ones' counts, a factor of all, and where the toolkit cut.
HISTOGRAMS = (
    (1, [1000] * 200, 1, 507),
    (1, [1000] * 254, 1, 385),
    (1, [1000] * 1022, 1, 1023),
    (1, [1000, 300] * 150, 100_000, None),
    (1, [5, 4, 3, 2] * 128, 1, 514),
    (1, [50, 40, 30, 20] * 128 + [1], 100, 769),
    (6, [1000], 1, None),
    (1, [40, 30] * 64 + [0] * 100 + [1], 1, 130),
    (1, [40, 30] * 64 + [0] * 100 + [50], 1, 356),
)


def test_cuts_of_histograms_are_the_toolkits() -> None:
    """Where float32 decides: a body of bins that lose alike, many counts, whole levels."""
    for first, bins, counts, expected in HISTOGRAMS:
        histogram = np.zeros(1024)
        histogram[first : first + len(bins)] = np.array(bins)
        found = kl_cut(histogram * counts)
        assert found == (None if expected is None else (expected + 0.5) / 1024)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sign", [1, -1])
def test_values_on_one_side_of_zero(algorithm, sign) -> None:
    """Have a range as well, in which 0 is covered, wherever it is cut."""
    values = sign * RANDOM.uniform(0.9, 1.0, 1000)
    (found,) = calibrate([values], algorithm).ranges
    assert found.lowest <= found.highest
    assert found.scale == pytest.approx(1 / 255, rel=0.1)
    assert found.zero_point == (-128 if sign > 0 else 127)


def test_mmse_has_the_least_error() -> None:
    """No other cut that was tried gives a smaller one; computed from the values themselves."""
    values = RANDOM.standard_t(3, 30_000)

    def error(threshold: float) -> float:
        low, high = max(values.min(), -threshold), min(values.max(), threshold)
        scale, zero_point = affine_parameters(low, high)
        stored = np.clip(np.rint(values / scale) + zero_point, -128, 127)
        return float((((stored - zero_point) * scale - values) ** 2).mean())

    (found,) = calibrate([values], "mmse").ranges
    most = np.abs(values).max()
    best = min(error(most * step / 128) for step in range(1, 129))
    kept = max(-found.lowest, found.highest)
    assert kept < most
    assert error(kept) <= best * 1.01


def test_zeros_of_a_relu_count_for_nothing() -> None:
    """They are stored exactly, however the range is cut."""
    values = np.maximum(RANDOM.normal(size=50_000), 0)
    for algorithm in ALGORITHMS:
        (with_zeros,) = calibrate([values], algorithm).ranges
        (without,) = calibrate([values[values > 0]], algorithm).ranges
        assert with_zeros.highest == without.highest > 2
    for algorithm in ALGORITHMS:
        (nothing,) = calibrate([np.zeros(5)], algorithm).ranges
        assert (nothing.lowest, nothing.highest, nothing.scale) == (0, 0, 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_channel_has_its_own(algorithm) -> None:
    """The same as of that channel alone."""
    weights = RANDOM.normal(size=(4, 3, 5, 5)) * np.array([1, 10, 0.1, 5]).reshape(4, 1, 1, 1)
    found = calibrate([weights], algorithm, per_channel=True, symmetric=True)
    assert found.scale.shape == (4,)
    assert found.zero_point.tolist() == [0] * 4
    for channel, each in zip(weights, found.ranges):
        assert calibrate([channel], algorithm, symmetric=True).ranges == (each,)
    second = calibrate([weights], algorithm, per_channel=True, axis=1)
    assert len(second.ranges) == 3
    assert len(str(second).splitlines()) == 3


def test_the_order_of_samples_is_without_effect() -> None:
    """Also where the bins of the histogram had to grow."""
    values = np.sort(np.abs(RANDOM.normal(size=40_000)))
    for algorithm in ("kl_divergence", "mmse"):
        up = calibrate(np.split(values, 10), algorithm)
        assert up == calibrate(np.split(values[::-1], 10), algorithm)


def test_a_histogram_counts_all() -> None:
    """Also while it grows by many times, and at its very ends."""
    histogram = Histogram()
    total = 0
    for factor in (1e-3, 1.0, -7.0, 1e4, 0.5):
        values = RANDOM.uniform(0.1, 1, 100) * factor
        histogram.add(np.append(values, [0.0, values.max(), values.min()]))
        total += 102
        assert histogram.counts.sum() == total
    assert histogram.zeros == 5
    assert histogram.limit >= 9e3
    assert histogram.counts.shape == histogram.middles.shape == (2 * HALF,)


def test_the_largest_value_is_in_no_bin() -> None:
    """As in the toolkit's histogram; the smallest and all others are, in blocks of any size."""
    values = np.array([0.0, -0.5, 0.49, 1.0, -1.0, 0.9999])
    for block in (1, 4, 100):
        counts = absolute_histogram(values, 1.0, block)
        assert (counts.nonzero()[0].tolist(), counts.sum()) == ([0, 501, 512, 1023], 4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_samples_are_not_kept(algorithm) -> None:
    """Six of them take the memory of a few."""
    calibrator = Calibrator(algorithm)
    calibrator.add(np.ones(250_000, np.float32))
    tracemalloc.start()
    for seed in range(94, 100):
        calibrator.add(np.full(250_000, seed, np.float32))  # a megabyte each
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 2**20
    assert calibrator.result().ranges[0].measured_highest == 99


@pytest.mark.parametrize(
    ("samples", "options", "error", "message"),
    [
        ([], {}, ValueError, "samples: expected at least one value, got none"),
        ([np.empty((0, 3))], {}, ValueError, "samples: expected at least one value, got none"),
        (np.ones(3), {}, TypeError, "samples: expected an iterable of arrays, got ndarray"),
        (3, {}, TypeError, "samples: expected an iterable of arrays, got int"),
        ([3], {}, TypeError, "samples: expected an array of numbers, got int"),
        ([np.array(["a"])], {}, TypeError, "samples: expected arrays of numbers, got <U1"),
        ([np.float32([1, np.nan])], {}, ValueError, "samples: expected finite values"),
        ([np.float32([np.inf])], {}, ValueError, "samples: expected finite values"),
        ([np.ones(3)], {"algorithm": "best"}, ValueError, "algorithm: expected one of normal, kl"),
        ([np.ones(3)], {"bits": 4}, ValueError, "bits: expected 8 or 16, got 4"),
        ([np.ones(3)], {"per_channel": True, "axis": 1}, ValueError, "axis: expected one of 1"),
        ([np.ones(3)], {"per_channel": True, "axis": "a"}, TypeError, "axis"),
        (
            [np.ones(3), np.ones(2)],
            {"per_channel": True},
            ValueError,
            "expected 3 channels in each",
        ),
    ],
)
def test_misuse_is_told(samples, options, error, message) -> None:
    """With what was expected."""
    with pytest.raises(error, match=message):
        calibrate(samples, **options)


def test_parameters_refuse_what_is_no_range() -> None:
    """Wrong way round, or not finite."""
    for low, high in ((1.0, 0.0), (0.0, float("inf")), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="range: expected finite numbers, low and high"):
            affine_parameters(low, high)


def test_bundles_take_algorithms_and_ranges() -> None:
    """The algorithm that is named, or ranges of one's own; the scale is theirs."""
    pytest.importorskip("onnxruntime")
    onnx = DATA / "models" / "ic5.onnx"
    samples = [RANDOM.normal(size=(1, 32, 32, 5)).astype(np.float32) for _ in range(3)]
    mine = calibrate(samples, "normal", symmetric=True)
    for options, expected in (
        ({}, calibrate(samples).ranges[0].scale),
        ({"algorithm": "mmse"}, calibrate(samples, "mmse").ranges[0].scale),
        ({"ranges": {"images": mine}}, mine.ranges[0].scale),
    ):
        with Model(bundle_from_onnx(onnx, samples=samples, **options), library="sim") as model:
            assert model.inputs[0].affine is not None
            assert model.inputs[0].affine[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("ranges", "error", "message"),
    [
        ([], TypeError, "ranges: expected a mapping by name, got list"),
        ({"images": 3}, TypeError, "ranges: expected Calibrations, got int"),
        ({"x": calibrate([np.ones(3)])}, ValueError, "ranges: expected names of images, output0"),
        ({"images": calibrate([np.ones(3)], bits=16)}, ValueError, "one range of 8 bits"),
        ({"images": calibrate([np.ones(3)], per_channel=True)}, ValueError, "got 3 of 8"),
    ],
)
def test_bundles_refuse_other_ranges(ranges, error, message) -> None:
    """Of no tensor, of other bits, per channel: what no activation has."""
    pytest.importorskip("onnxruntime")
    onnx = DATA / "models" / "ic5.onnx"
    with pytest.raises(error, match=message):
        bundle_from_onnx(onnx, samples=[np.zeros((1, 32, 32, 5), np.float32)], ranges=ranges)
