"""The simulation bundle: the small file that the simulated runtime loads as a model.

``csrc/sim/bundle.c`` documents the format and reads it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import lib
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS, known_version
from rknn_runtime.tensor import TensorAttr

MAGIC = b"RKNNSIM2"
HEADER = struct.Struct("<8sQ16s10I2Q1024s16s")
ATTR = struct.Struct("<2I16I256s2I3i b3x i f 2I B3x I")
TENSOR_TAIL = struct.Struct("<3i2I16f16f")
RECORD = struct.Struct("<2I")
#: Channels whose mean and std may differ.
MAX_CHANNELS = 16


@dataclass(frozen=True)
class RawRecord:
    """Outputs that answer one input: values in the model's types and the framework's order."""

    outputs: tuple[Array, ...]
    #: None: the outputs answer any input.
    inputs: tuple[Array, ...] | None = None
    #: Which of a dynamic model's shapes they have.
    shape: int = 0


@dataclass(frozen=True)
class Bundle:
    """The contents of a bundle; ``bytes(bundle)`` is the file."""

    soc: str
    #: One entry for a static model; else one per shape, biggest first.
    variants: tuple[ShapeVariant, ...]
    #: One per input; None: the NPU takes the values as they are.
    preprocessing: tuple[Preprocessing | None, ...]
    records: tuple[RawRecord, ...] = ()
    #: Imitate librknnmrt, else librknnrt; None: the runtime of the SoC.
    mini: bool | None = None
    #: Version of the imitated runtime; None: the newest known, which takes its place.
    runtime_version: str | None = None
    batch: int = 1
    weight_bytes: int = 0
    internal_bytes: int = 0
    command_bytes: int = 0
    custom_string: str = ""

    def __post_init__(self) -> None:
        if self.soc not in SOCS:
            raise ValueError(f"soc: expected one of {', '.join(SOCS)}, got {self.soc!r}")
        version = known_version(self.runtime, self.runtime_version)
        object.__setattr__(self, "runtime_version", version)
        if not self.variants or not self.variants[0].inputs or not self.variants[0].outputs:
            raise ValueError("variants: expected at least one input and one output, got none")
        if not isinstance(self.custom_string, str):
            kind = type(self.custom_string).__name__
            raise TypeError(f"custom_string: expected a str, got {kind}")
        if len(self.custom_string.encode()) > 1023:
            size = len(self.custom_string.encode())
            raise ValueError(f"custom_string: expected at most 1023 bytes, got {size}")

    @property
    def runtime(self) -> str:
        """The vendor's library that is imitated."""
        if self.mini is None:
            return str(SOCS[self.soc].runtime)
        return MINI_RUNTIME if self.mini else FULL_RUNTIME

    def __bytes__(self) -> bytes:
        """Write the file."""
        first = self.variants[0]
        body = [
            self._tensor(attr, position, is_input=position < len(first.inputs))
            for variant in self.variants
            for position, attr in enumerate((*variant.inputs, *variant.outputs))
        ]
        body += [self._record(record) for record in self.records]
        header = HEADER.pack(
            MAGIC,
            HEADER.size + sum(map(len, body)),
            self.soc.encode(),
            0 if self.runtime == MINI_RUNTIME else 1,
            SOCS[self.soc].cores,
            self.batch,
            len(first.inputs),
            len(first.outputs),
            len(self.variants),
            len(self.records),
            0,
            self.weight_bytes,
            self.internal_bytes,
            self.weight_bytes + self.internal_bytes + self.command_bytes,
            0,
            self.custom_string.encode(),
            str(self.runtime_version).encode(),
        )
        return b"".join([header, *body])

    def _tensor(self, attr: TensorAttr, position: int, is_input: bool) -> bytes:
        # The runtimes refuse this query where the attribute is None.
        parts = [_pack_attr(view or attr) for view in (attr, attr.native, attr.nhwc)]
        statuses = [
            0 if view is not None else lib.RKNN_ERR_PARAM_INVALID
            for view in (attr, attr.native, attr.nhwc)
        ]
        pixel = is_input and attr.stored.is_nhwc
        mean, std = normalization(attr, self.preprocessing[position]) if is_input else ((), ())
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

    def _record(self, record: RawRecord) -> bytes:
        if not 0 <= record.shape < len(self.variants):
            raise ValueError(
                f"record: expected shape 0 to {len(self.variants) - 1}, got {record.shape}"
            )
        variant = self.variants[record.shape]
        parts = [RECORD.pack(record.shape, int(record.inputs is None))]
        if record.inputs is not None:
            parts += _values("input", variant.inputs, record.inputs)
        return b"".join(parts + _values("output", variant.outputs, record.outputs))


