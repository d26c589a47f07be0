"""The simulation bundle: the small file that the simulated runtime loads as a model.

``csrc/sim/bundle.c`` documents the format and reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._ffi import lib
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.inspect import Preprocessing, ShapeVariant
from rknn_runtime.soc import MINI_RUNTIME, SOCS
from rknn_runtime.tensor import TensorAttr

__all__ = ["MAGIC", "Bundle", "EmbeddedGraph", "RawRecord", "embedded_graph", "framework_shape"]

MAGIC = b"RKNNSIM1"
HEADER = struct.Struct("<8sQ16s10I2Q1024s")
ATTR = struct.Struct("<2I16I256s2I3i b3x i f 2I B3x I")
ATTR_NAME = 18
TENSOR_TAIL = struct.Struct("<3i2I16f16f")
RECORD = struct.Struct("<2I")
#: Channels whose mean and std may differ.
MAX_CHANNELS = 16


@dataclass(frozen=True)
class RawRecord:
    """Outputs that answer one input: values in the model's types and the framework's order."""

    outputs: tuple[np.ndarray[Any, Any], ...]
    #: None: the outputs answer any input.
    inputs: tuple[np.ndarray[Any, Any], ...] | None = None
    #: Which of a dynamic model's shapes they have.
    shape: int = 0


@dataclass(frozen=True)
class Bundle:
    """What a bundle says about a model; ``bytes(bundle)`` is the file."""

    soc: str
    #: One entry for a static model; else one per shape, biggest first.
    variants: tuple[ShapeVariant, ...]
    #: One per input; None: the NPU takes the values as they are.
    preprocessing: tuple[Preprocessing | None, ...]
    records: tuple[RawRecord, ...] = ()
    #: The ONNX file that computes the outputs; empty when the records or nobody does.
    onnx: bytes = b""
    #: Imitate librknnmrt, else librknnrt; None: what the SoC has.
    mini: bool | None = None
    batch: int = 1
    weight_bytes: int = 0
    internal_bytes: int = 0
    custom_string: str = ""
    _soc: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.soc not in SOCS:
            raise ValueError(f"SoC {self.soc!r} is none of {', '.join(SOCS)}")
        object.__setattr__(self, "_soc", SOCS[self.soc])
        if not self.variants or not self.variants[0].inputs or not self.variants[0].outputs:
            raise ValueError("a model has at least one input and one output")
        if len(self.custom_string.encode()) > 1023:
            raise ValueError("custom_string must have less than 1024 bytes")

    def __bytes__(self) -> bytes:
        """Write the file.

        Raises:
            ValueError: A record does not fit the tensors.
        """
        first = self.variants[0]
        body = [
            self._tensor(attr, position, is_input=position < len(first.inputs))
            for variant in self.variants
            for position, attr in enumerate((*variant.inputs, *variant.outputs))
        ]
        body += [self._record(record) for record in self.records]
        body.append(self.onnx)
        mini = self._soc.runtime == MINI_RUNTIME if self.mini is None else self.mini
        header = HEADER.pack(
            MAGIC,
            HEADER.size + sum(map(len, body)),
            self.soc.encode(),
            0 if mini else 1,
            self._soc.cores,
            self.batch,
            len(first.inputs),
            len(first.outputs),
            len(self.variants),
            len(self.records),
            0 if self.records else 1,
            self.weight_bytes,
            self.internal_bytes,
            self.weight_bytes + self.internal_bytes,
            len(self.onnx),
            self.custom_string.encode(),
        )
        return b"".join([header, *body])

    def _tensor(self, attr: TensorAttr, position: int, is_input: bool) -> bytes:
        # The runtimes refuse this query where the attribute is None.
        parts = [_pack_attr(view or attr) for view in (attr, attr.native, attr.nhwc)]
        statuses = [
            0 if view is not None else lib.RKNN_ERR_PARAM_INVALID
            for view in (attr, attr.native, attr.nhwc)
        ]
        native = attr.native or attr
        pixel = is_input and native.layout is Layout.NHWC and len(native.shape) == 4
        mean, std = self._normalization(attr, position) if is_input else ((), ())
        parts.append(
            TENSOR_TAIL.pack(
                *statuses,
                len(mean),
                int(pixel),
                *(*mean, *(0.0,) * (MAX_CHANNELS - len(mean))),
                *(*std, *(1.0,) * (MAX_CHANNELS - len(std))),
            )
        )
        return b"".join(parts)

    def _normalization(
        self, attr: TensorAttr, position: int
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and std as few numbers as do: none, one, or one per channel."""
        given = self.preprocessing[position]
        if given is None:
            return (), ()
        mean, std = tuple(given.mean), tuple(given.std)
        if set(mean) <= {0.0} and set(std) <= {1.0}:
            return (), ()
        if len(set(mean)) == 1 and len(set(std)) == 1:
            return mean[:1], std[:1]
        shape = framework_shape(attr)
        channels = shape[1] if len(shape) == 4 else 1
        mean, std = (values * channels if len(values) == 1 else values for values in (mean, std))
        if len(mean) != channels or len(std) != channels or channels > MAX_CHANNELS:
            raise ValueError(
                f"input {attr.name!r}: {len(mean)} means and {len(std)} stds "
                f"for {channels} channels (at most {MAX_CHANNELS} may differ)"
            )
        return mean, std

    def _record(self, record: RawRecord) -> bytes:
        if not 0 <= record.shape < len(self.variants):
            raise ValueError(f"a record of shape {record.shape}, there are {len(self.variants)}")
        variant = self.variants[record.shape]
        parts = [RECORD.pack(record.shape, int(record.inputs is None))]
        if record.inputs is not None:
            parts += _values("input", variant.inputs, record.inputs)
        return b"".join(parts + _values("output", variant.outputs, record.outputs))


