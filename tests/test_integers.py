"""One rule for every integer of the API: a bool is none, nor is a member of another enum.

But for `RKNNLite`, whose numbers are the vendor's. Enumerations have the vendor's numbers.
"""

from __future__ import annotations

import ast
from enum import IntEnum

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime import (
    CoreMask,
    Detector,
    GeneralModel,
    InitFlag,
    Matmul,
    MatmulType,
    Model,
    Pool,
    TensorMemory,
    TensorType,
    kernels,
    letterbox,
)
from rknn_runtime._arrays import as_int, as_member
from rknn_runtime.enums import Layout, MemoryFlag, QuantType
from rknn_runtime.npu import raw
from rknn_runtime.npu.dma_heap import DmaBuffer
from rknn_runtime.npu.matmul_kinds import MatrixLayout
from rknn_runtime.tools import verify

FILE = DATA / "models" / "ic3_w37_rk3588.rknn"
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"


class Foreign(IntEnum):
    """An enum of somebody else's."""

    ONE = 1


WRONG = [True, False, np.bool_(True), TensorType.INT8, Foreign.ONE]


@pytest.fixture(scope="module")
def model():
    with Model(FILE, library="sim") as opened:
        yield opened


def pool(**options):
    Pool(FILE, lambda model: model, library="sim", **options).close()


def matmul(**options):
    given = {"m": 4, "k": 64, "n": 64, "dtype": MatmulType.INT8_MM_INT8_TO_INT32, **options}
    with Matmul(given.pop("m"), given.pop("k"), given.pop("n"), given.pop("dtype"),
                library="sim", **given):  # fmt: skip
        pass


def detector(**options):
    with Model(SHAPES, library="sim") as opened:
        Detector(opened, **options)


