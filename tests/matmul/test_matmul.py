"""`Matmul` on the simulated NPU: values, layouts, scales, and every way to misuse it."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from reference import matrices as reference

from rknn_runtime import Matmul, MatmulType, MatrixLayout, MatrixScales
from rknn_runtime.errors import (
    OperationFailedError,
    UnavailableError,
)
from rknn_runtime.npu.matmul_kinds import SOCS
from rknn_runtime.sim import Control

INT8 = MatmulType.INT8_MM_INT8_TO_INT32
NATIVE = MatrixLayout.NATIVE
CASES = [(soc, kind) for soc, rules in SOCS.items() for kind in rules.types]


@pytest.fixture
def on_soc(control: Control):
    """Choose the SoC for one test."""
    before = control.soc
    yield control.set_soc
    control.set_soc(before)


def values(shape, element: str, seed: int = 0):
    """Random elements; float16 with few bits, so that no sum is rounded."""
    random = np.random.default_rng(seed)
    if element == "FLOAT16":
        return (random.integers(-32, 33, shape) / 8).astype(np.float16)
    low, high = (-8, 8) if element == "INT4" else (-128, 128)
    return random.integers(low, high, shape).astype(np.int8)


def small(m=4, k=64, n=64, kind=INT8, **options) -> Matmul:
    return Matmul(m, k, n, kind, library="sim", **options)


@pytest.mark.parametrize("ac_layout", [0, 1])
@pytest.mark.parametrize("b_layout", [0, 1])
@pytest.mark.parametrize(("soc", "kind"), CASES, ids=lambda value: getattr(value, "name", value))
def test_every_type_of_every_soc_in_every_layout(on_soc, soc, kind, b_layout, ac_layout):
    """The result is the product, each element rounded once, to the bit."""
    on_soc(soc)
    a_type, b_type, c_type = (each.name for each in kind.elements)
    a, b = values((3, 64), a_type), values((64, 128), b_type, 1)
    if c_type == "INT16":
        a = np.clip(a, -2, 2)
    if c_type == "INT8":
        a, b = np.clip(a, -2, 2), np.clip(b, -2, 2)
    with Matmul(3, 64, 128, kind, library="sim", b_layout=b_layout, ac_layout=ac_layout) as matmul:
        matmul.write_b(b)
        c = matmul(a)
    expected = reference.product(a, b, c_type)
    assert c.dtype == expected.dtype
    assert c.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", [k for k in SOCS["rk3588"].types if k in SOCS["rk3566"].types])
def test_b_may_be_column_after_column(control, kind):
    """`write_b` takes it as ever."""
    a, b = values((2, 32), kind.elements[0].name), values((32, 96), kind.elements[1].name, 1)
    with small(2, 32, 96, kind, b_layout=MatrixLayout.TRANSPOSED) as matmul:
        matmul.write_b(b)
        assert (matmul(a) == a.astype(float) @ b.astype(float)).all()
        assert matmul.b_memory.array()[: b.nbytes].tobytes() == b.T.tobytes()


@pytest.mark.parametrize(("soc", "k"), [("rk3588", 8224), ("rk3576", 4128), ("rk3562", 8224)])
def test_b_of_many_rows_lies_in_segments(on_soc, soc, k):
    """As `rknn_B_normal_layout_to_native_layout` of librknnrt 2.3.2 writes it."""
    on_soc(soc)
    a, b = values((1, k), "INT8"), values((k, 32), "INT8", 1)
    rules = SOCS[soc]
    with small(1, k, 32, b_layout=NATIVE) as matmul:
        matmul.write_b(b)
        tiles = reference.tiles(b, *rules.tiles(INT8), rules.segment_k)
        assert matmul.b_memory.array().tobytes() == tiles.tobytes()
        assert (matmul(a) == a.astype(int) @ b.astype(int)).all()


def test_memories_are_as_the_npu_has_them(control):
    """Matrices written in the NPU's layouts run without a copy."""
    a, b = values((4, 64), "INT8"), values((64, 64), "INT8", 1)
    with small(b_layout=NATIVE, ac_layout=NATIVE) as matmul:
        assert matmul.stored_shapes == ((4, 4, 16), (2, 2, 32, 32), (16, 4, 4))
        matmul.a_memory.array()[:] = reference.groups(a, 16).reshape(-1).view(np.uint8)
        matmul.b_memory.array()[:] = reference.tiles(b, 32, 32).view(np.uint8)
        matmul.run()
        c = matmul.c_memory.array().view(np.int32).reshape(16, 4, 4)
        product = (a.astype(int) @ b.astype(int)).astype(np.int32)
        assert (c == reference.groups(product, 4)).all()
        with pytest.raises(BufferError):
            matmul.close()
        del c
        gc.collect()


