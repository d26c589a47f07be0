"""Bundles whose outputs were recorded: they need no executor, so they run anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rknn_runtime.inspect import Preprocessing, ShapeVariant
from rknn_runtime.sim.bundle import Bundle, RawRecord
from rknn_runtime.sim.values import input_values, output_values
from rknn_runtime.tensor import TensorAttr

__all__ = ["Record", "bundle_from_arrays", "raw_record"]


@dataclass(frozen=True)
class Record:
    """Outputs that answer one input, or any."""

    #: One array per output, in the framework's order: float32, or the model's own type.
    outputs: Sequence[np.ndarray[Any, Any]]
    #: One array per input, as `Model.run` takes them: images ``(N, H, W, C) uint8``, others
    #: float32 or the model's own type. None: the outputs answer whatever comes.
    inputs: Sequence[np.ndarray[Any, Any]] | None = None


def bundle_from_arrays(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    records: Sequence[Record],
    *,
    soc: str = "rk3588",
    preprocessing: Sequence[Preprocessing | None] | None = None,
    custom_string: str = "",
) -> bytes:
    """Make a bundle from attributes and recorded arrays.

    Args:
        inputs: The inputs, as `describe_input` or ``rknn_runtime.inspect.read`` gives them.
        outputs: The outputs, likewise.
        records: What answers what; the first that matches does. A run with inputs that
            none has fails.
        soc: The SoC that is imitated, a key of ``rknn_runtime.soc.SOCS``.
        preprocessing: Per input, the mean and std with which the NPU normalizes pixels.
        custom_string: What the model's custom string is.

    Returns:
        The bundle, for ``Model(bundle, library="sim")`` or a file.

    Raises:
        ValueError: Arrays and attributes do not fit each other, or there is no record.
    """
    if not records:
        raise ValueError("a recorded bundle needs at least one record")
    given = (None,) * len(inputs) if preprocessing is None else tuple(preprocessing)
    if len(given) != len(inputs):
        raise ValueError(f"{len(given)} preprocessings for {len(inputs)} inputs")
    variant = ShapeVariant(tuple(inputs), tuple(outputs))
    return bytes(
        Bundle(
            soc=soc,
            variants=(variant,),
            preprocessing=given,
            records=tuple(raw_record(variant, given, record) for record in records),
            custom_string=custom_string,
        )
    )


def raw_record(
    variant: ShapeVariant,
    preprocessing: Sequence[Preprocessing | None],
    record: Record,
    shape: int = 0,
) -> RawRecord:
    """Quantize a record's arrays as the NPU would.

    Raises:
        ValueError: A wrong number of arrays, or one of another shape or dtype.
    """
    if len(record.outputs) != len(variant.outputs):
        raise ValueError(f"{len(record.outputs)} outputs, the model has {len(variant.outputs)}")
    outputs = tuple(map(output_values, variant.outputs, record.outputs))
    if record.inputs is None:
        return RawRecord(outputs, shape=shape)
    if len(record.inputs) != len(variant.inputs):
        raise ValueError(f"{len(record.inputs)} inputs, the model has {len(variant.inputs)}")
    inputs = tuple(map(input_values, variant.inputs, preprocessing, record.inputs))
    return RawRecord(outputs, inputs, shape)
