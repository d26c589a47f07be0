"""Kinds of matrix products: their enums, and which of them each SoC takes.

Recorded from librknnrt 2.3.2 under emulation as each SoC; newer runtimes may take more. On RV1126B
librknnrt multiplies nothing, and librknnmrt has no such functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.soc import soc_of_this_machine
from rknn_runtime.npu.library import Library


class MatmulType(IntEnum):
    """Elements of A, B and C of a matrix multiplication (the vendor's ``rknn_matmul_type``)."""

    FLOAT16_MM_FLOAT16_TO_FLOAT32 = lib.RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32
    INT8_MM_INT8_TO_INT32 = lib.RKNN_INT8_MM_INT8_TO_INT32
    INT8_MM_INT8_TO_INT8 = lib.RKNN_INT8_MM_INT8_TO_INT8
    FLOAT16_MM_FLOAT16_TO_FLOAT16 = lib.RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16
    FLOAT16_MM_INT8_TO_FLOAT32 = lib.RKNN_FLOAT16_MM_INT8_TO_FLOAT32
    FLOAT16_MM_INT8_TO_FLOAT16 = lib.RKNN_FLOAT16_MM_INT8_TO_FLOAT16
    FLOAT16_MM_INT4_TO_FLOAT32 = lib.RKNN_FLOAT16_MM_INT4_TO_FLOAT32
    FLOAT16_MM_INT4_TO_FLOAT16 = lib.RKNN_FLOAT16_MM_INT4_TO_FLOAT16
    INT8_MM_INT8_TO_FLOAT32 = lib.RKNN_INT8_MM_INT8_TO_FLOAT32
    INT4_MM_INT4_TO_INT16 = lib.RKNN_INT4_MM_INT4_TO_INT16
    INT8_MM_INT4_TO_INT32 = lib.RKNN_INT8_MM_INT4_TO_INT32
    FLOAT16_MM_INT4_TO_BFLOAT16 = lib.RKNN_FLOAT16_MM_INT4_TO_BFLOAT16
    INT8_MM_INT4_TO_FLOAT16 = lib.RKNN_INT8_MM_INT4_TO_FLOAT16

    @property
    def elements(self) -> tuple[TensorType, TensorType, TensorType]:
        """Element types of A, B and C."""
        a, _, b, _, c = self.name.split("_")
        return TensorType[a], TensorType[b], TensorType[c]


class MatrixLayout(IntEnum):
    """How a matrix lies in memory (the vendor's ``rknn_matmul_layout``)."""

    #: Row after row.
    NORMAL = lib.RKNN_MM_LAYOUT_NORM
    #: As the NPU reads and writes it: the fastest.
    NATIVE = lib.RKNN_MM_LAYOUT_NATIVE
    #: Column after column; of B alone.
    TRANSPOSED = lib.RKNN_MM_LAYOUT_TP_NORM


class MatrixScales(IntEnum):
    """How many scales matrix B has (the vendor's ``rknn_matmul_quant_type``)."""

    ONE = lib.RKNN_QUANT_TYPE_PER_LAYER_SYM
    PER_COLUMN = lib.RKNN_QUANT_TYPE_PER_CHANNEL_SYM
    #: One per column and group of rows.
    PER_GROUP = lib.RKNN_QUANT_TYPE_PER_GROUP_SYM


#: The version that was recorded.
RECORDED = (2, 3, 2)

#: Only for these B may be column after column.
_TRANSPOSABLE = (
    MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,
    MatmulType.INT8_MM_INT8_TO_INT32,
    MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT16,
)


@dataclass(frozen=True)
class MatmulSoc:
    """Products that one SoC takes."""

    types: tuple[MatmulType, ...]
    #: Types whose B may have a scale per column, and per group.
    per_column: tuple[MatmulType, ...]
    per_group: tuple[MatmulType, ...]
    #: Columns and rows of a tile of B where A is float16; K and N are multiples of them.
    tile_n: int
    tile_k: int
    #: Rows of B that lie one after another in the native layout; 0: all.
    segment_k: int
    #: Most rows of B; 0: not known.
    limit_k: int

    def tiles(self, dtype: MatmulType) -> tuple[int, int]:
        """Return what K and N must be multiples of."""
        a = dtype.elements[0]
        if a is TensorType.FLOAT16:
            return self.tile_k, self.tile_n
        return 32, self.tile_n * (2 if a is TensorType.INT8 else 4)


def _types(bits: int) -> tuple[MatmulType, ...]:
    return tuple(each for each in MatmulType if bits >> each & 1)


def _read_socs() -> Iterator[tuple[str, MatmulSoc]]:
    """Read the table of ``csrc/modelfile/matmul.c``."""
    index = 0
    while (soc := lib.rkr_matmul_soc_at(index)) != ffi.NULL:
        yield (
            ffi.string(soc.soc).decode(),
            MatmulSoc(
                types=_types(soc.types),
                per_column=_types(soc.per_column),
                per_group=_types(soc.per_group),
                tile_n=soc.tile_n,
                tile_k=soc.tile_k,
                segment_k=soc.segment_k,
                limit_k=soc.limit_k,
            ),
        )
        index += 1


SOCS: dict[str, MatmulSoc] = dict(_read_socs())

#: Functions that every product needs.
_FUNCTIONS = ("set_io_mem", "run", "destroy")
#: Of one matrix: sizes are 32 bits.
_MOST_BYTES = 2**31 - 1
#: Rows of B from which on the SoCs differ in its native layout.
_SAME_ROWS = 4096


class MatmulKind(NamedTuple):
    """Types, layouts and scales of a product; see `Matmul`."""

    dtype: MatmulType
    b_layout: MatrixLayout
    ac_layout: MatrixLayout
    b_scales: MatrixScales


def suit(
    library: Library, sizes_of_m: Sequence[int], k: int, n: int, kind: MatmulKind
) -> int | None:
    """Check a product against library and SoC; return rows of a segment of native B, None: all."""
    shapes = () if len(sizes_of_m) == 1 else ("create_dynamic_shape", "set_dynamic_shape")
    for name in (*_FUNCTIONS, *(shapes or ("create",))):
        library.require(f"rknn_matmul_{name}")
    most = max(max(sizes_of_m) * max(k, n), k * n) * 4
    if most > _MOST_BYTES:
        raise ValueError(f"m, k, n: expected matrices of at most {_MOST_BYTES} bytes, got {most}")
    soc = library.simulated_soc()
    if not soc:
        machine = soc_of_this_machine()
        soc = "" if machine is None else machine.name
    if not soc:
        if kind.b_layout is MatrixLayout.NATIVE and k > _SAME_ROWS:
            raise UnavailableError(
                f"b_layout: the NATIVE layout of B of more than {_SAME_ROWS} rows depends on the "
                "SoC, which is unknown here: take NORMAL"
            )
        return None
    if soc not in SOCS:
        raise UnavailableError(
            f"librknnmrt, the runtime of {soc}, multiplies no matrices: RK3562, RK3566, RK3568, "
            "RK3576 and RK3588 do"
        )
    runtime = None if library.is_simulated else library.runtime
    if runtime is None or runtime.version <= RECORDED:
        check(soc, k, n, kind)
    return SOCS[soc].segment_k or None


def check(soc: str, k: int, n: int, kind: MatmulKind) -> None:
    """Refuse what librknnrt 2.3.2 refuses on a SoC, or ends the process for."""
    rules, dtype = SOCS[soc], kind.dtype
    if not rules.types:
        raise UnavailableError(f"librknnrt 2.3.2 multiplies no matrices on {soc}")
    if dtype not in rules.types:
        names = ", ".join(each.name for each in rules.types)
        raise UnavailableError(f"{soc} does not multiply {dtype.name}; it does {names}")
    _check_scales(soc, rules, kind)
    if kind.b_layout is MatrixLayout.TRANSPOSED and dtype not in _TRANSPOSABLE:
        raise UnavailableError(f"b_layout: B of {dtype.name} cannot be TRANSPOSED")
    tile_k, tile_n = rules.tiles(dtype)
    for name, value, tile in (("k", k, tile_k), ("n", n, tile_n)):
        if value % tile:
            raise ValueError(
                f"{name}: expected a multiple of {tile} for {dtype.name} on {soc}, got {value}: "
                "pad it with zeros"
            )
    if rules.limit_k and k > rules.limit_k:
        raise ValueError(f"k: expected at most {rules.limit_k} on {soc}, got {k}")
    if soc == "rk3576" and dtype is MatmulType.FLOAT16_MM_INT4_TO_FLOAT16 and k > rules.segment_k:
        raise ValueError(
            f"k: expected at most {rules.segment_k} for {dtype.name} on {soc}, got {k}: librknnrt "
            "2.3.2 ends the process"
        )


def _check_scales(soc: str, rules: MatmulSoc, kind: MatmulKind) -> None:
    dtype = kind.dtype
    if kind.b_scales is MatrixScales.PER_COLUMN and dtype not in rules.per_column:
        raise UnavailableError(f"b_scales: {dtype.name} has no scale per column on {soc}")
    if kind.b_scales is MatrixScales.PER_GROUP:
        if dtype not in rules.per_group:
            raise UnavailableError(f"b_scales: {dtype.name} has no scale per group on {soc}")
        layouts = (kind.b_layout, kind.ac_layout)
        if MatrixLayout.NATIVE not in layouts or MatrixLayout.TRANSPOSED in layouts:
            raise UnavailableError("b_scales: scales per group need a NATIVE layout")
