"""The runtime's own measurements of a run, and of its device's memory."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from bundles import one_object, recorded

from rknn_runtime import Detector, GeneralModel, InitFlag, Model
from rknn_runtime.errors import (
    ClosedError,
    OperationFailedError,
    RknnError,
    RknnStatusError,
)
from rknn_runtime.npu.performance import parse_performance

CLASSES = [Model, GeneralModel]
#: Rows as librknnrt 2.3 prints them, made up; one without a use of the multipliers.
TABLE = """
----------------------------------------
            Network Layer Information Table
----------------------------------------
ID   OpType          DataType Target InputShape                OutputShape    \
Cycles(DDR/NPU/Total)  Time(us)  MacUsage(%)     WorkLoad(0/1/2)    RW(KB)   FullName
----------------------------------------
1    InputOperator   UINT8    CPU    \\                         (1,3,64,64)    \
0/0/0                  4         \\               0.0%/0.0%/0.0%     12       InputOperator:images
2    ConvRelu        UINT8    NPU    (1,3,64,64),(16,3,3,3)    (1,16,32,32)   \
1091/8294/8294         50        2.41/0.00/0.50  66.7%/0.0%/33.3%   100.5    Conv:a layer
3    ArgMax          INT8     CPU    (1,16,32,32)              (1,1,32,32)    \
0/0/0                  700       \\               0.0%/0.0%/0.0%     17       ArgMax:top
4    OutputOperator  INT64    CPU    (1,1,32,32)               \\              \
0/0/0                  9                         0.0%/0.0%/0.0%     8        OutputOperator:top
----------------------------------------
Total Operator Elapsed Per Frame Time(us): 763
Total Memory Read/Write Per Frame Size(KB): 137.5
----------------------------------------
OpType     CallNumber  CPUTime(us)  GPUTime(us)  NPUTime(us)  TotalTime(us)  TimeRatio(%)
ConvRelu   1           0            0            50           50             6.55%
"""
OLD = """
ID   OpType      DataType Target InputShape   OutputShape   DDR Cycles     NPU Cycles     \
Total Cycles   Time(us)    MacUsage(%)    WorkLoad(0/1/2)-ImproveTherical    Task Number    \
Lut Number     RW(KB)     FullName
2    ConvRelu    UINT8    NPU    (1,3,8,8)    (1,32,4,4)    94150          10584          \
94150          428         2.47           100.0%/0.0%/0.0% - Up:0.0%         3              \
0              543.75     conv1
Total Operator Elapsed Time(us): 14147
"""


def test_a_table_becomes_rows():
    """Every cell; the ranking behind the table is none of its rows."""
    table = parse_performance(TABLE)
    assert [layer.op_type for layer in table.layers] == [
        "InputOperator", "ConvRelu", "ArgMax", "OutputOperator",
    ]  # fmt: skip
    conv = table.layers[1]
    assert conv[:6] == (2, "ConvRelu", "UINT8", "NPU", "(1,3,64,64),(16,3,3,3)", "(1,16,32,32)")
    assert conv[6:10] == (1091, 8294, 8294, 50.0)
    assert conv[10:] == ((2.41, 0.0, 0.5), (66.7, 0.0, 33.3), 100.5, "Conv:a layer")
    assert conv.cores == (0, 2)
    assert conv.bandwidth_mb_s == pytest.approx(100.5 / 1024 / 50e-6)
    assert table.layers[3].mac_usage == ()
    assert [layer.name for layer in table.on_cpu] == ["ArgMax:top"]
    assert (table.total_us, table.total_read_write_kb, table.text) == (763.0, 137.5, TABLE)


def test_a_table_of_an_old_runtime():
    """Its cycles are three columns, and it has more of them."""
    (layer,) = parse_performance(OLD).layers
    assert layer[6:] == (94150, 10584, 94150, 428.0, (2.47,), (100.0, 0.0, 0.0), 543.75, "conv1")
    assert parse_performance(OLD).total_us == 14147


def test_no_table_has_no_rows():
    """Neither text without one nor none at all."""
    for text in ("", "nothing\n1 2 3\n"):
        assert parse_performance(text) == ((), text, None, None)


@pytest.mark.parametrize("row", ["1", "1 Conv INT8", "1 a b c d e f g h i j k", "1x " + "0 " * 11])
def test_a_row_that_cannot_be_read_is_shown(row):
    """Not left out."""
    head = TABLE.splitlines()[4]
    with pytest.raises(RknnError, match="cannot be read: 1"):
        parse_performance(f"{head}\n{row}\n")
    with pytest.raises(TypeError, match="text: expected a str"):
        parse_performance(row.encode())


@pytest.mark.parametrize("cls", CLASSES)
def test_a_run_is_measured(control, cls):
    """Time and table of the last run, where the model collects them."""
    case = recorded("rk3588")
    frame = np.zeros(case.inputs[0].shape, np.uint8)
    with cls(case.data, library="sim", flags=InitFlag.COLLECT_PERF) as model:
        control.set_latency(2000)
        model.run(frame)
        assert model.last_run_us >= 2000
        table = model.perf_detail()
        assert table.layers[0].time_us == model.last_run_us == table.total_us
    with cls(case.data, library="sim") as model:
        model.run(frame)
        assert model.perf_detail().layers == ()
    for ask in (model.perf_detail, model.device_memory, lambda: model.last_run_us):
        with pytest.raises(ClosedError):
            ask()


def test_librknnmrt_measures_nothing(control):
    """It says -1, and the exception what to do instead; but it knows of the device's memory."""
    with Model(recorded("rv1106").data, library="sim") as model:
        for ask in (model.perf_detail, lambda: model.last_run_us):
            with pytest.raises(OperationFailedError, match="librknnmrt"):
                ask()
        assert model.device_memory() == bytes(4096)
    full = recorded("rk3588").data
    with Model(full, library="sim") as model, pytest.raises(OperationFailedError):
        model.device_memory()


