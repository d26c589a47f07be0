"""Bundles whose outputs were recorded: they need no executor, so they run anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rknn_runtime._arrays import Array, as_list
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.sim.bundle import (
    Bundle,
    RawRecord,
    read_bundle,
)
from rknn_runtime.sim.executor import Graph
from rknn_runtime.sim.values import dequantize, input_values, is_real, output_values
from rknn_runtime.tensor import TensorAttr

__all__ = ["Record", "bundle_from_arrays", "record"]


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

    Raises:
        TypeError: An argument of another type.
        ValueError: Arrays and attributes do not fit each other, their indices are not their
            positions, there is no record, or nobody recorded what the version answers.
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
    return tuple(_with_index(attr, index) for index, attr in enumerate(attrs))


def _with_index(attr: TensorAttr, index: int) -> TensorAttr:
    native, nhwc = (view and replace(view, index=index) for view in (attr.native, attr.nhwc))
    return replace(attr, index=index, native=native, nhwc=nhwc)


def record(bundle: bytes, samples: Sequence[Array | Sequence[Array]]) -> bytes:
    """Replace a bundle's graph by its outputs for some inputs.

    The result needs no onnxruntime, and answers those inputs alone.

    Args:
        bundle: What `bundle_from_onnx` or `bundle_from_rknn` made.
        samples: Inputs, each what `Model.run` takes; an array stands for a tuple of one.

    Returns:
        The recorded bundle.

    Raises:
        InvalidModelError: ``bundle`` is not a bundle, or has no graph.
        ValueError: A sample does not fit the model, or there is none.
    """
    source = read_bundle(bundle)
    if not source.onnx:
        raise InvalidModelError("the bundle has no graph that could be recorded")
    samples = as_list(samples, "samples", "a list of inputs")
    if not samples:
        raise ValueError("samples: expected at least one, got none")
    graph = Graph(source.onnx)
    rows = [(s,) if isinstance(s, np.ndarray) else tuple(s) for s in samples]
    records = tuple(_computed(source, graph, row) for row in rows)
    return bytes(replace(source, records=records, onnx=b""))


def _computed(source: Bundle, graph: Graph, row: Sequence[Array]) -> RawRecord:
    """Compute one record, in the shape that the inputs have."""
    shape = _shape_of(source.variants, row)
    variant = source.variants[shape]
    values = tuple(map(input_values, variant.inputs, source.preprocessing, row))
    reals = {attr.name: dequantize(attr, array) for attr, array in zip(variant.inputs, values)}
    results = graph.run(reals, [attr.name for attr in variant.outputs])
    outputs = [
        result.astype(np.float32) if is_real(attr) else result.astype(attr.stored.dtype.numpy)
        for attr, result in zip(variant.outputs, results)
    ]
    return RawRecord(tuple(map(output_values, variant.outputs, outputs)), values, shape)


def _shape_of(variants: Sequence[ShapeVariant], row: Sequence[Array]) -> int:
    """Find the shape of a dynamic model that a sample has; a wrong one is refused later."""
    for index, variant in enumerate(variants):
        if [attr.shape for attr in variant.inputs] == [array.shape for array in row]:
            return index
    if len(row) != len(variants[0].inputs):
        expected = len(variants[0].inputs)
        raise ValueError(f"samples: expected {expected} arrays in each, got {len(row)}")
    return 0


def _raw_record(
    variant: ShapeVariant, preprocessing: Sequence[Preprocessing | None], record: Record
) -> RawRecord:
    """Quantize a record's arrays as the NPU would.

    Raises:
        ValueError: A wrong number of arrays, or one of another shape or dtype.
    """
    if len(record.outputs) != len(variant.outputs):
        raise ValueError(
            f"record: expected {len(variant.outputs)} outputs, got {len(record.outputs)}"
        )
    outputs = tuple(map(output_values, variant.outputs, record.outputs))
    if record.inputs is None:
        return RawRecord(outputs)
    if len(record.inputs) != len(variant.inputs):
        raise ValueError(f"record: expected {len(variant.inputs)} inputs, got {len(record.inputs)}")
    inputs = tuple(map(input_values, variant.inputs, preprocessing, record.inputs))
    return RawRecord(outputs, inputs)
