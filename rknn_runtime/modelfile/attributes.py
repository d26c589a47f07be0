"""Describe tensors as the vendor's runtimes do; ``csrc/modelfile`` has the rules."""

from __future__ import annotations

from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.modelfile.soc import Soc, known_version, runtime_of
from rknn_runtime.tensor import TensorAttr

#: Element types by their number in the file, as in ONNX.
ELEMENT_TYPES = {
    1: TensorType.FLOAT32,
    2: TensorType.UINT8,
    3: TensorType.INT8,
    4: TensorType.UINT16,
    5: TensorType.INT16,
    6: TensorType.INT32,
    7: TensorType.INT64,
    9: TensorType.BOOL,
    10: TensorType.FLOAT16,
}
LAYOUTS = {
    lib.RKR_LAYOUT_PLAIN: Layout.UNDEFINED,
    lib.RKR_LAYOUT_NHWC: Layout.NHWC,
    lib.RKR_LAYOUT_NCHW: Layout.NCHW,
    lib.RKR_LAYOUT_NC1HWC2: Layout.NC1HWC2,
}
_ERROR_BYTES = 320


def describe(tensor: Any, name: str, index: int, rules: Any, *, is_input: bool) -> TensorAttr:
    """Describe an input or output as the runtime of the model would.

    Returns:
        The logical attribute, with ``native`` and ``nhwc`` beside it; ``nhwc`` is None for
        outputs of dynamic models in a standard container, whose runtime refuses that query.
    """
    found, error = ffi.new("rkr_described *"), ffi.new("char[]", _ERROR_BYTES)
    if lib.rkr_describe_tensor(tensor, is_input, rules, found, error, _ERROR_BYTES) != lib.RKR_OK:
        raise ValueError(ffi.string(error).decode("utf-8", "replace"))

    def attr(which: int, **views: TensorAttr | None) -> TensorAttr:
        view = found.views[which]
        return TensorAttr(
            index=index,
            name=name,
            shape=tuple(ffi.unpack(view.dims, view.n_dims)),
            layout=LAYOUTS[view.layout],
            dtype=ELEMENT_TYPES[view.type],
            qnt_type=QuantType.AFFINE,
            zero_point=found.zero_point,
            scale=found.scale,
            fl=0,
            n_elems=view.n_elems,
            size=view.size,
            size_with_stride=view.size_with_stride,
            w_stride=view.w_stride,
            h_stride=0,
            native=views.get("native"),
            nhwc=views.get("nhwc"),
        )

    nhwc = attr(lib.RKR_VIEW_NHWC) if found.has_nhwc else None
    return attr(lib.RKR_VIEW_LOGICAL, native=attr(lib.RKR_VIEW_NATIVE), nhwc=nhwc)


class FileTensor(NamedTuple):
    """One input or output as a model file would describe it, for a batch of one."""

    name: str
    #: Element type in NPU memory.
    dtype: TensorType
    #: Layout in NPU memory.
    layout: Layout
    #: ``(N, C1, H, W, C2)`` for NC1HWC2, ``(N, 1, H, W, C)`` for a pixel input: H and W
    #: without the padding that runtimes report.
    native_shape: tuple[int, ...]
    #: As the exporting framework orders it: NCHW for rank 4.
    shape: tuple[int, ...]
    #: Zero point and scale are None for a tensor without quantization.
    zero_point: int | None
    scale: float | None
    #: Bytes that the compiler set aside for the tensor.
    reserved_bytes: int
    #: An image input that the NPU reads as NHWC rows and normalizes itself.
    is_pixel_input: bool
    #: Logical type that a standard container tells the runtime to report.
    api_dtype: TensorType | None = None


class Rules(NamedTuple):
    """Facts of a model that decide how its runtime describes the tensors."""

    soc: Soc
    #: The container is a mini one: librknnmrt's rules, else librknnrt's.
    mini: bool
    #: Images per run as built into the model; 1 when none was.
    batch: int = 1
    #: The model was built for several input shapes.
    dynamic: bool = False
    #: Version of the container; librknnrt pairs the channel groups of old ones.
    container_version: int = 6
    #: Version of the runtime; None: the newest known.
    runtime_version: str | None = None

    def for_c(self) -> Any:
        """Return the ``rkr_rules *``."""
        version = known_version(runtime_of(self.mini), self.runtime_version)
        rules = ffi.new("rkr_rules *")
        rules.is_mini, rules.is_dynamic, rules.batch = self.mini, self.dynamic, self.batch
        rules.version, rules.row_bytes = self.container_version, self.soc.row_bytes
        rules.is_1_5_2 = version == "1.5.2"
        return rules


def input_attr(tensor: FileTensor, index: int, rules: Rules) -> TensorAttr:
    """Describe an input that no file has; see `describe`."""
    return _described(tensor, index, rules, is_input=True)


def output_attr(tensor: FileTensor, index: int, rules: Rules) -> TensorAttr:
    """Describe an output that no file has; see `describe`."""
    return _described(tensor, index, rules, is_input=False)


def _described(tensor: FileTensor, index: int, rules: Rules, *, is_input: bool) -> TensorAttr:
    numbers = {dtype: number for number, dtype in ELEMENT_TYPES.items()}
    if not isinstance(tensor.name, str):
        raise TypeError(f"name: expected str, got {tensor.name!r}")
    name = ffi.new("uint8_t[]", tensor.name.encode())
    fields = {
        "name": {"at": name, "length": len(name)},
        "type": numbers.get(tensor.dtype, 0),
        "layout": next(key for key, layout in LAYOUTS.items() if layout is tensor.layout),
        "is_pixel": tensor.is_pixel_input,
        "n_dims": len(tensor.shape),
        "dims": tensor.shape[: lib.RKR_MODEL_MAX_DIMS],
        "n_native": len(tensor.native_shape),
        "native": tensor.native_shape[: lib.RKR_MODEL_MAX_DIMS],
        "n_scales": tensor.scale is not None,
        "scale": tensor.scale or 0.0,
        "n_zero_points": tensor.zero_point is not None,
        "zero_point": tensor.zero_point or 0,
        "reserved_bytes": tensor.reserved_bytes,
        "told_type": 0 if tensor.api_dtype is None else numbers.get(tensor.api_dtype, 0),
    }
    try:
        given = ffi.new("rkr_model_tensor *", fields)
    except OverflowError as error:
        raise ValueError(f"tensor {tensor.name!r}: {error}") from None
    return describe(given, tensor.name, index, rules.for_c(), is_input=is_input)
