"""The simulation bundle: the small file that the simulated runtime loads as a model.

``csrc/sim/bundle.c`` documents the format and reads it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import lib
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS, known_version, soc_named
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
        object.__setattr__(self, "soc", soc_named(self.soc, "soc").name)
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
        views = (attr, attr.native, attr.nhwc)
        parts = [_pack_attr(view or attr) for view in views]
        statuses = [0 if view is not None else lib.RKNN_ERR_PARAM_INVALID for view in views]
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


def bundle_facts(data: bytes) -> tuple[str, tuple[Preprocessing | None, ...]]:
    """Return the SoC of a bundle and what its inputs are normalized with; C checks the rest."""
    try:
        _, _, soc, _, _, _, inputs, *_ = HEADER.unpack_from(data)
        name = soc.partition(b"\0")[0].decode()
        if name not in SOCS:
            raise ValueError(f"its SoC is {name!r}")
        return name, tuple(_preprocessing(data, index) for index in range(inputs))
    except (ValueError, struct.error) as error:
        raise InvalidModelError(f"not a simulation bundle, or damaged: {error}") from error


def _preprocessing(data: bytes, index: int) -> Preprocessing | None:
    before = 3 * ATTR.size
    at = HEADER.size + before + index * (before + TENSOR_TAIL.size)
    _, _, _, count, _, *numbers = TENSOR_TAIL.unpack_from(data, at)
    mean, std = numbers[:MAX_CHANNELS], numbers[MAX_CHANNELS:]
    return Preprocessing(tuple(mean[:count]), tuple(std[:count]), rgb2bgr=False) if count else None


#: Of a TensorAttr, in the order of the vendor's struct.
_FIELDS = "n_elems size layout dtype qnt_type fl zero_point scale w_stride size_with_stride"


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
            *(getattr(attr, field) for field in _FIELDS.split()),
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
