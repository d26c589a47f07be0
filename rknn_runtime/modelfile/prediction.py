"""How long a model will run on a board, predicted from its layers: never a measurement.

A layer takes its cycles of multiplying and the time of its bytes, joined as the sides of a right
triangle, one cycle or less for each result of a function from a table (as in SiLU), and a constant
for being started. Cycles count blocks of channels as the NPU multiplies them. The constants were
fitted by ``tools/judge_prediction.py`` to the vendor's table of 36 networks, and judged with each
family of networks left out of the fit: see ``docs/speeds.md``.

The open runtime's overhead on a kernel driver is counted in steps (tasks, bytes that the CPU moves
or pools), whose cost is assumed: no such times are public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rknn_runtime._arrays import as_int
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.layers import Layer


class Blocks(NamedTuple):
    """Channels that a core multiplies in one cycle."""

    outputs: int
    inputs: int
    #: Of a depthwise convolution.
    depthwise: int


class Speed(NamedTuple):
    """The constants fitted to one SoC, and their error."""

    #: Highest clock of the NPU in the vendor's kernels, which the figures are for.
    clock_mhz: int
    int8: Blocks
    #: Also of int16.
    float16: Blocks
    #: A core multiplies in this part of the cycles.
    efficiency: float
    #: Bytes a nanosecond.
    bandwidth: float
    #: Of every layer.
    start_us: float
    #: Cycles of a result that is read from a table.
    table_cycles: float
    #: The median error of networks whose family was not fitted, and the range of 8 of 10.
    error: float
    spread: float
    #: The median of other people's times, as a multiple of the vendor's.
    elsewhere: float


_BIG = Blocks(32, 32, 64), Blocks(16, 32, 32)
_RK3566 = Speed(
    900, Blocks(16, 32, 32), Blocks(8, 16, 16), 0.8478, 2.835, 16.0, 0.188, 0.15, 0.34, 1.44
)
SPEEDS = {
    "rk3562": Speed(
        1000, Blocks(16, 32, 32), Blocks(8, 32, 16), 0.8479, 6.255, 6.04, 0.3083, 0.06, 0.13,
        1.3,  # of the three other SoCs, as nobody else's times are public
    ),
    "rk3566": _RK3566,
    "rk3568": _RK3566,
    "rk3576": Speed(950, *_BIG, 1.058, 9.595, 6.42, 0.0661, 0.09, 0.15, 1.31),
    "rk3588": Speed(1000, *_BIG, 0.9542, 9.469, 9.42, 0.1387, 0.08, 0.2, 1.26),
}  # fmt: skip
#: The slowest time of other people, on any SoC, as a multiple of the prediction. No narrower range
#: held 8 of 10 times of each source that it was not made of.
ELSEWHERE_MOST = 2.61
#: A layer waits for this part of its weights. Softmax and norms move their bytes, and products of
#: two computed matrices multiply, slower than other layers by these factors.
WEIGHT_PART, SLOW_COPY, SLOW_PRODUCT = 0.407, 6.88, 84.3
#: The SoCs whose speed is public for enough networks.
PREDICTED_SOCS = tuple(SPEEDS)
#: Why there are no others.
NO_MEASUREMENTS = "too few measurements of networks are public; `bench` measures on a board"

#: Drivers of the open runtime: the SoCs that they are for, and the clock that their kernels start
#: the NPU with (None: the highest).
DRIVERS: dict[str, tuple[tuple[str, ...], int | None]] = {
    "rknpu": (PREDICTED_SOCS, None),
    "rocket": (("rk3588",), 200),
}
#: Assumed, each the least and the most: the interrupt of a task with rocket; a byte that the CPU
#: moves or pools, at the ends of the graph and where rocket runs no pooling.
TASK_US, CPU_NS = (10.0, 50.0), (0.5, 2.0)
#: Tasks of a layer if the file gives no number.
TASKS = 2

_TABLES = ("Gelu", "Mish", "Sigmoid", "Softplus", "Swish", "Tanh")
_NARROW = (TensorType.INT8, TensorType.UINT8)


class LayerTime(NamedTuple):
    """The time of one layer."""

    layer: Layer
    us: float
    #: ``"compute"``, ``"bandwidth"``; ``"CPU"``: counted as a copy, can take much longer;
    #: empty for an end of the graph.
    bound: str


class Prediction(NamedTuple):
    """The time of one run on one core of the NPU, without pre- and decoding.

    Predicted, never measured.
    """

    soc: str
    clock_mhz: int
    #: As the vendor measures: an idle board, all clocks at their highest.
    ms: float
    #: The range in which eight of ten networks outside of the fit lay.
    fastest_ms: float
    slowest_ms: float
    #: As other people measured on theirs: the median, and the range from the vendor's fastest to
    #: the slowest multiple that anybody measured.
    elsewhere_ms: float
    elsewhere_fastest_ms: float
    elsewhere_slowest_ms: float
    #: Median error of networks outside of the fit: 0.06 is 6 %.
    median_error: float
    layers: tuple[LayerTime, ...]

    @property
    def fps(self) -> float:
        """Runs a second, one after the other."""
        return 1000 / self.ms


def predict(
    layers: Sequence[Layer],
    soc: str,
    *,
    batch: int = 1,
    clock_mhz: int | None = None,
    driver: str | None = None,
) -> Prediction:
    """Predict how long a model runs.

    Args:
        layers: Of a model for this or another SoC, as `read_layers` gives them.
        soc: One of `PREDICTED_SOCS`.
        batch: Images a run, as ``rknn_batch_size`` built them in (``ModelInfo.batch``).
        clock_mhz: Clock of the NPU; None: the highest. No times at other clocks are public: the
            range then goes from a memory that keeps its speed to one that slows down as well.
        driver: ``"rknpu"`` or ``"rocket"``: as the open runtime runs it on this driver of the
            kernel, at the clock that such a kernel starts with. None: the vendor's library.

    Raises:
        UnavailableError: There are no constants for this SoC, the driver is not for it, or nothing
            multiplies.
        ValueError: ``batch`` or ``clock_mhz`` is below 1, or there is no such driver.
    """
    batch = as_int(batch, "batch", 1, 2**31 - 1)
    speed = SPEEDS.get(soc)
    if speed is None:
        known = ", ".join(PREDICTED_SOCS)
        raise UnavailableError(f"soc: expected one of {known}, got {soc!r}: {NO_MEASUREMENTS}")
    if driver is not None and driver not in DRIVERS:
        raise ValueError(f"driver: expected one of {', '.join(DRIVERS)}, got {driver!r}")
    socs, first_clock = DRIVERS[driver] if driver else (PREDICTED_SOCS, None)
    if soc not in socs:
        raise UnavailableError(f"the driver {driver} is for {', '.join(socs)}, not for {soc}")
    clock_mhz = first_clock if clock_mhz is None else clock_mhz
    clock = speed.clock_mhz if clock_mhz is None else as_int(clock_mhz, "clock_mhz", 1, 10_000)
    if not any(layer.macs for layer in layers):
        raise UnavailableError("no layer of this model multiplies: no such times are public")
    slow = speed.clock_mhz / clock
    bounds = [
        [
            _time(layer, speed._replace(clock_mhz=clock, bandwidth=bandwidth), driver)
            for layer in layers
        ]
        for bandwidth in (speed.bandwidth, speed.bandwidth / slow)
    ]
    added = [steps_us(layer, driver) for layer in layers]
    times = tuple(
        a._replace(us=(math.sqrt(a.us * b.us) if slow != 1 else a.us) + math.sqrt(least * most))
        for a, b, (least, most) in zip(*bounds, added)
    )
    low, high = sorted(batch * sum(time.us for time in part) / 1000 for part in bounds)
    ms = batch * sum(time.us for time in times) / 1000
    least, most = (batch * sum(step[i] for step in added) / 1000 for i in (0, 1))
    fastest, slowest = low / (1 + speed.spread) + least, high * (1 + speed.spread) + most
    return Prediction(
        soc, clock, ms, fastest, slowest,
        ms * speed.elsewhere, fastest, high * ELSEWHERE_MOST + most, speed.error, times,
    )  # fmt: skip


def is_pooling(layer: Layer) -> bool:
    """Tell whether the NPU's unit for pooling computes a layer."""
    return layer.device == "NPU" and "Pool" in layer.operator


