"""How long a run took: the runtime's table of layers, and the steps of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from rknn_runtime._ffi import decoded, ffi, lib
from rknn_runtime.errors import OperationFailedError, RknnError
from rknn_runtime.npu.context import Context

#: A longer table is garbage.
_MOST_BYTES = 1 << 24
_MINI = (
    "librknnmrt (RV1103, RV1106) does not measure runs: time model.run() instead, and see "
    "`rknn-runtime info --layers` for what runs where"
)
_NOT_COLLECTED = "the model was loaded without InitFlag.COLLECT_PERF"


class LayerPerformance(NamedTuple):
    """One layer in a run."""

    #: Position in the order of execution.
    number: int
    #: Type of the layer, one name for fused layers: ``"ConvRelu"``.
    op_type: str
    #: Element type of its inputs: ``"INT8"``.
    dtype: str
    #: Where it ran: ``"NPU"``, ``"CPU"`` or ``"GPU"``.
    target: str
    input_shapes: str
    output_shapes: str
    #: Clock cycles for memory, for arithmetic, and the larger of the two; None: not told.
    ddr_cycles: int | None
    npu_cycles: int | None
    total_cycles: int | None
    time_us: float
    #: Use of the multipliers per core, percent; empty: not told.
    mac_usage: tuple[float, ...]
    #: Part of the work per core, percent; empty: not told.
    workload: tuple[float, ...]
    #: Read and written, kB of 1024 bytes; None: not told.
    read_write_kb: float | None
    name: str

    @property
    def cores(self) -> tuple[int, ...]:
        """The NPU cores that worked."""
        return tuple(core for core, part in enumerate(self.workload) if part > 0)

    @property
    def bandwidth_mb_s(self) -> float | None:
        """Read and written per second, MB of 1024 * 1024 bytes; None: not told, or no time."""
        if self.read_write_kb is None or self.time_us <= 0:
            return None
        return self.read_write_kb / 1024 / (self.time_us / 1e6)


class Performance(NamedTuple):
    """The layers of a run, measured one by one: their sum is more than an ordinary run takes."""

    layers: tuple[LayerPerformance, ...]
    #: The whole text of the runtime.
    text: str
    #: Of a frame, as the runtime sums it up; None: not told.
    total_us: float | None
    #: Read and written for a frame, kB of 1024 bytes; None: not told.
    total_read_write_kb: float | None

    @property
    def on_cpu(self) -> tuple[LayerPerformance, ...]:
        """Layers that fell to the CPU, without those that only convert inputs and outputs."""
        converters = ("InputOperator", "OutputOperator")
        return tuple(
            layer
            for layer in self.layers
            if layer.target == "CPU" and layer.op_type not in converters
        )


def performance(context: Context) -> Performance:
    """Ask for the table of the last run."""
    info = ffi.new("rknn_perf_detail *")
    with context.lock:
        status = lib.rkr_query(
            context.handle, context.opened(), lib.RKNN_QUERY_PERF_DETAIL, info, ffi.sizeof(info[0])
        )
        _check(context, status, "rknn_query(PERF_DETAIL)")
        if info.perf_data == ffi.NULL:
            raise RknnError(f"rknn_query(PERF_DETAIL) gave no text: {_NOT_COLLECTED}?")
        # Still locked, because the text is the runtime's own memory.
        text = decoded(info.perf_data, min(info.data_len, _MOST_BYTES))
    return parse_performance(text)


def last_run_us(context: Context) -> int:
    """Ask for the time of the last run."""
    info = ffi.new("rknn_perf_run *")
    status = context.query(lib.RKNN_QUERY_PERF_RUN, info, ffi.sizeof(info[0]))
    _check(context, status, "rknn_query(PERF_RUN)")
    return int(info.run_duration)


def _check(context: Context, status: int, call: str) -> None:
    try:
        context.check_status(status, call)
    except OperationFailedError as error:
        detail = f"{error.detail}; {_MINI}" if error.detail else _MINI
        raise OperationFailedError(error.code, error.call, detail) from None


#: Names of columns; old runtimes use two words.
_COLUMN = re.compile(r"(?:DDR|NPU|Total) Cycles|(?:Task|Lut) Number|(?:Task|Regcmd) Size|\S+")
#: What runtimes before 2.0 put behind the work per core.
_THERMAL = re.compile(r" - Up:[0-9.]+%")
_TOTAL_US = re.compile(r"^Total Operator Elapsed (?:Per Frame )?Time\(us\): *([0-9.]+)", re.M)
_TOTAL_KB = re.compile(r"^Total Memory Read/Write Per Frame Size\(KB\): *([0-9.]+)", re.M)
_EMPTY = "\\"


def parse_performance(text: str) -> Performance:
    """Read the table of ``RKNN_QUERY_PERF_DETAIL`` or the toolkit's ``eval_perf``, if any."""
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    columns: list[str] = []
    layers = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("ID ") and "OpType" in stripped:
            columns = _COLUMN.findall(stripped)
        elif columns and stripped[:1].isdigit():
            layers.append(_layer(columns, stripped))
        elif columns and stripped.startswith("Total"):
            columns = []
    return Performance(tuple(layers), text, _number(_TOTAL_US, text), _number(_TOTAL_KB, text))


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return None if match is None else float(match[1])