def test_several_m(control):
    """Chosen among those that it was made with; the first one at once."""
    b = values((64, 64), "INT8", 1)
    with small((8, 1, 4), ac_layout=NATIVE) as matmul:
        matmul.write_b(b)
        assert (matmul.m, matmul.sizes_of_m) == (8, (8, 1, 4))
        for m in (8, 1, 4, 1, 8):
            matmul.set_m(m)
            a = values((m, 64), "INT8", m)
            assert (matmul(a) == a.astype(int) @ b.astype(int)).all()
        with pytest.raises(ValueError, match="m: expected one of 8, 1, 4, got 2"):
            matmul.set_m(2)
        with pytest.raises(ValueError, match=r"A: expected shape \(8, 64\), got \(1, 64\)"):
            matmul(values((1, 64), "INT8"))
        assert matmul.m == 8


def test_scales_of_real_results(on_soc):
    """One per matrix or per column; int8 is divided by the scale of C and rounded."""
    on_soc("rk3588")
    a, b = values((3, 64), "INT8"), values((64, 32), "INT8", 1)
    kind = MatmulType.INT8_MM_INT8_TO_INT8
    with small(3, 64, 32, kind) as matmul:
        matmul.write_b(b)
        for name, scale in (("A", 0.5), ("B", 0.01), ("C", 2.5)):
            matmul.set_scales(name, scale)
        assert (matmul(a) == reference.product(a, b, "INT8", (0.5, 0.01, 2.5))).all()
    per_column = np.linspace(0.01, 0.02, 32, dtype=np.float32)
    with small(3, 64, 32, kind, b_scales=MatrixScales.PER_COLUMN) as matmul:
        matmul.write_b(b)
        matmul.set_scales("B", per_column)
        matmul.set_scales("C", 30.0)
        assert (matmul(a) == reference.product(a, b, "INT8", (1.0, per_column, 30.0))).all()
    on_soc("rk3576")
    a = values((3, 64), "FLOAT16")
    kind = MatmulType.FLOAT16_MM_INT8_TO_FLOAT32
    with small(3, 64, 32, kind, b_scales=MatrixScales.PER_COLUMN) as matmul:
        matmul.write_b(b)
        matmul.set_scales("B", per_column)
        expected = reference.product(a, b, "FLOAT32", (1.0, per_column, 1.0))
        assert matmul(a).tobytes() == expected.tobytes()


def test_what_nobody_recorded_is_not_simulated(on_soc):
    """Scales per group, and per column of integer results: the run fails and says so."""
    on_soc("rk3588")
    float32 = MatmulType.INT8_MM_INT8_TO_FLOAT32
    cases = [(INT8, MatrixScales.PER_COLUMN, 0), (float32, MatrixScales.PER_GROUP, 32)]
    for kind, scales, group in cases:
        with small(kind=kind, b_scales=scales, group_size=group, b_layout=NATIVE) as matmul:
            matmul.write_b(values((64, 64), "INT8"))
            matmul.set_scales("B", np.ones(64 * (2 if group else 1), np.float32))
            with pytest.raises(OperationFailedError, match="nobody recorded"):
                matmul(values((4, 64), "INT8"))


def test_int16_that_overflows_is_noted(control):
    """What an NPU does then is not known: a violation names the sum."""
    kind = MatmulType.INT4_MM_INT4_TO_INT16
    with small(1, 1024, 64, kind) as matmul:
        matmul.write_b(np.full((1024, 64), -8, np.int8))
        assert (matmul(np.full((1, 1024), -8, np.int8)) == 32767).all()
    assert "65536 does not fit into the int16" in control.last_violation
    control.reset()