def framework_shape(attr: TensorAttr) -> tuple[int, ...]:
    """Return a logical attribute's shape in the exporting framework's order (NCHW)."""
    if attr.layout is Layout.NHWC and len(attr.shape) == 4:
        n, h, w, c = attr.shape
        return n, c, h, w
    return attr.shape


def native_dtype(attr: TensorAttr) -> TensorType:
    """Return the type in which the NPU holds a tensor."""
    return (attr.native or attr).dtype


class EmbeddedGraph(NamedTuple):
    """The ONNX file inside a bundle, and the order of the bundle's tensors."""

    onnx: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def embedded_graph(data: bytes) -> EmbeddedGraph | None:
    """Return the graph inside a bundle; None when its outputs are recorded.

    Raises:
        InvalidModelError: ``data`` is no bundle, or not a whole one.
    """
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise InvalidModelError("not a simulation bundle")
    values = HEADER.unpack_from(data)
    total, n_inputs, n_outputs, onnx_bytes = values[1], values[6], values[7], values[14]
    tensor_bytes = 3 * ATTR.size + TENSOR_TAIL.size
    names_end = HEADER.size + (n_inputs + n_outputs) * tensor_bytes
    if total != len(data) or onnx_bytes > len(data) - names_end:
        raise InvalidModelError(f"damaged: a bundle of {total} bytes, here are {len(data)}")
    if not onnx_bytes:
        return None
    names = []
    for at in range(HEADER.size, names_end, tensor_bytes):
        name = ATTR.unpack_from(data, at)[ATTR_NAME]
        names.append(name.rstrip(b"\0").decode("utf-8", "replace"))
    return EmbeddedGraph(
        data[len(data) - onnx_bytes :], tuple(names[:n_inputs]), tuple(names[n_inputs:])
    )


def _pack_attr(attr: TensorAttr) -> bytes:
    name = attr.name.encode()
    if len(name) > 255 or len(attr.shape) > 16:
        raise ValueError(f"tensor {attr.name!r}: at most 255 bytes of name and 16 dimensions")
    return ATTR.pack(
        attr.index,
        len(attr.shape),
        *(*attr.shape, *(0,) * (16 - len(attr.shape))),
        name,
        attr.n_elems,
        attr.size,
        attr.layout,
        attr.dtype,
        attr.qnt_type,
        attr.fl,
        attr.zero_point,
        attr.scale,
        attr.w_stride,
        attr.size_with_stride,
        0,
        attr.h_stride,
    )


def _values(
    kind: str, attrs: Sequence[TensorAttr], arrays: Sequence[np.ndarray[Any, Any]]
) -> list[bytes]:
    if len(arrays) != len(attrs):
        raise ValueError(f"{len(arrays)} {kind}s, the model has {len(attrs)}")
    parts = []
    for attr, array in zip(attrs, arrays):
        dtype = native_dtype(attr).numpy
        if array.dtype != dtype or array.shape != framework_shape(attr):
            raise ValueError(
                f"{kind} {attr.name!r}: expected {dtype} {framework_shape(attr)}, "
                f"got {array.dtype} {array.shape}"
            )
        parts.append(np.ascontiguousarray(array).tobytes())
    return parts
