"""Bundles that compute: from an ONNX file alone, or from a ``.rknn`` and its ONNX file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Union

import numpy as np

from rknn_runtime._arrays import Array, as_list
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import ModelInfo, Preprocessing, ShapeVariant
from rknn_runtime.modelfile.reader import read
from rknn_runtime.modelfile.soc import SOCS, known_version
from rknn_runtime.quantization.calibration import Algorithm, Calibration, Calibrator
from rknn_runtime.sim.bundle import Bundle
from rknn_runtime.sim.derive import describe_input, describe_output
from rknn_runtime.sim.executor import Graph, read_onnx
from rknn_runtime.sim.onnx_file import GraphTensor
from rknn_runtime.sim.values import real_input
from rknn_runtime.tensor import TensorAttr

__all__ = ["bundle_from_onnx", "bundle_from_rknn", "bundle_of"]

Sample = Union[Array, Sequence[Array]]


def bundle_from_rknn(
    model: str | os.PathLike[str] | bytes,
    onnx: str | os.PathLike[str] | bytes | None,
    *,
    runtime_version: str | None = None,
) -> bytes:
    """Make a bundle that looks like a ``.rknn`` file and computes as the ONNX file it came from.

    Everything the runtime answers about the tensors comes from the ``.rknn`` file, the
    numbers from the ONNX file.

    Args:
        model: The ``.rknn`` file: path or bytes.
        onnx: The ONNX file: path or bytes. None: the bundle answers every query, but
            cannot be run.
        runtime_version: Version of the vendor's runtime that is imitated, as in
            ``rknn_runtime.modelfile.read``; None: the newest known.

    Returns:
        The bundle, for ``Model(bundle, library="sim")`` or a file.

    Raises:
        InvalidModelError: One of the files cannot be read, or they are not the same model:
            names and shapes of the tensors differ.
        ImportError: onnxruntime is not installed.
        OSError: A file cannot be opened.
        TypeError: ``runtime_version`` is no str.
        ValueError: Nobody recorded what this version answers.
    """
    graph = None if onnx is None else Graph(_bytes_of(onnx))
    return bundle_of(read(model, runtime_version=runtime_version), graph)


def bundle_of(info: ModelInfo, graph: Graph | None) -> bytes:
    """Make the bundle of a ``.rknn`` file that was read; see `bundle_from_rknn`.

    Raises:
        InvalidModelError: The two are not the same model, or what the file says of itself
            contradicts itself.
    """
    variants = info.variants or (ShapeVariant(info.inputs, info.outputs),)
    if graph is not None:
        for variant in variants:
            _check_same(graph.inputs, variant.inputs, info.batch, "inputs")
            _check_same(graph.outputs, variant.outputs, info.batch, "outputs")
    try:
        return bytes(
            Bundle(
                soc=info.soc,
                variants=variants,
                preprocessing=info.preprocessing,
                onnx=b"" if graph is None else graph.onnx,
                mini=info.container == "mini",
                runtime_version=info.runtime_version,
                batch=info.batch,
                weight_bytes=info.weight_bytes,
                internal_bytes=info.internal_bytes,
                command_bytes=info.command_bytes,
                custom_string=info.custom_string,
            )
        )
    except (ValueError, struct.error) as error:
        raise InvalidModelError(f"the .rknn file cannot be simulated: {error}") from error


def bundle_from_onnx(
    onnx: str | os.PathLike[str] | bytes | Graph,
    *,
    soc: str = "rk3588",
    samples: Sequence[Sample] = (),
    dtype: TensorType | None = None,
    mean_values: Sequence[Sequence[float]] | None = None,
    std_values: Sequence[Sequence[float]] | None = None,
    custom_string: str = "",
    runtime_version: str | None = None,
    algorithm: Algorithm = "normal",
    ranges: Mapping[str, Calibration] | None = None,
) -> bytes:
    """Make a bundle from an ONNX file alone, as if the toolkit had converted it.

    Args:
        onnx: The ONNX file: path, bytes, or loaded.
        soc: The SoC that is imitated, a key of ``rknn_runtime.modelfile.soc.SOCS``.
        samples: Inputs on which the ranges for quantization are measured, each what
            `Model.run` takes: images ``(N, H, W, C) uint8``, others float32, with more
            than 4 channels in NHWC as well. An array stands for a tuple of one.
        dtype: Type of the tensors that are float in the ONNX file: INT8, INT16 (both need
            samples) or FLOAT16. None: INT8 with samples, FLOAT16 without.
        mean_values: Per input, as in the toolkit's ``config``: the mean of each channel in
            units of the input. None: 0.
        std_values: Likewise, the value to divide by. None: 1.
        custom_string: What the model's custom string is.
        runtime_version: Version of the SoC's runtime that is imitated, as in
            ``rknn_runtime.modelfile.read``; None: the newest known.
        algorithm: How the range of a tensor is found, see `rknn_runtime.quantization.calibrate`.
        ranges: Of tensors by name, from calibrations of your own; they go before.

    Returns:
        The bundle, for ``Model(bundle, library="sim")`` or a file.

    Raises:
        InvalidModelError: onnxruntime cannot load the file, or an input's shape is open
            and no sample says what it is.
        ImportError: onnxruntime is not installed.
        TypeError: An argument of another type.
        ValueError: An argument does not fit the model, the SoC cannot do the type, or nobody
            recorded what the version answers.
        OSError: The file cannot be opened.
    """
    if soc not in SOCS:
        raise ValueError(f"soc: expected one of {', '.join(SOCS)}, got {soc!r}")
    version = known_version(SOCS[soc].runtime, runtime_version)
    samples = as_list(samples, "samples", "a sequence of arrays")
    if dtype is None:
        dtype = TensorType.INT8 if samples else TensorType.FLOAT16
    if not isinstance(dtype, TensorType):
        raise TypeError(f"dtype: expected a TensorType, got {type(dtype).__name__}")
    if dtype not in (TensorType.INT8, TensorType.INT16, TensorType.FLOAT16):
        raise ValueError(f"dtype: expected INT8, INT16 or FLOAT16, got {dtype.name}")
    if dtype is not TensorType.FLOAT16 and not samples:
        raise ValueError(f"samples: expected some, as {dtype.name} needs measured ranges, got none")
    if dtype is TensorType.FLOAT16 and SOCS[soc].mini:
        raise ValueError(f"samples: expected some, as {soc} runs only quantized models, got none")
    graph = onnx if isinstance(onnx, Graph) else Graph(_bytes_of(onnx))
    rows = [(s,) if isinstance(s, np.ndarray) else tuple(s) for s in samples]
    for row in rows:
        for array in row:
            if not isinstance(array, np.ndarray):
                raise TypeError(f"samples: expected arrays, got {type(array).__name__}")
        if len(row) != len(graph.inputs):
            expected = len(graph.inputs)
            raise ValueError(f"samples: expected {expected} arrays in each, got {len(row)}")
    preprocessing = _preprocessing(len(graph.inputs), mean_values, std_values)
    chosen = _Quantization(dtype, algorithm, _checked_ranges(ranges, graph, dtype))
    plan = _Plan(graph, (soc, version), chosen, preprocessing, rows)
    return bytes(
        Bundle(
            soc=soc,
            variants=(ShapeVariant(plan.inputs(), plan.outputs()),),
            preprocessing=preprocessing,
            onnx=graph.onnx,
            custom_string=custom_string,
            runtime_version=version,
        )
    )


class _Quantization(NamedTuple):
    """What decides the zero points and scales of float tensors."""

    dtype: TensorType
    algorithm: Algorithm
    ranges: Mapping[str, Calibration]


def _checked_ranges(
    ranges: Mapping[str, Calibration] | None, graph: Graph, dtype: TensorType
) -> Mapping[str, Calibration]:
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise TypeError(f"ranges: expected a mapping by name, got {type(ranges).__name__}")
    names = [tensor.name for tensor in (*graph.inputs, *graph.outputs)]
    bits = 16 if dtype is TensorType.INT16 else 8
    for name, found in ranges.items():
        if not isinstance(found, Calibration):
            raise TypeError(f"ranges: expected Calibrations, got {type(found).__name__}")
        if name not in names:
            raise ValueError(f"ranges: expected names of {', '.join(names)}, got {name!r}")
        if found.bits != bits or len(found.ranges) != 1:
            raise ValueError(
                f"ranges: expected one range of {bits} bits for {name!r}, got "
                f"{len(found.ranges)} of {found.bits}"
            )
    return ranges


class _Plan:
    """Decides types and ranges of the tensors of an ONNX file."""

    def __init__(
        self,
        graph: Graph,
        runtime: tuple[str, str],
        quantization: _Quantization,
        preprocessing: tuple[Preprocessing | None, ...],
        rows: Sequence[tuple[Array, ...]],
    ) -> None:
        self.graph = graph
        #: Whose runtime describes the tensors, and its version.
        self.soc, self.version = runtime
        self.dtype = quantization.dtype
        self.quantization = quantization
        self.preprocessing = preprocessing
        self.rows = rows
        first = rows[0] if rows else (None,) * len(graph.inputs)
        #: Without ranges yet.
        self.plain = tuple(
            self._describe_plain(tensor, sample) for tensor, sample in zip(graph.inputs, first)
        )
        self.reals = [
            [
                real_input(attr, given, array)
                for attr, given, array in zip(self.plain, preprocessing, row)
            ]
            for row in rows
        ]

    def _describe_plain(self, tensor: GraphTensor, sample: Array | None) -> TensorAttr:
        shape = tensor.shape
        if sample is not None and None in shape and sample.ndim == len(shape):
            order = (0, 3, 1, 2) if sample.ndim == 4 else range(sample.ndim)
            shape = tuple(sample.shape[axis] for axis in order)
        if None in shape:
            raise InvalidModelError(
                f"input {tensor.name!r} has the open shape {tensor.shape}: give samples, or "
                "export the ONNX file with fixed shapes"
            )
        return describe_input(
            tensor.name,
            tuple(size or 0 for size in shape),
            soc=self.soc,
            runtime_version=self.version,
            dtype=self._npu_type(tensor),
            zero_point=None,
            scale=None,
        )

    def _npu_type(self, tensor: GraphTensor) -> TensorType:
        if tensor.dtype.kind == "f":
            return self.dtype
        return TensorType[tensor.dtype.name.upper()]

    def inputs(self) -> tuple[TensorAttr, ...]:
        described = []
        for index, (tensor, attr) in enumerate(zip(self.graph.inputs, self.plain)):
            given = self.preprocessing[index]
            if attr.takes_pixels:  # every value that a pixel can have
                levels = np.zeros(attr.shape, np.uint8)
                reals = [real_input(attr, given, levels), real_input(attr, given, ~levels)]
            else:
                reals = [row[index] for row in self.reals]
            described.append(self._describe(describe_input, tensor, index, attr.nchw_shape, reals))
        return tuple(described)

    def outputs(self) -> tuple[TensorAttr, ...]:
        results = self._results()
        described = []
        for index, tensor in enumerate(self.graph.outputs):
            arrays = [np.asarray(row[index]) for row in results]
            values = [np.concatenate([array.ravel() for array in arrays])]  # as the toolkit does
            described.append(
                self._describe(describe_output, tensor, index, arrays[0].shape, values)
            )
        return tuple(described)

    def _results(self) -> list[list[Array]]:
        """Outputs for each sample; without samples, arrays of the outputs' shapes."""
        if not self.reals and self.graph.split is not None:  # nobody computes it yet
            fixed = [self.graph.split.fixed(tensor.name) for tensor in self.graph.outputs]
            return [[np.zeros(tensor.shape, tensor.dtype) for tensor in fixed]]
        names = [tensor.name for tensor in self.graph.outputs]
        rows = self.reals or [[np.zeros(a.nchw_shape, np.float32) for a in self.plain]]
        return [
            self.graph.run({a.name: array for a, array in zip(self.plain, row)}, names)
            for row in rows
        ]

    def _describe(
        self,
        describe: Callable[..., TensorAttr],
        tensor: GraphTensor,
        index: int,
        shape: tuple[int, ...],
        arrays: Sequence[Array],
    ) -> TensorAttr:
        """As a runtime would; ``arrays`` hold the range of its values."""
        zero_point, scale = self._quantization(tensor, arrays)
        return describe(
            tensor.name,
            shape,
            soc=self.soc,
            runtime_version=self.version,
            index=index,
            dtype=self._npu_type(tensor),
            zero_point=zero_point,
            scale=scale,
        )

    def _quantization(
        self, tensor: GraphTensor, arrays: Sequence[Array]
    ) -> tuple[int | None, float | None]:
        """Zero point and scale for the range of the values, zero included."""
        if tensor.dtype.kind != "f" or self.dtype is TensorType.FLOAT16:
            return None, None
        found = self.quantization.ranges.get(tensor.name)
        if found is None:
            is_wide = self.dtype is TensorType.INT16
            calibrator = Calibrator(
                self.quantization.algorithm, symmetric=is_wide, bits=16 if is_wide else 8
            )
            try:
                for array in arrays:
                    calibrator.add(array)
            except ValueError as error:
                raise ValueError(f"{tensor.name!r}: {error}") from None
            found = calibrator.result()
        (only,) = found.ranges
        return only.zero_point, only.scale