def test_out_is_written_and_returned(control):
    """Any strides come in; out is the caller's own memory, C-contiguous."""
    a, b = values((8, 128), "INT8")[::2, ::2], values((64, 64), "INT8", 1)
    with small() as matmul:
        matmul.write_b(np.asfortranarray(b))
        out = np.empty((4, 64), np.int32)
        assert matmul(a, out=out) is out
        assert (out == a.astype(int) @ b.astype(int)).all()
        for wrong, error in (
            (np.empty((4, 64), np.int64), TypeError),
            (np.empty((4, 32), np.int32), ValueError),
            (np.empty((64, 4), np.int32).T, ValueError),
            ([[0]], TypeError),
        ):
            with pytest.raises(error):
                matmul(a, out=wrong)
        view = matmul.c_memory.array().view(np.int32).reshape(4, 64)
        with pytest.raises(ValueError, match="that of matrix C"):
            matmul(a, out=view)
        del view
        frozen = np.empty((4, 64), np.int32)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="writable"):
            matmul(a, out=frozen)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 64, 64, INT8), ValueError, "m: expected 1 to"),
        ((4, 0, 64, INT8), ValueError, "k: expected 1 to"),
        ((4, 64, -1, INT8), ValueError, "n: expected 1 to"),
        ((4, 2**40, 64, INT8), ValueError, "k: expected 1 to"),
        ((2**31 - 1, 64, 64, INT8), ValueError, "m, k, n: expected matrices of"),
        ((4, 48, 64, INT8), ValueError, "k: expected a multiple of 32"),
        ((4, 64, 48, INT8), ValueError, "n: expected a multiple of 32"),
        (((), 64, 64, INT8), ValueError, "m: expected 1 to"),
        (((4, 4), 64, 64, INT8), ValueError, "different"),
        ((4.0, 64, 64, INT8), TypeError, "m: expected an integer"),
        (("4", 64, 64, INT8), TypeError, "m: expected an integer"),
        ((4, 64, 64, "INT8"), TypeError, r"expected a MatmulType such as MatmulType\.FLOAT16_MM_"),
        ((4, 64, 64, 0), ValueError, "dtype: expected a MatmulType"),
        ((4, 64, 64, 14), ValueError, "dtype: expected a MatmulType"),
        ((4, 64, 64, MatmulType.INT8_MM_INT4_TO_INT32), UnavailableError, "rk3588 does not"),
    ],
)
def test_wrong_sizes_and_types(control, arguments, error, words):
    """Told before the runtime is called: several of them would end the process."""
    with pytest.raises(error, match=words):
        Matmul(*arguments, library="sim")
    assert control.calls("rknn_matmul_create") == 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"b_layout": 3}, ValueError, "b_layout: expected a MatrixLayout"),
        ({"ac_layout": MatrixLayout.TRANSPOSED}, ValueError, "ac_layout"),
        ({"b_scales": 1}, ValueError, "b_scales: expected a MatrixScales"),
        ({"group_size": 32}, ValueError, "group_size"),
        ({"b_scales": MatrixScales.PER_GROUP}, ValueError, "group_size"),
        ({"b_scales": MatrixScales.PER_GROUP, "group_size": 48}, ValueError, "divisor of k, 64"),
        ({"b_scales": MatrixScales.PER_GROUP, "group_size": 32}, UnavailableError, "per group"),
        ({"iommu_domain": 16}, ValueError, "iommu_domain"),
        ({"core_mask": 5}, OperationFailedError, "core_mask"),
        ({"core_mask": "0"}, TypeError, "core_mask"),
    ],
)
def test_wrong_options(control, options, error, words):
    """Wrong options raise before the call; the runtime judges core masks."""
    with pytest.raises(error, match=words):
        small(**options)


def test_b_has_to_be_written(control):
    """Else the product is one with whatever was in memory."""
    with small() as matmul, pytest.raises(RuntimeError, match="write_b"):
        matmul(values((4, 64), "INT8"))


def test_wrong_matrices(control):
    """Nothing is converted; the message names the expected matrix."""
    with small() as matmul:
        for wrong, error, words in (
            (np.zeros((64, 64), np.float32), TypeError, "B: expected dtype int8"),
            (np.zeros((64, 32), np.int8), ValueError, r"B: expected shape \(64, 64\)"),
            ([[1]], TypeError, "ndarray"),
            (None, TypeError, "ndarray"),
        ):
            with pytest.raises(error, match=words):
                matmul.write_b(wrong)
    kind = MatmulType.INT4_MM_INT4_TO_INT16
    with small(kind=kind) as matmul, pytest.raises(ValueError, match="-8 to 7"):
        matmul.write_b(np.full((64, 64), 8, np.int8))


@pytest.mark.parametrize(
    ("matrix", "scales", "error"),
    [
        ("D", 1.0, ValueError),
        (0, 1.0, ValueError),
        ("A", "1", TypeError),
        ("A", None, TypeError),
        ("A", 0.0, ValueError),
        ("A", -1.0, ValueError),
        ("A", float("nan"), ValueError),
        ("A", float("inf"), ValueError),
        ("A", np.ones(2, np.float32), ValueError),
        ("B", np.ones(64, np.float32), ValueError),
        ("B", np.ones(1), TypeError),
        ("C", np.ones((1, 1), np.float32), ValueError),
    ],
)
def test_wrong_scales(control, matrix, scales, error):
    """Another number of scales ends the process in librknnrt 2.3.2: it never gets there."""
    with small() as matmul, pytest.raises(error):
        matmul.set_scales(matrix, scales)
    assert control.calls("rknn_matmul_set_quant_params") == 0


def test_it_is_neither_copied_nor_pickled(control):
    """It owns NPU memory, so copying and pickling raise."""
    with small() as matmul:
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="neither copied nor pickled"):
                function(matmul)
        assert repr(matmul) == "<Matmul 4 x 64 x 64 INT8_MM_INT8_TO_INT32>"
