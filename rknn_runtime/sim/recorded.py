"""Bundles of recorded outputs: they run anywhere, without the model.

Records are compared bit by bit, so inputs and outputs are converted here exactly as ``csrc/sim``
does it, in float32: ``(value - mean) / std``, then ``rint(real / scale) + zero_point``, clamped to
the type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, as_list
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.bundle import Bundle, RawRecord, normalization
from rknn_runtime.tensor import TensorAttr


@dataclass(frozen=True)
class Record:
    """Outputs that answer one input, or any."""

    #: One array per output, in the framework's order: float32, or the model's own type.
    outputs: Sequence[Array]
    #: One array per input, as `Model.run` takes them, in the attributes' shapes: images
    #: uint8, others float32 or the model's own type. None: the outputs answer whatever comes.
    inputs: Sequence[Array] | None = None


def bundle_from_arrays(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    records: Sequence[Record],
    *,
    soc: str = "rk3588",
    preprocessing: Sequence[Preprocessing | None] | None = None,
    custom_string: str = "",
    runtime_version: str | None = None,
) -> bytes:
    """Make a bundle from attributes and recorded arrays.

    Args:
        inputs: The inputs, as `describe_input` or ``rknn_runtime.modelfile.read`` gives them.
            Where all have the index 0, they are numbered in this order; outputs likewise.
        outputs: The outputs, likewise.
        records: What answers what; the first that matches does. A run with inputs that
            none has fails.
        soc: The SoC that is imitated, a key of ``rknn_runtime.modelfile.soc.SOCS``.
        preprocessing: Per input, the mean and std with which the NPU normalizes pixels.
        custom_string: What the model's custom string is.
        runtime_version: Version of the SoC's runtime that is imitated, as in
            ``rknn_runtime.modelfile.read``: the one that ``inputs`` and ``outputs`` were
            described for. None: the newest known.

    Returns:
        The bundle, for ``Model(bundle, library="sim")`` or a file.
    """
    records = as_list(records, "records", "a list of Records")
    if not records:
        raise ValueError("records: expected at least one, got none")
    for entry in records:
        if not isinstance(entry, Record):
            raise TypeError(f"records: expected Records, got {type(entry).__name__}")
    inputs, outputs = _numbered("inputs", inputs), _numbered("outputs", outputs)
    given = (None,) * len(inputs) if preprocessing is None else tuple(preprocessing)
    if len(given) != len(inputs):
        raise ValueError(f"preprocessing: expected one per input ({len(inputs)}), got {len(given)}")
    variant = ShapeVariant(inputs, outputs)
    return bytes(
        Bundle(
            soc=soc,
            variants=(variant,),
            preprocessing=given,
            records=tuple(_raw_record(variant, given, record) for record in records),
            custom_string=custom_string,
            runtime_version=runtime_version,
        )
    )


def _numbered(kind: str, attrs: Sequence[TensorAttr]) -> tuple[TensorAttr, ...]:
    """Give attributes without an index, where it is 0 in all, their positions."""
    attrs = as_list(attrs, kind, "a list of TensorAttrs")
    for attr in attrs:
        if not isinstance(attr, TensorAttr):
            raise TypeError(f"{kind}: expected TensorAttrs, got {type(attr).__name__}")
    indices = [attr.index for attr in attrs]
    if indices == list(range(len(attrs))):
        return tuple(attrs)
    if any(indices):
        raise ValueError(
            f"{kind}: expected the indices 0 to {len(attrs) - 1} in this order, or 0 in all to "
            f"have them numbered, got {indices}"
        )
    numbered = []
    for index, attr in enumerate(attrs):
        native, nhwc = (view and replace(view, index=index) for view in (attr.native, attr.nhwc))
        numbered.append(replace(attr, index=index, native=native, nhwc=nhwc))
    return tuple(numbered)


def record(
    model: str | os.PathLike[str] | bytes,
    samples: Sequence[Array | Sequence[Array]],
    *,
    any_input: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> bytes:
    """Run a model on the simulated NPU and make a bundle of its outputs.

    Args:
        model: What ``Model(..., library="sim")`` takes, with one input shape.
        samples: Inputs, each what `Model.run` takes; an array stands for a tuple of one.
        any_input: Record the first sample alone, as the answer to every input.
        progress: Called after each sample with the number of samples done and of all.

    Returns:
        The bundle, which needs neither the model nor the emulator.

    Raises:
        RknnError: The model does not run.
    """
    samples = as_list(samples, "samples", "a list of inputs")
    if not samples:
        raise ValueError("samples: expected at least one, got none")
    if any_input:
        samples = samples[:1]
    with Model(model, library="sim") as loaded:
        records = []
        for done, sample in enumerate(samples, 1):
            row = [sample] if isinstance(sample, np.ndarray) else list(sample)
            records.append(Record(loaded(*row), None if any_input else row))
            if progress is not None:
                progress(done, len(samples))
        return bundle_from_arrays(
            loaded.inputs,
            loaded.outputs,
            records,
            soc=loaded._soc,
            preprocessing=loaded._preprocessing,
            custom_string=loaded.custom_string,
        )


def _raw_record(
    variant: ShapeVariant, preprocessing: Sequence[Preprocessing | None], record: Record
) -> RawRecord:
    """Quantize a record's arrays as the NPU would."""
    if len(record.outputs) != len(variant.outputs):
        raise ValueError(
            f"record: expected {len(variant.outputs)} outputs, got {len(record.outputs)}"
        )
    outputs = tuple(map(_output_values, variant.outputs, record.outputs))
    if record.inputs is None:
        return RawRecord(outputs)
    if len(record.inputs) != len(variant.inputs):
        raise ValueError(f"record: expected {len(variant.inputs)} inputs, got {len(record.inputs)}")
    inputs = tuple(map(input_values, variant.inputs, preprocessing, record.inputs))
    return RawRecord(outputs, inputs)


