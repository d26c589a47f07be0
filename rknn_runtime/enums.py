"""Choices of the RKNN API; every value comes from the C declarations."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from rknn_runtime._ffi import lib


class Layout(IntEnum):
    """Order of a tensor's dimensions in memory (the vendor's ``fmt``)."""

    NCHW = lib.RKNN_TENSOR_NCHW
    NHWC = lib.RKNN_TENSOR_NHWC
    #: Channels in ``C1`` groups of ``C2``: shape ``(N, C1, H, W, C2)``.
    NC1HWC2 = lib.RKNN_TENSOR_NC1HWC2
    #: The dimensions are the exporting framework's own; any rank but 4.
    UNDEFINED = lib.RKNN_TENSOR_UNDEFINED


class TensorType(IntEnum):
    """Element type of a tensor (the vendor's ``type``)."""

    FLOAT32 = lib.RKNN_TENSOR_FLOAT32
    FLOAT16 = lib.RKNN_TENSOR_FLOAT16
    INT8 = lib.RKNN_TENSOR_INT8
    UINT8 = lib.RKNN_TENSOR_UINT8
    INT16 = lib.RKNN_TENSOR_INT16
    UINT16 = lib.RKNN_TENSOR_UINT16
    INT32 = lib.RKNN_TENSOR_INT32
    UINT32 = lib.RKNN_TENSOR_UINT32
    INT64 = lib.RKNN_TENSOR_INT64
    BOOL = lib.RKNN_TENSOR_BOOL
    INT4 = lib.RKNN_TENSOR_INT4
    BFLOAT16 = lib.RKNN_TENSOR_BFLOAT16

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of one element."""
        if self.name in ("INT4", "BFLOAT16"):
            raise TypeError(f"NumPy has no dtype for {self.name} elements")
        return np.dtype(self.name.lower())


class QuantType(IntEnum):
    """How stored integers stand for real numbers (the vendor's ``qnt_type``)."""

    NONE = lib.RKNN_TENSOR_QNT_NONE
    #: Dynamic fixed point: ``real = q * 2**-fl``.
    DFP = lib.RKNN_TENSOR_QNT_DFP
    #: ``real = (q - zero_point) * scale``; the runtimes also report it for float tensors.
    AFFINE = lib.RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC


class CoreMask(IntFlag):
    """NPU cores that a context may run on (RK3588: 3 cores, RK3576: 2, others 1)."""

    AUTO = lib.RKNN_NPU_CORE_AUTO
    CORE_0 = lib.RKNN_NPU_CORE_0
    CORE_1 = lib.RKNN_NPU_CORE_1
    CORE_2 = lib.RKNN_NPU_CORE_2
    CORE_0_1 = lib.RKNN_NPU_CORE_0_1
    CORE_0_1_2 = lib.RKNN_NPU_CORE_0_1_2
    ALL = lib.RKNN_NPU_CORE_ALL


class InitFlag(IntFlag):
    """Flags of ``rknn_init``."""

    PRIOR_HIGH = lib.RKNN_FLAG_PRIOR_HIGH
    PRIOR_MEDIUM = lib.RKNN_FLAG_PRIOR_MEDIUM
    PRIOR_LOW = lib.RKNN_FLAG_PRIOR_LOW
    ASYNC = lib.RKNN_FLAG_ASYNC_MASK
    COLLECT_PERF = lib.RKNN_FLAG_COLLECT_PERF_MASK
    MEM_ALLOC_OUTSIDE = lib.RKNN_FLAG_MEM_ALLOC_OUTSIDE
    SHARE_WEIGHT_MEM = lib.RKNN_FLAG_SHARE_WEIGHT_MEM
    FENCE_IN_OUTSIDE = lib.RKNN_FLAG_FENCE_IN_OUTSIDE
    FENCE_OUT_OUTSIDE = lib.RKNN_FLAG_FENCE_OUT_OUTSIDE
    COLLECT_MODEL_INFO_ONLY = lib.RKNN_FLAG_COLLECT_MODEL_INFO_ONLY
    INTERNAL_ALLOC_OUTSIDE = lib.RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE
    EXECUTE_FALLBACK_PRIOR_DEVICE_GPU = lib.RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
    ENABLE_SRAM = lib.RKNN_FLAG_ENABLE_SRAM
    SHARE_SRAM = lib.RKNN_FLAG_SHARE_SRAM
    DISABLE_PROC_HIGH_PRIORITY = lib.RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY
    DISABLE_FLUSH_INPUT_MEM_CACHE = lib.RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE
    DISABLE_FLUSH_OUTPUT_MEM_CACHE = lib.RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE
    MODEL_BUFFER_ZERO_COPY = lib.RKNN_FLAG_MODEL_BUFFER_ZERO_COPY


class MemoryFlag(IntFlag):
    """How ``rknn_create_mem2`` allocates."""

    DEFAULT = lib.RKNN_FLAG_MEMORY_FLAGS_DEFAULT
    #: The CPU sees it through its caches.
    CACHEABLE = lib.RKNN_FLAG_MEMORY_CACHEABLE
    NON_CACHEABLE = lib.RKNN_FLAG_MEMORY_NON_CACHEABLE
    #: From the SRAM of the SoC as far as there is any, else from DDR.
    TRY_ALLOC_SRAM = lib.RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM
