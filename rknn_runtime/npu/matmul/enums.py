"""Choices for products of matrices; every value comes from the C declarations."""

from __future__ import annotations

from enum import IntEnum

from rknn_runtime._ffi import lib
from rknn_runtime.enums import TensorType

__all__ = ["MatmulType", "MatrixLayout", "MatrixScales"]


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