def steps_us(layer: Layer, driver: str | None) -> tuple[float, float]:
    """Return the least and the most that the open runtime adds to a layer, in microseconds."""
    if driver is None:
        return 0.0, 0.0
    if not layer.device or (driver == "rocket" and is_pooling(layer)):
        moved = (layer.input_bytes + layer.output_bytes) / 1000
        return moved * CPU_NS[0], moved * CPU_NS[1]
    count = tasks_of(layer) if driver == "rocket" else 0
    return count * TASK_US[0], count * TASK_US[1]


def tasks_of(layer: Layer) -> int:
    """Return how many tasks of the NPU the open runtime submits for a layer, or about as many."""
    if layer.device != "NPU" or is_pooling(layer):
        return 0
    tasks = TASKS if layer.tasks is None else layer.tasks
    return tasks + (table_results(layer) > 0)  # one more loads its table


def _time(layer: Layer, speed: Speed, driver: str | None) -> LayerTime:
    if not layer.device:
        return LayerTime(layer, 0.0, "")
    if driver == "rocket" and is_pooling(layer):
        return LayerTime(layer, 0.0, "CPU")
    compute = cycles(layer, speed) / (speed.clock_mhz * speed.efficiency)
    moved = layer.input_bytes + layer.output_bytes + WEIGHT_PART * layer.weight_bytes
    if is_slow(layer):
        moved *= SLOW_COPY
    bandwidth = moved / (speed.bandwidth * 1000)
    table = table_results(layer) * speed.table_cycles / speed.clock_mhz
    us = math.hypot(compute, bandwidth) + table + speed.start_us
    bound = "compute" if compute > bandwidth else "bandwidth"
    return LayerTime(layer, us, "CPU" if layer.device == "CPU" else bound)


def is_slow(layer: Layer) -> bool:
    """Tell whether a layer needs several passes over its inputs."""
    return any(name in layer.operator for name in ("oftmax", "exNorm", "LayerNorm"))


def table_results(layer: Layer) -> int:
    """Count the results of a function that the NPU reads from a table."""
    if not any(name in layer.operator for name in _TABLES):
        return 0
    return sum(math.prod(tensor.shape) for tensor in layer.outputs)


def cycles(layer: Layer, speed: Speed) -> float:
    """Count the cycles of a core that only multiplies."""
    if not layer.macs:
        return 0.0
    blocks = speed.int8 if layer.inputs[0].dtype in _NARROW else speed.float16
    if not layer.kernel:
        return SLOW_PRODUCT * layer.macs / (blocks.outputs * blocks.inputs)
    taps = math.prod(layer.kernel)
    read, written = layer.inputs[0].shape, layer.outputs[0].shape
    if layer.operator.startswith("ConvTranspose"):
        read, written = written, read
    terms = layer.macs // max(1, math.prod(written) * taps)
    places = math.prod(written[:1] + written[2:]) * taps
    if terms > 1:
        return places * -(-terms // blocks.inputs) * -(-written[1] // blocks.outputs)
    return places * -(-written[1] // (blocks.depthwise if read[1] > 1 else blocks.outputs))
