"""Check the arguments of `RKNNLite`: inputs, targets, cores; and list the SoCs that share models.

The behaviour of the vendor's package was measured on its version 2.5.0. Scripts for its full
toolkit show that it accepts more: images without a batch dimension, and layouts in capitals.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.enums import CoreMask, Layout
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import ModelHeader, read_header
from rknn_runtime.modelfile.soc import SOCS, find_soc
from rknn_runtime.tensor import TensorAttr

#: Raises or logs a message about input that is probably wrong.
Complain = Callable[[str], None]

_FORMATS = ("nhwc", "nchw")
#: The dtypes that the vendor's package passes to the runtime; values of ``data_type``.
_DTYPES = (
    "bool", "float16", "float32", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint8",
)  # fmt: skip
_NHWC_OF_NCHW = (0, 2, 3, 1)


def input_arrays(
    inputs: object,
    attrs: Sequence[TensorAttr],
    data_type: object,
    data_format: object,
    complain: Complain,
) -> list[Array]:
    """Check the inputs of an inference and bring them into the layout of the model.

    The arrays are C-contiguous: the caller's if they were contiguous, otherwise copies.
    """
    arrays = _listed(inputs, attrs, complain)
    types = _per_input("data_type", data_type, len(arrays), _DTYPES)
    formats = _per_input("data_format", data_format, len(arrays), _FORMATS)
    return [_prepared(i, *each) for i, each in enumerate(zip(arrays, attrs, types, formats))]


def pass_through_flags(flags: object, count: int) -> list[bool]:
    """Check ``inputs_pass_through``."""
    if flags is None:
        return [False] * count
    if not isinstance(flags, (list, tuple)):
        kind = type(flags).__name__
        raise TypeError(f"inputs_pass_through: expected a list of 0 and 1, got {kind}")
    if len(flags) != count:
        raise ValueError(
            f"inputs_pass_through: expected one entry for each of {count} inputs, got {len(flags)}"
        )
    for flag in flags:
        if not isinstance(flag, (int, np.integer)):
            kind = type(flag).__name__
            raise TypeError(f"inputs_pass_through: expected a list of 0 and 1, got {kind} in it")
        if flag not in (0, 1):
            raise ValueError(f"inputs_pass_through: expected 0 or 1, got {flag}")
    return [bool(flag) for flag in flags]


def _listed(inputs: object, attrs: Sequence[TensorAttr], complain: Complain) -> Sequence[Array]:
    if isinstance(inputs, np.ndarray):
        complain("inputs: expected a list of arrays, got an array; taking it for the one input")
        inputs = [inputs]
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"inputs: expected a list of arrays, got {type(inputs).__name__}")
    if len(inputs) != len(attrs):
        names = ", ".join(f"{attr.name} {attr.shape}" for attr in attrs)
        raise ValueError(f"inputs: expected {len(attrs)} ({names}), got {len(inputs)}")
    for i, array in enumerate(inputs):
        if not isinstance(array, np.ndarray):
            kind = type(array).__name__
            raise TypeError(f"inputs[{i}]: expected a numpy.ndarray, got {kind}")
    return inputs


def _per_input(name: str, given: object, count: int, known: Sequence[str]) -> list[str | None]:
    if given is None:
        return [None] * count
    listed = given if isinstance(given, list) else [given] * count
    if len(listed) != count:
        raise ValueError(
            f"{name}: expected one entry for each of {count} inputs, got {len(listed)}"
        )
    names: list[str | None] = []
    for each in listed:
        if not isinstance(each, str) or each.lower() not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, got {each!r}")
        names.append(each.lower())
    return names


def _prepared(
    index: int,
    array: Array,
    attr: TensorAttr,
    data_type: str | None,
    data_format: str | None,
) -> Array:
    name = f"inputs[{index}]"
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        raise TypeError(
            f"{name}: expected a dtype of {', '.join(_DTYPES)}, got {array.dtype}; convert it, as "
            "with array.astype(numpy.float32)"
        )
    if data_type is not None and data_type != array.dtype.name:
        raise TypeError(f"{name}: expected {data_type} as data_type says, got {array.dtype}")
    if array.ndim == len(attr.shape) - 1 and attr.shape[0] == 1:
        array = array[np.newaxis]
    if array.ndim != len(attr.shape):
        raise ValueError(
            f"{name}: expected {len(attr.shape)} dimensions as in {attr.shape}, got {array.shape}"
        )
    if data_format == "nchw" and attr.layout is Layout.NHWC:
        array = array.transpose(_NHWC_OF_NCHW)
    array = np.ascontiguousarray(array)
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def fitted(name: str, array: Array, shape: tuple[int, ...], complain: Complain) -> Array:
    """View a C-contiguous array in the model's shape.

    As the runtimes do with another shape, take the elements in their order, after a complaint.
    """
    if array.shape == shape:
        return array
    needed = math.prod(shape)
    text = f"{name}: expected shape {shape}, got {array.shape}"
    if array.size < needed:
        raise ValueError(text)
    what = "all elements" if array.size == needed else f"the first {needed} elements"
    complain(f"{text}; taking {what} in their order, as the vendor's runtime does")
    return array.reshape(-1)[:needed].reshape(shape)


_LINE = "*" * 50
#: The cores that a SoC with two takes instead of missing ones, as in the vendor's package.
_OF_TWO = {
    CoreMask.CORE_2: CoreMask.CORE_0,
    CoreMask.CORE_0_1_2: CoreMask.CORE_0_1,
    CoreMask.ALL: CoreMask.CORE_0_1,
}
_MASKS = (
    CoreMask.AUTO, CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2, CoreMask.CORE_0_1,
    CoreMask.CORE_0_1_2, CoreMask.ALL,
)  # fmt: skip
_OF_THREE = {CoreMask.ALL: CoreMask.CORE_0_1_2}


def _sharing(npu: str) -> list[str]:
    """Return the SoCs that run the same models."""
    return [soc.name.upper() for soc in SOCS.values() if soc.npu == npu]


def header_of(path: str) -> ModelHeader | None:
    """Read the header of a model; None if only the simulated NPU reads the file."""
    try:
        return read_header(path)
    except InvalidModelError:
        return None


def refuse_other_target(target: object, header: ModelHeader | None) -> None:
    """Check that ``target`` is None or a SoC that runs the model."""
    if target is None:
        return
    if not isinstance(target, str):
        raise TypeError(f"target: expected a SoC's name or None, got {type(target).__name__}")
    soc = find_soc(target)
    if soc is None:
        raise ValueError(f"target: expected one of {', '.join(SOCS)}, got {target!r}")
    if header is not None and header.npu != soc.npu:
        raise ValueError(
            f"target: expected None or {header.soc!r}, which the model was converted for, got "
            f"{target!r}"
        )


def chosen_cores(
    core_mask: object, header: ModelHeader | None, warn: Callable[[str], object]
) -> CoreMask | None:
    """Return the cores for the runtime; None leaves the choice to it.

    Without a header an RK3588 is assumed.
    """
    if not isinstance(core_mask, (int, np.integer)) or core_mask not in _MASKS:
        numbers = ", ".join(str(int(mask)) for mask in _MASKS)
        raise ValueError(f"core_mask: expected one of {numbers}, got {core_mask!r}")
    mask = CoreMask(int(core_mask))
    if not mask:
        return None
    soc = None if header is None else find_soc(header.soc)
    cores = 3 if soc is None else soc.cores
    if cores == 1:
        raise ValueError(
            f"core_mask: expected NPU_CORE_AUTO, as {header.soc if header else 'it'} has one "
            f"core, got {int(mask)}"
        )
    taken = (_OF_TWO if cores == 2 else _OF_THREE).get(mask, mask)
    if taken != mask and mask is not CoreMask.ALL:
        warn(f"core_mask: the NPU has two cores; taking {taken!r} for {mask!r}")
    return taken


def platforms_of(model: object) -> dict[str, list[str]] | None:
    """Print which SoCs run a model, and return them; without a model print all SoCs."""
    if model is None:
        print(_LINE, "All supported target platforms:", sep="\n")
        for number, npu in enumerate(dict.fromkeys(soc.npu for soc in SOCS.values()), 1):
            print(f"chip family {number}: {','.join(_sharing(npu))}")
        print(_LINE)
        return None
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"rknn_model: expected a path, got {type(model).__name__}")
    header = read_header(model)
    filled, supported = [header.soc], _sharing(header.npu) or [header.soc.upper()]
    print(_LINE)
    print(f"Target platforms filled in RKNN model:         {filled}")
    print(f"Target platforms supported by this RKNN model: {supported}")
    print(_LINE)
    return {"filled_target_platform": filled, "support_target_platform": supported}
