"""A stand-in for PyTorch in the toolkit's environment, which saves gigabytes.

rknn-toolkit2 always imports PyTorch. For an ONNX file it only splits and joins index numbers. Any
other use raises an error that says how to get PyTorch.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy

#: A version that the toolkit accepts.
__version__ = "2.4.0"


class Tensor:
    """An array with the few methods that the toolkit uses."""

    def __init__(self, values: Any) -> None:
        self._values = numpy.asarray(values)

    def __getattr__(self, name: str) -> NoReturn:
        _missing(f"Tensor.{name}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.asarray(self._values, dtype)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self._values[key])

    def __len__(self) -> int:
        return len(self._values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes."""
        sizes: tuple[int, ...] = self._values.shape
        return sizes

    def reshape(self, *shape: Any) -> Tensor:
        """Return the numbers in another shape."""
        return Tensor(self._values.reshape(*shape))

    view = reshape

    def flatten(self) -> Tensor:
        """Return the numbers in one dimension."""
        return Tensor(self._values.ravel())

    def numpy(self) -> Any:
        """Return the numbers as an array."""
        return self._values

    def tolist(self) -> Any:
        """Return the numbers as a list."""
        return self._values.tolist()


class no_grad:
    """A context manager and decorator that does nothing."""

    def __call__(self, function: Any) -> Any:
        """Return the function."""
        return function

    def __enter__(self) -> no_grad:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def arange(*limits: int) -> Tensor:
    """Return consecutive integers."""
    return Tensor(numpy.arange(*limits, dtype=numpy.int64))


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> Any:
    """Split along a dimension, into parts of one size or of given sizes."""
    values, sizes = numpy.asarray(tensor), split_size_or_sections
    ends: Any = (
        range(sizes, values.shape[dim], sizes)
        if isinstance(sizes, int)
        else numpy.cumsum(sizes)[:-1]
    )
    return tuple(map(Tensor, numpy.split(values, ends, dim)))


def cat(tensors: Iterable[Any], dim: int = 0) -> Tensor:
    """Join along a dimension."""
    return Tensor(numpy.concatenate([numpy.asarray(each) for each in tensors], dim))


concat = cat


def _missing(name: str) -> NoReturn:
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(
        f"torch.{name}: the toolkit's environment has only a stand-in for PyTorch; ask for the "
        "real one: --with-torch, or with_torch=True"
    )


def _module(name: str, **names: Any) -> types.ModuleType:
    module = types.ModuleType(f"torch.{name}")
    module.__path__ = []
    vars(module).update(names, __getattr__=lambda attr: _missing(f"{name}.{attr}"))
    sys.modules[module.__name__] = module
    return module


def __getattr__(name: str) -> NoReturn:
    _missing(name)


functional = _module("nn.functional")
nn = _module("nn", Module=object, functional=functional)