# Times of the steps


def zeros(model: Model) -> np.ndarray:
    (attr,) = model.inputs
    return np.zeros((attr.height, attr.width, 3), np.uint8)


def test_nothing_is_timed_unless_asked_for():
    """The last times are forgotten when timing ends."""
    with Model(one_object(), library="sim") as model:
        model.run(zeros(model))
        assert (model.is_timed, model.step_times) == (False, None)
        model.is_timed = True
        assert model.step_times is None
        model.run(zeros(model))
        assert model.step_times is not None
        model.is_timed = False
        assert model.step_times is None


@pytest.mark.parametrize("with_image", [False, True])
def test_the_steps_lie_one_behind_another_in_the_run(control, with_image):
    """The planted time is the run's; only a detector's native frame has an image's step."""
    control.set_latency(20_000)
    with Model(one_object(), library="sim") as model:
        detector, image = Detector(model), zeros(model)
        model.is_timed = True
        before = time.perf_counter()
        if with_image:
            detector(image)
        else:
            model.run(image)
        after = time.perf_counter()
        steps = model.step_times
    assert steps is not None
    assert steps.run_s >= 0.02
    assert before <= steps.begin_s <= steps.end_s <= after
    assert (steps.image_s > 0) == with_image
    assert min(steps.sync_to_device_s, steps.sync_from_device_s) >= 0
    assert pickle.loads(pickle.dumps(steps)) == steps


@pytest.mark.parametrize("call", ["rknn_mem_sync", "rknn_run"])
def test_a_run_that_failed_has_no_times(control, call):
    """The times of the run before are gone, too."""
    with Model(one_object(), library="sim") as model:
        model.is_timed = True
        model.run(zeros(model))
        control.fail(call)
        with pytest.raises(RknnStatusError):
            model.run(zeros(model))
        assert model.step_times is None


def test_only_a_bool_switches_it():
    """Neither 1 nor a string; and a closed model says that it is closed."""
    with Model(one_object(), library="sim") as model:
        for wrong in (1, "yes", None):
            with pytest.raises(TypeError, match="is_timed: expected a bool"):
                model.is_timed = wrong  # type: ignore[assignment]
    with pytest.raises(ClosedError):
        model.is_timed = True
    with pytest.raises(ClosedError):
        _ = model.step_times