def _is_real(attr: TensorAttr) -> bool:
    """Whether the graph sees the tensor as float32: floating point and quantized types."""
    return attr.stored.dtype <= TensorType.UINT16


def real_input(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Convert an array for `Model.run` to the numbers that the graph sees, not yet quantized.

    Images are uint8, others float32, or int32, int64 or bool as the model has them. The result is
    in the framework's order (NCHW for rank 4).
    """
    dtype = attr.stored.dtype.numpy
    if attr.takes_pixels:
        dtype = np.dtype(np.uint8)
    elif _is_real(attr):
        dtype = np.dtype(np.float32)
    values = _framework_order(attr, array, dtype)
    if not (attr.takes_pixels or _is_real(attr)):
        return values
    real = values.astype(np.float32)
    given = normalization(attr, preprocessing)
    if not given[0]:
        return real
    mean, std = (
        np.asarray(numbers, np.float32).reshape((-1, 1, 1) if len(numbers) > 1 else ())
        for numbers in given
    )
    return (real - mean) / std


def input_values(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Do as `real_input`, and quantize; an array of the model's own type that is no image stays."""
    dtype = attr.stored.dtype.numpy
    if not attr.takes_pixels and array.dtype == dtype:
        return _framework_order(attr, array, dtype)
    return _quantize(attr, real_input(attr, preprocessing, array))


def _framework_order(attr: TensorAttr, array: Array, dtype: np.dtype[Any]) -> Array:
    if (array.dtype, array.shape) != (dtype, attr.shape):
        raise ValueError(
            f"input {attr.name!r}: expected {dtype} {attr.shape}, got {array.dtype} {array.shape}"
        )
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2) if attr.is_nhwc else array)


def _output_values(attr: TensorAttr, array: Array) -> Array:
    """Quantize float32 outputs; an array of the model's own type is returned unchanged."""
    if array.dtype == attr.stored.dtype.numpy:
        return array
    if array.dtype != np.float32:
        raise ValueError(
            f"output {attr.name!r}: expected {attr.stored.dtype.numpy} or float32, "
            f"got {array.dtype}"
        )
    return _quantize(attr, array)


def _quantize(attr: TensorAttr, real: Array) -> Array:
    dtype = attr.stored.dtype.numpy
    if dtype.kind == "f":
        return real.astype(dtype)
    limits = np.iinfo(dtype)
    zero_point, scale = attr.affine or (0, 1.0)
    q = np.rint(real / np.float32(scale)).astype(np.float64) + zero_point
    return np.clip(q, limits.min, limits.max).astype(dtype)