def _layer(columns: list[str], line: str) -> LayerPerformance:
    """Read one row; the use of the multipliers is left blank where there is none."""
    words = _THERMAL.sub("", line).split()
    if len(words) == len(columns) - 1 and "MacUsage(%)" in columns:
        words.insert(columns.index("MacUsage(%)"), _EMPTY)
    words[len(columns) - 1 :] = [" ".join(words[len(columns) - 1 :])]
    cells = {name.partition("(")[0].split("-")[0]: word for name, word in zip(columns, words)}
    try:
        ddr, npu, total = _cycles(cells)
        return LayerPerformance(
            number=int(cells["ID"]),
            op_type=cells["OpType"],
            dtype=cells["DataType"],
            target=cells["Target"],
            input_shapes=cells["InputShape"].replace(_EMPTY, ""),
            output_shapes=cells["OutputShape"].replace(_EMPTY, ""),
            ddr_cycles=ddr,
            npu_cycles=npu,
            total_cycles=total,
            time_us=float(cells["Time"]),
            mac_usage=_parts(cells.get("MacUsage", _EMPTY)),
            workload=_parts(cells.get("WorkLoad", _EMPTY)),
            read_write_kb=float(cells["RW"]) if "RW" in cells else None,
            name=cells.get("FullName", ""),
        )
    except (KeyError, ValueError):
        raise RknnError(f"a row of the runtime's table of layers cannot be read: {line}") from None


def _cycles(cells: dict[str, str]) -> tuple[int | None, int | None, int | None]:
    if "Cycles" in cells:
        ddr, npu, total = map(int, cells["Cycles"].split("/"))
        return ddr, npu, total
    names = ("DDR Cycles", "NPU Cycles", "Total Cycles")
    ddr_text, npu_text, total_text = (cells.get(name) for name in names)
    if ddr_text is None or npu_text is None or total_text is None:
        return None, None, None
    return int(ddr_text), int(npu_text), int(total_text)


def _parts(cell: str) -> tuple[float, ...]:
    if cell == _EMPTY:
        return ()
    return tuple(float(part.rstrip("%")) for part in cell.split("/"))


@dataclass(frozen=True)
class StepTimes:
    """The steps of one run of a `Model`, in seconds.

    They are measured in C, without the time of Python between calls.
    """

    #: When the first of them began, of ``time.perf_counter``.
    begin_s: float
    #: A `Detector` or `Classifier` scaled an array of uint8 into the input's memory; else 0.
    image_s: float
    #: The caches of all inputs were synced.
    sync_to_device_s: float
    #: ``rknn_run``.
    run_s: float
    #: The caches of all outputs were synced.
    sync_from_device_s: float

    @property
    def end_s(self) -> float:
        """When the last of them ended, of ``time.perf_counter``."""
        steps = self.image_s + self.sync_to_device_s + self.run_s + self.sync_from_device_s
        return self.begin_s + steps

    @classmethod
    def of(cls, times_ns: tuple[int, ...]) -> StepTimes:
        """Make one of when the first step began and when each ended, nanoseconds."""
        steps = (1e-9 * (end - begin) for begin, end in zip(times_ns, times_ns[1:]))
        return cls(1e-9 * times_ns[0], *steps)
