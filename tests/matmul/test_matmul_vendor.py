"""Matrices as librknnrt 2.3.2 describes them: the simulated NPU and `Matmul` say the same."""

from __future__ import annotations

from itertools import product

import pytest
from paths import PROJECT

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu import matmul_kinds as rules
from rknn_runtime.npu.matmul_kinds import MatmulType, MatrixLayout, MatrixScales
from rknn_runtime.sim import Control

ANSWERS = PROJECT / "tests" / "data" / "matmul-librknnrt-2.3.2.txt"
SOCS = ("rk3562", "rk3566", "rk3576", "rk3588", "rv1126b")
#: K and N of the second half of the questions.
SIZES = (
    (16, 64), (32, 64), (48, 64), (64, 8), (64, 16), (64, 32), (64, 48), (64, 64), (14336, 64),
    (14368, 64), (65536, 64),
)  # fmt: skip


def answers() -> dict[tuple[str, ...], list[str]]:
    """The call -> A, B and C."""
    lines = ANSWERS.read_text("ascii").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {tuple(row[:9]): row[9:] for row in rows}


def questions(soc: str) -> list[tuple[str, ...]]:
    """All that was asked of a SoC."""
    asked = []
    for kind in MatmulType:
        for b_layout, ac_layout, scales in product((0, 1, 2), (0, 1), (0, 2, 4)):
            asked.append((kind, 4, 128, 128, b_layout, ac_layout, scales, 32))
        for k, n in SIZES:
            if k <= 4096 or kind != MatmulType.FLOAT16_MM_INT4_TO_FLOAT16:
                asked.append((kind, 1, k, n, 1, 1, 0, 0))
    return [(soc, *(str(int(each)) for each in row)) for row in asked]


def said(attr) -> str:
    name = ffi.string(attr.name).decode()
    dims = "x".join(str(each) for each in attr.dims[0 : attr.n_dims])
    return f"{name}:{dims}:{attr.size}:{int(attr.type)}"


@pytest.mark.parametrize("soc", SOCS)
def test_the_simulated_npu_answers_as_recorded(control: Control, soc: str) -> None:
    """Of 374 questions per SoC every status, name, dimension, size and type."""
    known, before = answers(), control.soc
    control.set_soc(soc)
    try:
        for question in questions(soc):
            kind, m, k, n, b_layout, ac_layout, scales, group = map(int, question[1:])
            info = ffi.new(
                "rknn_matmul_info *",
                {"M": m, "K": k, "N": n, "type": kind, "B_layout": b_layout,
                 "AC_layout": ac_layout, "B_quant_type": scales, "group_size": group},
            )  # fmt: skip
            io, context = ffi.new("rknn_matmul_io_attr *"), ffi.new("rknn_matmul_ctx *")
            status = lib.rkr_matmul_create(control.library.handle, context, info, io)
            expected = known.get(question)
            if expected is None:
                assert status == lib.RKNN_ERR_PARAM_INVALID, question
                continue
            assert status == 0, question
            assert [said(io.A), said(io.B), said(io.C)] == expected, question
            assert lib.rkr_matmul_destroy(control.library.handle, context[0]) == 0
    finally:
        control.set_soc(before)


@pytest.mark.parametrize("soc", SOCS)
def test_what_is_refused_is_refused_before_the_call(soc: str) -> None:
    """The rules here refuse exactly the calls that the runtime refuses."""
    known = answers()
    for question in questions(soc):
        kind, _, k, n, b_layout, ac_layout, scales, _ = map(int, question[1:])
        of_kind = rules.MatmulKind(
            MatmulType(kind), MatrixLayout(b_layout), MatrixLayout(ac_layout), MatrixScales(scales)
        )
        if question in known:
            rules.check(soc, k, n, of_kind)
        else:
            with pytest.raises((UnavailableError, ValueError)):
                rules.check(soc, k, n, of_kind)


def test_rk3568_is_as_rk3566() -> None:
    """They have the same NPU, whose number the runtime goes by."""
    assert rules.SOCS["rk3568"] == rules.SOCS["rk3566"]