def _preprocessing(
    count: int,
    mean_values: Sequence[Sequence[float]] | None,
    std_values: Sequence[Sequence[float]] | None,
) -> tuple[Preprocessing | None, ...]:
    if mean_values is None and std_values is None:
        return (None,) * count
    expected = "a list of numbers per input"
    means = [()] * count if mean_values is None else as_list(mean_values, "mean_values", expected)
    stds = [()] * count if std_values is None else as_list(std_values, "std_values", expected)
    if len(means) != count or len(stds) != count:
        raise ValueError(
            f"mean_values, std_values: expected one per input ({count}), got {len(means)} and "
            f"{len(stds)}"
        )
    return tuple(
        Preprocessing(
            tuple(map(float, as_list(mean, "mean_values", expected) or [0.0])),
            tuple(map(float, as_list(std, "std_values", expected) or [1.0])),
            rgb2bgr=False,
        )
        for mean, std in zip(means, stds)
    )


def _bytes_of(file: str | os.PathLike[str] | bytes) -> bytes:
    return file if isinstance(file, bytes) else read_onnx(file)


def _check_same(
    graph: Sequence[GraphTensor], attrs: Sequence[TensorAttr], batch: int, kind: str
) -> None:
    """Check that two lists name the same tensors; a built-in batch multiplies the first size."""
    wanted = {}
    for attr in attrs:
        shape = attr.nchw_shape
        wanted[attr.name] = (shape[0] // batch, *shape[1:]) if shape else shape
    there = {tensor.name: tensor for tensor in graph}
    if wanted.keys() != there.keys() or not all(
        there[name].takes(shape) for name, shape in wanted.items()
    ):
        listed = ", ".join(f"{name} {shape}" for name, shape in wanted.items())
        found = ", ".join(
            f"{tensor.name} ({', '.join(str(size or '?') for size in tensor.shape)})"
            for tensor in graph
        )
        raise InvalidModelError(
            f"the .rknn and the ONNX file are not the same model: {kind} {listed} of the .rknn, "
            f"{found} of the ONNX file"
        )