CALLS = {
    "Model.flags": lambda model, x: Model(FILE, library="sim", flags=x).close(),
    "Model.core_mask": lambda model, x: Model(FILE, library="sim", core_mask=x).close(),
    "GeneralModel.flags": lambda model, x: GeneralModel(FILE, library="sim", flags=x).close(),
    "duplicate": lambda model, x: model.duplicate(core_mask=x).close(),
    "set_core_mask": lambda model, x: model.set_core_mask(x),
    "set_batch_core_num": lambda model, x: model.set_batch_core_num(x),
    "TensorMemory.size": lambda model, x: TensorMemory(model, x).close(),
    "TensorMemory.flags": lambda model, x: TensorMemory(model, 64, flags=x).close(),
    "DmaBuffer": lambda model, x: DmaBuffer(x),
    "Pool.contexts": lambda model, x: pool(contexts=x),
    "Pool.core_masks": lambda model, x: pool(core_masks=[x]),
    "Matmul.m": lambda model, x: matmul(m=x),
    "Matmul.k": lambda model, x: matmul(k=x),
    "Matmul.dtype": lambda model, x: matmul(dtype=x),
    "Matmul.b_layout": lambda model, x: matmul(b_layout=x),
    "Matmul.core_mask": lambda model, x: matmul(core_mask=x),
    "raw.query": lambda model, x: raw.query(model, x),
    "Detector.max_detections": lambda model, x: detector(max_detections=x),
    "letterbox": lambda model, x: letterbox(np.zeros((4, 4, 3), np.uint8), (x, 4)),
    "pack": lambda model, x: kernels.dequantize_dfp(np.zeros(4, np.int8), x),
    "pattern": lambda model, x: verify.pattern((x, 4, 3), (255, 255, 255)),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_takes_a_bool_or_a_foreign_enum(model, name):
    """It is a `TypeError` that names the argument; nothing is done."""
    for wrong in WRONG:
        with pytest.raises(TypeError, match="expected"):
            CALLS[name](model, wrong)


def test_members_and_numbers_are_taken():
    """Of the enum itself, of plain integers, and of NumPy's."""
    for value in (CoreMask.CORE_1, 2, np.int64(2), np.uint8(2)):
        assert as_member(value, "core_mask", CoreMask) is CoreMask.CORE_1
    assert as_int(np.int16(7), "n", 0, 9) == 7
    flags = InitFlag.ENABLE_SRAM | InitFlag.PRIOR_LOW
    assert as_member(flags, "flags", InitFlag, 2**32 - 1) == flags
    assert type(as_int(np.int16(7), "n", 0, 9)) is int


@pytest.mark.parametrize("kind", [CoreMask, InitFlag, MemoryFlag, MatrixLayout, MatmulType])
def test_no_enum_is_taken_for_another(kind):
    """Nor for a plain integer."""
    kinds = [CoreMask, InitFlag, MemoryFlag, MatrixLayout, MatmulType, TensorType]
    for other in (other for other in kinds if other is not kind):
        for member in other:
            with pytest.raises(TypeError, match=f"x: expected a {kind.__name__} such as .*, got"):
                as_member(member, "x", kind)
    with pytest.raises(TypeError, match="x: expected an integer, got"):
        as_int(next(iter(kind)), "x", 0, 2**32)


def test_one_place_takes_integers():
    """No other module asks an object for its integer."""
    folder, found = PROJECT / "rknn_runtime", set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "operator.index":
                found.add(path.relative_to(folder).as_posix())
    assert found == {"_arrays.py"}


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (Layout, {"NCHW": 0, "NHWC": 1, "NC1HWC2": 2, "UNDEFINED": 3}),
        (QuantType, {"NONE": 0, "DFP": 1, "AFFINE": 2}),
        (
            TensorType,
            {
                "FLOAT32": 0, "FLOAT16": 1, "INT8": 2, "UINT8": 3, "INT16": 4, "UINT16": 5,
                "INT32": 6, "UINT32": 7, "INT64": 8, "BOOL": 9, "INT4": 10, "BFLOAT16": 11,
            },
        ),
        (
            CoreMask,
            {
                "AUTO": 0, "CORE_0": 1, "CORE_1": 2, "CORE_0_1": 3, "CORE_2": 4,
                "CORE_0_1_2": 7, "ALL": 0xFFFF,
            },
        ),
        (
            InitFlag,
            {
                "PRIOR_HIGH": 0, "PRIOR_MEDIUM": 1, "PRIOR_LOW": 2, "ASYNC": 4,
                "COLLECT_PERF": 8, "MEM_ALLOC_OUTSIDE": 0x10, "SHARE_WEIGHT_MEM": 0x20,
                "FENCE_IN_OUTSIDE": 0x40, "FENCE_OUT_OUTSIDE": 0x80,
                "COLLECT_MODEL_INFO_ONLY": 0x100, "INTERNAL_ALLOC_OUTSIDE": 0x200,
                "EXECUTE_FALLBACK_PRIOR_DEVICE_GPU": 0x400, "ENABLE_SRAM": 0x800,
                "SHARE_SRAM": 0x1000, "DISABLE_PROC_HIGH_PRIORITY": 0x2000,
                "DISABLE_FLUSH_INPUT_MEM_CACHE": 0x4000,
                "DISABLE_FLUSH_OUTPUT_MEM_CACHE": 0x8000, "MODEL_BUFFER_ZERO_COPY": 0x10000,
            },
        ),
    ],
)  # fmt: skip
def test_members_have_the_vendors_numbers(enum, values):
    """Names and numbers equal the API reference's, without additions."""
    assert {name: int(member) for name, member in enum.__members__.items()} == values


@pytest.mark.parametrize(
    "dtype", [member for member in TensorType if member.name not in ("INT4", "BFLOAT16")]
)
def test_the_numpy_dtype_has_the_same_name(dtype):
    """`numpy` is the dtype of that name."""
    assert dtype.numpy == np.dtype(dtype.name.lower())


@pytest.mark.parametrize("dtype", [TensorType.INT4, TensorType.BFLOAT16])
def test_elements_that_numpy_does_not_have_are_refused(dtype):
    """There is no dtype to fall back to silently."""
    with pytest.raises(TypeError, match=f"no dtype for {dtype.name}"):
        dtype.numpy  # noqa: B018
