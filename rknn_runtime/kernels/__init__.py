"""Native loops over arrays: layouts, quantization, resizing. They know nothing about models."""

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.kernels.elements import Nc1hwc2Layout
    from rknn_runtime.kernels.layout import (
        nc1hwc2_to_flat,
        nc1hwc2_to_nchw,
        nc1hwc2_to_nhwc,
        nchw_to_nc1hwc2,
        nhwc_to_nc1hwc2,
    )
    from rknn_runtime.kernels.matrices import b_to_native, native_to_b, pack_int4, unpack_int4
    from rknn_runtime.kernels.quantization import (
        dequantize_affine,
        dequantize_dfp,
        dequantize_nc1hwc2,
        float16_to_float32,
        float32_to_float16,
        quantize_affine,
    )
    from rknn_runtime.kernels.resize import resize_bilinear

__all__ = [
    "Nc1hwc2Layout",
    "b_to_native",
    "dequantize_affine",
    "dequantize_dfp",
    "dequantize_nc1hwc2",
    "float16_to_float32",
    "float32_to_float16",
    "native_to_b",
    "nc1hwc2_to_flat",
    "nc1hwc2_to_nchw",
    "nc1hwc2_to_nhwc",
    "nchw_to_nc1hwc2",
    "nhwc_to_nc1hwc2",
    "pack_int4",
    "quantize_affine",
    "resize_bilinear",
    "unpack_int4",
]

#: Module -> the names that come from it.
_HOMES = {
    "elements": ("Nc1hwc2Layout",),
    "layout": ("nc1hwc2_to_flat", "nc1hwc2_to_nchw", "nc1hwc2_to_nhwc", "nchw_to_nc1hwc2",
               "nhwc_to_nc1hwc2"),
    "matrices": ("b_to_native", "native_to_b", "pack_int4", "unpack_int4"),
    "quantization": ("dequantize_affine", "dequantize_dfp", "dequantize_nc1hwc2",
                     "float16_to_float32", "float32_to_float16", "quantize_affine"),
    "resize": ("resize_bilinear",),
}  # fmt: skip
if not TYPE_CHECKING:  # else every misspelt name would have a type
    __getattr__, __dir__ = lazily(globals(), _HOMES)
