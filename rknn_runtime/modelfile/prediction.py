"""How long a model will run on a board, predicted from its layers: never a measurement.

Each layer takes the longer of two times, its multiplications at the NPU's rate and the bytes that
it reads and writes at the memory's, and one constant for being started. Weights are not counted:
every fit said that they cost nothing. The three constants of a SoC were fitted to 13 detectors of
the vendor's public table of frames per second (README of airockchip/rknn_model_zoo 2.3.2; one core,
highest clocks) and judged on 12 others and a classifier: see ``docs/inspecting-models.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rknn_runtime._arrays import as_int
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.layers import Layer

__all__ = ["NO_MEASUREMENTS", "PREDICTED_SOCS", "LayerTime", "Prediction", "predict"]


class _Speed(NamedTuple):
    #: A second, int8, of one core.
    macs: float
    bytes_moved: float
    #: Of every layer.
    start_us: float
    #: The larger median error of two: of the 13 that were not fitted, and of all where a family of
    #: networks was left out of the fit; and what 8 of 10 stay within, of these and of all.
    error: float
    spread: float


_RK3566 = _Speed(430e9, 1.85e9, 5, 0.14, 0.25)
_SPEEDS = {
    "rk3562": _Speed(463e9, 2.63e9, 5, 0.08, 0.14),
    "rk3566": _RK3566,
    "rk3568": _RK3566,
    "rk3576": _Speed(895e9, 6.71e9, 10, 0.06, 0.11),
    "rk3588": _Speed(963e9, 5.01e9, 5, 0.09, 0.18),
}
#: The SoCs whose speed is public for enough networks.
PREDICTED_SOCS = tuple(_SPEEDS)
#: Why there are no others.
NO_MEASUREMENTS = "no measurements of enough networks are public; `bench` measures on a board"
#: Multiplications a second, as a part of those of int8 (technical reference manuals).
_RATES: dict[TensorType | None, float] = {TensorType.INT8: 1.0, TensorType.UINT8: 1.0}
_WIDE_RATE = 0.5
#: The range of networks without int8: their times were not fitted, and half or double is likely.
_WIDE_SPREAD = 1.0


class LayerTime(NamedTuple):
    """The time of one layer."""

    layer: Layer
    us: float
    #: ``"compute"``, ``"bandwidth"``; ``"CPU"``: counted as a copy, can take much longer;
    #: empty for an end of the graph.
    bound: str


class Prediction(NamedTuple):
    """The time of one run on one core of the NPU at its highest clock, without pre- and decoding.

    Predicted, never measured.
    """

    soc: str
    ms: float
    #: The range in which eight of ten networks lay.
    fastest_ms: float
    slowest_ms: float
    #: Median error of the networks that the constants were judged on: 0.06 is 6 %.
    median_error: float
    layers: tuple[LayerTime, ...]

    @property
    def fps(self) -> float:
        """Runs a second, one after the other."""
        return 1000 / self.ms


def predict(layers: Sequence[Layer], soc: str, *, batch: int = 1) -> Prediction:
    """Predict how long a model runs.

    Args:
        layers: Of a model for this or another SoC, as `read_layers` gives them. Layers of float16
            and int16 multiply at half the rate of int8; the range is wider with them.
        soc: One of `PREDICTED_SOCS`.
        batch: Images a run, as ``rknn_batch_size`` built them in (``ModelInfo.batch``).

    Raises:
        UnavailableError: There are no constants for this SoC, or nothing multiplies.
        ValueError: ``batch`` is below 1.
    """
    batch = as_int(batch, "batch", 1, 2**31 - 1)
    speed = _SPEEDS.get(soc)
    if speed is None:
        known = ", ".join(PREDICTED_SOCS)
        raise UnavailableError(f"soc: expected one of {known}, got {soc!r}: {NO_MEASUREMENTS}")
    macs = sum(layer.macs for layer in layers)
    if not macs:
        raise UnavailableError("no layer of this model multiplies: no such times are public")
    wide = sum(layer.macs for layer in layers if _rate(layer) == _WIDE_RATE) / macs
    times = tuple(_time(layer, speed) for layer in layers)
    ms = sum(time.us for time in times) * batch / 1000
    spread = 1 + speed.spread + (_WIDE_SPREAD - speed.spread) * wide
    error = speed.error + (_WIDE_SPREAD / 2 - speed.error) * wide
    return Prediction(soc, ms, ms / spread, ms * spread, error, times)


def _rate(layer: Layer) -> float:
    return _RATES.get(layer.inputs[0].dtype, _WIDE_RATE) if layer.inputs else 1.0


def _time(layer: Layer, speed: _Speed) -> LayerTime:
    if not layer.device:
        return LayerTime(layer, 0.0, "")
    compute = layer.macs / (speed.macs * _rate(layer)) * 1e6
    moved = layer.input_bytes + layer.output_bytes
    bandwidth = moved / speed.bytes_moved * 1e6
    if layer.device == "CPU":
        return LayerTime(layer, bandwidth + speed.start_us, "CPU")
    bound = "compute" if compute > bandwidth else "bandwidth"
    return LayerTime(layer, max(compute, bandwidth) + speed.start_us, bound)
