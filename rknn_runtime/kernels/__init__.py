"""Native loops over arrays: layouts, quantization, resizing. They know nothing about models."""

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.kernels.elements import Nc1hwc2Layout as Nc1hwc2Layout
    from rknn_runtime.kernels.layout import nc1hwc2_to_flat as nc1hwc2_to_flat
    from rknn_runtime.kernels.layout import nc1hwc2_to_nchw as nc1hwc2_to_nchw
    from rknn_runtime.kernels.layout import nc1hwc2_to_nhwc as nc1hwc2_to_nhwc
    from rknn_runtime.kernels.layout import nchw_to_nc1hwc2 as nchw_to_nc1hwc2
    from rknn_runtime.kernels.layout import nhwc_to_nc1hwc2 as nhwc_to_nc1hwc2
    from rknn_runtime.kernels.matrices import b_to_native as b_to_native
    from rknn_runtime.kernels.matrices import native_to_b as native_to_b
    from rknn_runtime.kernels.matrices import pack_int4 as pack_int4
    from rknn_runtime.kernels.matrices import unpack_int4 as unpack_int4
    from rknn_runtime.kernels.quantization import dequantize_affine as dequantize_affine
    from rknn_runtime.kernels.quantization import dequantize_dfp as dequantize_dfp
    from rknn_runtime.kernels.quantization import dequantize_nc1hwc2 as dequantize_nc1hwc2
    from rknn_runtime.kernels.quantization import float16_to_float32 as float16_to_float32
    from rknn_runtime.kernels.quantization import float32_to_float16 as float32_to_float16
    from rknn_runtime.kernels.quantization import quantize_affine as quantize_affine
    from rknn_runtime.kernels.resize import resize_bilinear as resize_bilinear

lazily(
    globals(),
    {
        "elements": ("Nc1hwc2Layout",),
        "layout": ("nc1hwc2_to_flat", "nc1hwc2_to_nchw", "nc1hwc2_to_nhwc", "nchw_to_nc1hwc2",
                   "nhwc_to_nc1hwc2"),
        "matrices": ("b_to_native", "native_to_b", "pack_int4", "unpack_int4"),
        "quantization": ("dequantize_affine", "dequantize_dfp", "dequantize_nc1hwc2",
                         "float16_to_float32", "float32_to_float16", "quantize_affine"),
        "resize": ("resize_bilinear",),
    },
)  # fmt: skip
