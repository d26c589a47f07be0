"""Cores, flags of SoCs, and what a runtime measures."""

from __future__ import annotations

import numpy as np
import pytest
from bundles import recorded

from rknn_runtime import CoreMask, GeneralModel, InitFlag, Model
from rknn_runtime.errors import (
    ClosedError,
    OperationFailedError,
    RknnError,
    RknnStatusError,
    UnavailableError,
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


QUERIES = {
    "perf_detail": lambda model: model.perf_detail(),
    "last_run_us": lambda model: model.last_run_us,
    "device_memory": lambda model: model.device_memory(),
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries_fail_with_every_code(control, query):
    """51 combinations; the model runs on."""
    case = recorded("rk3588")
    with Model(case.data, library="sim") as model:
        for code in (*range(-16, 0), -999):
            control.fail("rknn_query", 1, code)
            with pytest.raises(RknnStatusError) as caught:
                QUERIES[query](model)
            assert caught.value.code == code
        model.run(np.zeros(case.inputs[0].shape, np.uint8))


@pytest.mark.parametrize(
    ("soc", "most"), [("rk3588", 3), ("rk3576", 2), ("rk3562", 1), ("rk3566", 1), ("rv1126b", 1)]
)
def test_cores_of_each_soc(control, soc, most):
    """What a SoC does not have is refused before the call."""
    with Model(recorded(soc).data, library="sim") as model:
        if most == 1:
            for call in (
                lambda: model.set_core_mask(CoreMask.AUTO),
                lambda: model.set_batch_core_num(1),
            ):
                with pytest.raises(UnavailableError, match=f"{soc} has one core"):
                    call()
            assert control.calls("rknn_set_core_mask") == 0
            return
        model.set_batch_core_num(most)
        for mask in (CoreMask.AUTO, CoreMask.ALL, CoreMask.CORE_0, CoreMask.CORE_0_1):
            model.set_core_mask(mask)
        for number in (0, most + 1):
            with pytest.raises(ValueError, match=f"cores: expected 1 to {most}"):
                model.set_batch_core_num(number)
        with pytest.raises(TypeError, match="cores: expected an integer"):
            model.set_batch_core_num("1")
        if most == 2:
            with pytest.raises(ValueError, match="2 cores of rk3576"):
                model.set_core_mask(CoreMask.CORE_2)
        for code in (*range(-16, 0), -999):
            control.fail("rknn_set_batch_core_num", 1, code)
            with pytest.raises(RknnStatusError, match="rknn_set_batch_core_num"):
                model.set_batch_core_num(1)


@pytest.mark.parametrize("cls", CLASSES)
def test_flags_of_what_a_soc_does_not_have(control, cls):
    """SRAM for the NPU is RK3588's, a GPU RK35xx's; nothing is left of the model."""
    gpu = InitFlag.EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
    for flag in (InitFlag.ENABLE_SRAM, InitFlag.SHARE_SRAM, gpu):
        cls(recorded("rk3588").data, library="sim", flags=flag).close()
    for soc, flag in (("rk3566", InitFlag.ENABLE_SRAM), ("rv1126b", gpu)):
        with pytest.raises(UnavailableError, match=f"flags: {flag.name} needs .* not {soc}"):
            cls(recorded(soc).data, library="sim", flags=flag)
    assert control.live == (0, 0, 0)


def test_priorities_go_to_the_runtime(control):
    """They are flags that every SoC takes."""
    for flag in (InitFlag.PRIOR_HIGH, InitFlag.PRIOR_MEDIUM, InitFlag.PRIOR_LOW):
        Model(recorded("rv1106").data, library="sim", flags=flag).close()


def test_the_mini_runtime_has_no_cores_to_choose(control):
    """As one core."""
    mini = recorded("rv1106").data
    with Model(mini, library="sim") as model, pytest.raises(UnavailableError, match="one core"):
        model.set_core_mask(CoreMask.CORE_0)
