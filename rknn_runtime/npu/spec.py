"""A caller's description of inputs and outputs that differ from the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsIndex, TypeVar, Union

from rknn_runtime._arrays import as_list, exact_int
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.tensor import TensorAttr

_S = TypeVar("_S", "InputSpec", "OutputSpec")
#: How an input or output is named: by its position, or by its name.
Key = Union[SupportsIndex, str]

#: Elements that are numbers in the unit of the input, or normalised ones.
_NUMBERS = (TensorType.UINT8, TensorType.FLOAT16, TensorType.FLOAT32)
_FLOATS = _NUMBERS[1:]


@dataclass(frozen=True)
class InputSpec:
    """Describe the arrays of one input.

    The values of an array are one of three things:

    - numbers in the unit of the input, such as pixels from 0 to 255: they are normalised with the
      mean and std of the conversion, and quantized. That is the default, for every dtype.
    - ``normalized``: mean and std were applied already; they are quantized only.
    - ``pass_through``: the model's own elements, normalised and quantized; they are not changed.

    Raises:
        ValueError: Fields that contradict each other.
    """

    #: UINT8, FLOAT16 or FLOAT32; of ``pass_through`` the model's own. None: what `Model.run`
    #: takes without a spec; with ``normalized`` FLOAT32.
    dtype: TensorType | None = None
    #: NHWC or NCHW, of an input of rank 4; with ``pass_through`` also NC1HWC2: the shape of
    #: ``model.inputs[i].native``. None: as ``model.inputs[i].layout`` says.
    layout: Layout | None = None
    normalized: bool = False
    pass_through: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_choices(self.dtype, self.layout)
        for name in ("normalized", "pass_through"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}: expected a bool, got {getattr(self, name)!r}")
        if self.normalized and self.pass_through:
            raise ValueError(
                "normalized and pass_through: expected at most one, got both: elements that pass "
                "through are normalised and quantized already"
            )
        if self.normalized and self.dtype not in (None, *_FLOATS):
            raise ValueError(f"dtype: expected a float where normalized, got {self.dtype!r}")
        if not self.pass_through and self.dtype not in (None, *_NUMBERS):
            raise ValueError(
                f"dtype: expected UINT8, FLOAT16 or FLOAT32, got {self.dtype!r}: the model's own "
                "elements need pass_through=True"
            )
        if self.layout is Layout.NC1HWC2 and not self.pass_through:
            raise ValueError("layout: expected NHWC or NCHW, got NC1HWC2 without pass_through")


@dataclass(frozen=True)
class OutputSpec:
    """Describe how the runtime writes one output of a `Model`.

    The default is the NPU's own layout and elements, without conversion. The runtimes convert on
    the CPU or with extra work of the NPU. They support different conversions:

    ===================  =============================  =========================
    .                    librknnrt                      librknnmrt
    ===================  =============================  =========================
    NCHW or NHWC         every output                   outputs of rank 4
    NCHW, FLOAT32        every output                   outputs of rank 4
    NHWC, FLOAT32        every output                   none
    ===================  =============================  =========================

    Raises:
        ValueError: A layout that is neither NCHW nor NHWC.
    """

    #: NCHW or NHWC; None: NCHW where a dtype is given, else the NPU's own.
    layout: Layout | None = None
    #: FLOAT32, dequantized, or the model's own. None: the model's own.
    dtype: TensorType | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_choices(self.dtype, self.layout)
        if self.layout not in (None, Layout.NCHW, Layout.NHWC):
            raise ValueError(f"layout: expected NCHW, NHWC or None, got {self.layout!r}")


#: One per input in order, or by name or position. None or a missing key means the default.
InputSpecs = Union[
    Sequence[Union[InputSpec, None]], Mapping[str, InputSpec], Mapping[int, InputSpec], None
]
OutputSpecs = Union[
    Sequence[Union[OutputSpec, None]], Mapping[str, OutputSpec], Mapping[int, OutputSpec], None
]


def _check_choices(dtype: object, layout: object) -> None:
    if dtype is not None and not isinstance(dtype, TensorType):
        raise TypeError(f"dtype: expected a TensorType or None, got {dtype!r}")
    if layout is not None and not isinstance(layout, Layout):
        raise TypeError(f"layout: expected a Layout or None, got {layout!r}")


def per_tensor(
    given: Sequence[_S | None] | Mapping[str, _S] | Mapping[int, _S] | None,
    attrs: Sequence[TensorAttr],
    kind: type[_S],
    name: str,
) -> list[_S | None]:
    """Put specs into the order of the tensors."""
    specs: list[_S | None] = [None] * len(attrs)
    if given is None:
        return specs
    if isinstance(given, Mapping):
        names = {attr.name: i for i, attr in enumerate(attrs)}
        for key, spec in given.items():
            position = names.get(key) if isinstance(key, str) else key
            if type(position) is not int or not 0 <= position < len(attrs):
                raise ValueError(
                    f"{name}: expected names or positions of {list(names)}, got {key!r}"
                )
            specs[position] = spec
    elif isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        if len(given) != len(attrs):
            raise ValueError(
                f"{name}: expected {len(attrs)} of {kind.__name__} or None, got {len(given)}"
            )
        specs = list(given)
    else:
        raise TypeError(
            f"{name}: expected a list or a dict of {kind.__name__}, got {type(given).__name__}"
        )
    for attr, found in zip(attrs, specs):
        if found is not None and not isinstance(found, kind):
            raise TypeError(f"{name}: expected {kind.__name__} for {attr.name!r}, got {found!r}")
    return specs


def position(attrs: Sequence[TensorAttr], key: Key, what: str) -> int:
    """Find a tensor by position or name."""
    if isinstance(key, str):
        for i, attr in enumerate(attrs):
            if attr.name == key:
                return i
        names = ", ".join(repr(attr.name) for attr in attrs)
        raise ValueError(f"{what}: expected {names}, got {key!r}")
    found = exact_int(key, what, "a position or a name")
    if not 0 <= found < len(attrs):
        raise IndexError(f"{what}: expected a position from 0 to {len(attrs) - 1}, got {found}")
    return found


def positions(attrs: Sequence[TensorAttr], only: Sequence[Key]) -> list[int]:
    """Find the outputs that a caller wants."""
    return [position(attrs, key, "output") for key in as_list(only, "only", "a list of outputs")]