def normalization(
    attr: TensorAttr, given: Preprocessing | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of an input as few numbers as do: none, one, or one per channel."""
    if given is None:
        return (), ()
    mean, std = tuple(given.mean), tuple(given.std)
    if 0 in std or not all(map(math.isfinite, mean + std)):
        raise ValueError(
            f"input {attr.name!r}: expected finite numbers, no std of 0, got {mean} and std {std}"
        )
    if set(mean) <= {0.0} and set(std) <= {1.0}:
        return (), ()
    if len(set(mean)) == 1 and len(set(std)) == 1:
        return mean[:1], std[:1]
    shape = attr.nchw_shape
    channels = shape[1] if len(shape) == 4 else 1
    mean, std = (values * channels if len(values) == 1 else values for values in (mean, std))
    if len(mean) != channels or len(std) != channels or channels > MAX_CHANNELS:
        raise ValueError(
            f"input {attr.name!r}: expected a mean and a std for each of {channels} channels "
            f"(at most {MAX_CHANNELS} may differ), got {len(mean)} and {len(std)}"
        )
    return mean, std


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle; the inverse of ``bytes(bundle)``."""
    try:
        return _BundleReader(data).bundle()
    except (ValueError, struct.error) as error:
        raise InvalidModelError(f"not a simulation bundle, or damaged: {error}") from error


class _BundleReader:
    """Reads a bundle from its start to its end; every failure is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def bundle(self) -> Bundle:
        magic, total, soc, full, _cores, batch, n_inputs, n_outputs, n_shapes, n_records, *rest = (
            self.take(HEADER)
        )
        _unread, weights, internal, dma, zero, custom_string, version = rest
        if magic != MAGIC or total != len(self.data):
            raise ValueError(f"it should have {total} bytes, here are {len(self.data)}")
        tensor_bytes = 3 * ATTR.size + TENSOR_TAIL.size
        if n_shapes * (n_inputs + n_outputs) * tensor_bytes > total:
            raise ValueError(f"{n_shapes} shapes of {n_inputs} inputs and {n_outputs} outputs")
        shapes = [[self.tensor() for _ in range(n_inputs + n_outputs)] for _ in range(n_shapes)]
        variants = tuple(
            ShapeVariant(
                tuple(attr for attr, _ in tensors[:n_inputs]),
                tuple(attr for attr, _ in tensors[n_inputs:]),
            )
            for tensors in shapes
        )
        records = tuple(self.record(variants) for _ in range(min(n_records, total)))
        if zero or self.at != total:
            raise ValueError(f"its records end at {self.at} of {total} bytes")
        return Bundle(
            soc=_text(soc),
            variants=variants,
            preprocessing=tuple(given for _, given in shapes[0][:n_inputs]) if shapes else (),
            records=records,
            mini=full == 0,
            runtime_version=_text(version),
            batch=batch,
            weight_bytes=weights,
            internal_bytes=internal,
            command_bytes=dma - weights - internal,
            custom_string=_text(custom_string),
        )

    def tensor(self) -> tuple[TensorAttr, Preprocessing | None]:
        packed = [self.take(ATTR) for _ in range(3)]
        tail = self.take(TENSOR_TAIL)
        statuses, count = tail[:3], tail[3]
        native, nhwc = (
            None if status else _unpack_attr(values)
            for status, values in zip(statuses[1:], packed[1:])
        )
        attr = _unpack_attr(packed[0], native, nhwc)
        if not count:
            return attr, None
        mean, std = tail[5 : 5 + MAX_CHANNELS], tail[5 + MAX_CHANNELS :]
        return attr, Preprocessing(mean[:count], std[:count], rgb2bgr=False)

    def record(self, variants: Sequence[ShapeVariant]) -> RawRecord:
        shape, any_input = self.take(RECORD)
        if shape >= len(variants):
            raise ValueError(f"a record of shape {shape}, there are {len(variants)}")
        variant = variants[shape]
        inputs = None if any_input else tuple(map(self.values, variant.inputs))
        return RawRecord(tuple(map(self.values, variant.outputs)), inputs, shape)

    def values(self, attr: TensorAttr) -> Array:
        shape = attr.nchw_shape
        try:
            dtype = attr.stored.dtype.numpy
        except TypeError as error:  # INT4, BFLOAT16
            raise ValueError(f"the values of {attr.name!r}: {error}") from error
        count = math.prod(shape)
        if count * dtype.itemsize > len(self.data) - self.at:
            raise ValueError(f"the values of {attr.name!r} are cut off")
        array = np.frombuffer(self.data, dtype, count, self.at).reshape(shape)
        self.at += array.nbytes
        return array


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8")


def _unpack_attr(
    values: tuple[Any, ...], native: TensorAttr | None = None, nhwc: TensorAttr | None = None
) -> TensorAttr:
    index, n_dims, *dims = values[:18]
    if n_dims > len(dims):
        raise ValueError(f"{n_dims} dimensions")
    name, n_elems, size, layout, dtype, qnt_type, fl, zero_point, scale = values[18:27]
    w_stride, size_with_stride, _pass_through, h_stride = values[27:]
    return TensorAttr(
        index=index,
        name=_text(name),
        shape=tuple(dims[:n_dims]),
        layout=Layout(layout),
        dtype=TensorType(dtype),
        qnt_type=QuantType(qnt_type),
        zero_point=zero_point,
        scale=scale,
        fl=fl,
        n_elems=n_elems,
        size=size,
        size_with_stride=size_with_stride,
        w_stride=w_stride,
        h_stride=h_stride,
        native=native,
        nhwc=nhwc,
    )


def _pack_attr(attr: TensorAttr) -> bytes:
    name = attr.name.encode()
    if len(name) > 255 or len(attr.shape) > 16:
        raise ValueError(
            f"tensor {attr.name!r}: expected at most 255 bytes of name and 16 dimensions, got "
            f"{len(name)} and {len(attr.shape)}"
        )
    try:
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
    except (struct.error, OverflowError) as error:
        raise ValueError(
            f"tensor {attr.name!r}: expected numbers as a runtime's attribute holds them, got one "
            f"that it does not: {error}"
        ) from None


def _values(kind: str, attrs: Sequence[TensorAttr], arrays: Sequence[Array]) -> list[bytes]:
    if len(arrays) != len(attrs):
        raise ValueError(f"{kind}s: expected {len(attrs)}, got {len(arrays)}")
    parts = []
    for attr, array in zip(attrs, arrays):
        dtype = attr.stored.dtype.numpy
        if array.dtype != dtype or array.shape != attr.nchw_shape:
            raise ValueError(
                f"{kind} {attr.name!r}: expected {dtype} {attr.nchw_shape}, "
                f"got {array.dtype} {array.shape}"
            )
        parts.append(np.ascontiguousarray(array).tobytes())
    return parts
