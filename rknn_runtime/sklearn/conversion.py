"""From a fitted estimator of scikit-learn to a ``.rknn`` file, on a PC."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, as_int
from rknn_runtime._files import replace_file
from rknn_runtime.modelfile.soc import soc_named
from rknn_runtime.sklearn.metadata import Metadata, Scaling
from rknn_runtime.sklearn.models import checked_rows

#: The toolkit takes a custom string of less than 1024 bytes.
_MAX_CUSTOM_BYTES = 1023
#: No network here needs more rows in an inference.
_MAX_BATCH = 1 << 16
#: Activations of hidden layers: scikit-learn's names, and operators of ONNX.
_HIDDEN = {"identity": "", "logistic": "Sigmoid", "relu": "Relu", "tanh": "Tanh"}
_OUTER = ("identity", "logistic", "softmax", "exp")
#: Versions that every version of the toolkit reads.
_OPSET, _IR = 12, 7


def convert(
    estimator: object,
    path: str | os.PathLike[str],
    target: str,
    quantization: bool = False,
    example_input: object = None,
    *,
    batch_size: int = 1,
) -> None:
    """Convert an estimator for `rknn_runtime.sklearn.MLPClassifier` or `MLPRegressor`.

    All layers and hidden activations run on the NPU. The CPU of the board does the scaling and the
    logistic function, softmax or exponential at the end. Classes and scaling are in the file's
    custom string, or, if they are too long for it, in a file ``path.json`` to copy along with it.

    Args:
        estimator: A fitted ``MLPClassifier`` or ``MLPRegressor`` of scikit-learn, or a
            ``Pipeline`` of ``StandardScaler`` and one of them.
        path: The file to write; it is replaced after everything has succeeded.
        target: The SoC, such as ``"rk3588"``.
        quantization: int8; otherwise float16, which RV1103 and RV1106 do not support.
        example_input: ``(n, n_features)`` typical rows, some hundred of them. Needed for int8; in
            float16 they keep features and targets of different or large sizes exact.
        batch_size: Rows of one inference; the classes on the board take any number of rows.

    Raises:
        ImportError: scikit-learn or onnx is missing; says what to install.
        OSError: The file cannot be written.
        RknnError: The toolkit cannot be installed, or refused.
        ValueError: The estimator is not fitted, the examples do not fit it, or the SoC is not
            known or does not support the options.
    """
    place = Path(os.fspath(path))
    soc = soc_named(target, "target")
    if soc.mini and not quantization:
        raise ValueError(f"quantization: expected True for {target}, got False: no float16 there")
    if quantization and example_input is None:
        raise ValueError("example_input: expected rows to quantize with, got None")
    batch = as_int(batch_size, "batch_size", 1, _MAX_BATCH)
    network = _network_of(estimator, example_input)
    said = network.metadata.to_json()
    fits = len(said.encode()) <= _MAX_CUSTOM_BYTES
    examples = None
    if quantization and network.examples is not None:
        rows = network.examples  # the last batch is filled up with the first rows
        count = -(-len(rows) // batch)
        examples = np.resize(rows, (count * batch, rows.shape[1])).reshape(count, batch, -1)
    with tempfile.TemporaryDirectory(prefix="rknn-sklearn-") as folder:
        onnx = _onnx_of(network, batch)
        made = _build(onnx, soc.name, said if fits else "", examples, Path(folder))
        replace_file(place, made.read_bytes())
    if not fits:
        replace_file(Path(f"{place}.json"), said.encode())


@dataclass(frozen=True)
class _Network:
    """Layers ``rows @ weights + bias``, with one activation between them and none at the end."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    #: A key of `_HIDDEN`.
    activation: str
    metadata: Metadata
    #: Rows for the quantization, scaled for the network; None: there are none.
    examples: Array | None = None


def _network_of(estimator: Any, example_input: object = None) -> _Network:
    """Read a fitted estimator.

    The CPU scales features in float64: as the `StandardScaler` of a pipeline does, otherwise so
    that the examples have mean 0 and standard deviation 1, which the first layer compensates. The
    last layer of a regressor scales its targets in the same way if there are examples.
    """
    scaler, perceptron = _parts(estimator)
    weights = [np.array(each, np.float64) for each in perceptron.coefs_]
    biases = [np.array(each, np.float64) for each in perceptron.intercepts_]
    n_features = weights[0].shape[0]
    features = None if scaler is None else _standard(scaler, n_features)
    targets = None
    rows = None
    if example_input is not None:
        rows = checked_rows(example_input, n_features, type(perceptron).__name__)
        scaled = rows if features is None else features.apply(rows)
        if features is None:
            features = _normalising(rows)
            biases[0] = biases[0] + features.offset @ weights[0]
            weights[0] = weights[0] * features.scale[:, None]
            scaled = features.apply(rows)
        if not hasattr(perceptron, "classes_"):
            targets = _normalising(_computed(scaled, weights, biases, perceptron.activation))
            biases[-1] = (biases[-1] - targets.offset) / targets.scale
            weights[-1] = weights[-1] / targets.scale
        rows = scaled.astype(np.float32)
    _check_finite([*weights, *biases])
    return _Network(
        tuple(each.astype(np.float32) for each in weights),
        tuple(each.astype(np.float32) for each in biases),
        perceptron.activation,
        _metadata(perceptron, features, targets),
        rows,
    )


def _parts(estimator: Any) -> tuple[Any, Any]:
    """Return the scaler of a pipeline, or None, and the perceptron."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    steps = [step for step in steps if step is not None and step != "passthrough"]
    names = [type(step).__name__ for step in steps]
    is_known = bool(steps) and isinstance(steps[-1], (MLPClassifier, MLPRegressor))
    if not is_known or len(steps) > 2 or not all(isinstance(s, StandardScaler) for s in steps[:-1]):
        raise TypeError(
            "estimator: expected an MLPClassifier, an MLPRegressor, or a Pipeline of a "
            f"StandardScaler and one of them, got {' and '.join(names) or 'no step'}"
        )
    for step, fitted in zip(steps[::-1], ("coefs_", "scale_")):
        if not hasattr(step, fitted):
            raise ValueError(f"estimator: this {type(step).__name__} is not fitted: fit it first")
    return (steps[0] if len(steps) == 2 else None), steps[-1]


def _standard(scaler: Any, n_features: int) -> Scaling:
    """Read a ``StandardScaler``, which has a mean even if it subtracts none."""
    offset = scaler.mean_ if scaler.with_mean else np.zeros(n_features)
    scale = scaler.scale_ if scaler.with_std else np.ones(n_features)
    return _as_written(np.array(offset, np.float64), np.array(scale, np.float64))


def _normalising(rows: Array) -> Scaling:
    scale = rows.std(axis=0)
    return _as_written(rows.mean(axis=0), np.where(scale > 0, scale, 1.0))


def _as_written(offset: Array, scale: Array) -> Scaling:
    """Round as the metadata does, so that the layers compensate exactly these numbers."""
    offset, scale = (each.astype(np.float32).astype(np.float64) for each in (offset, scale))
    _check_finite([offset, scale])
    return Scaling(offset, np.where(scale != 0, scale, 1.0))


def _computed(rows: Array, weights: list[Array], biases: list[Array], activation: str) -> Array:
    """Return the output of the last layer before its activation."""
    for weight, bias in zip(weights[:-1], biases[:-1]):
        rows = rows @ weight + bias
        if activation == "logistic":
            rows = np.exp(-np.logaddexp(0, -rows))
        elif activation == "relu":
            rows = np.maximum(rows, 0)
        elif activation == "tanh":
            rows = np.tanh(rows)
    return rows @ weights[-1] + biases[-1]


def _check_finite(arrays: list[Array]) -> None:
    limit = np.finfo(np.float32).max
    if not all((np.abs(array) <= limit).all() for array in arrays):
        raise ValueError("estimator: its numbers are not finite in float32")


def _metadata(perceptron: Any, features: Scaling | None, targets: Scaling | None) -> Metadata:
    if perceptron.activation not in _HIDDEN or perceptron.out_activation_ not in _OUTER:
        raise ValueError(
            f"estimator: the activations {perceptron.activation!r} and "
            f"{perceptron.out_activation_!r} are not known"
        )
    classes = getattr(perceptron, "classes_", None)
    if classes is None:
        return Metadata("regression", perceptron.out_activation_, None, features, targets)
    task = "multiclass"
    if perceptron.out_activation_ == "logistic":
        task = "binary" if len(classes) == 2 and perceptron.n_outputs_ == 1 else "multilabel"
    return Metadata(task, perceptron.out_activation_, np.asarray(classes), features, targets)


def _onnx_of(network: _Network, batch_size: int) -> bytes:
    """Write the network as an ONNX file of ``Gemm``, of which the toolkit makes convolutions."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise ImportError("converting needs the package onnx: pip install 'onnx<=1.18'") from error
    nodes, numbers = [], []
    before, last = "features", len(network.weights) - 1
    for i, (weights, bias) in enumerate(zip(network.weights, network.biases)):
        numbers += [
            numpy_helper.from_array(weights, f"weights{i}"),
            numpy_helper.from_array(bias, f"bias{i}"),
        ]
        after = "targets" if i == last else f"layer{i}"
        nodes.append(helper.make_node("Gemm", [before, f"weights{i}", f"bias{i}"], [after]))
        if i < last and _HIDDEN[network.activation]:
            before, after = after, f"hidden{i}"
            nodes.append(helper.make_node(_HIDDEN[network.activation], [before], [after]))
        before = after
    shapes = (network.weights[0].shape[0], network.weights[-1].shape[1])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch_size, size])
        for name, size in zip(("features", "targets"), shapes)
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], numbers)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR
    )
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _build(
    onnx: bytes, target: str, custom_string: str, examples: Array | None, folder: Path
) -> Path:
    """Convert an ONNX file with the vendor's toolkit, in its own Python unless this one has it.

    `examples` are ``(n, batch, features) float32`` to quantize with; without them it is float16.
    """
    # Boards do not convert.
    from rknn_runtime.conversion.calibration import listing
    from rknn_runtime.conversion.environment import toolkit_python
    from rknn_runtime.conversion.toolkit import run_job

    source, made, dataset = folder / "network.onnx", folder / "network.rknn", None
    source.write_bytes(onnx)
    if examples is not None:
        paths = [str(folder / f"example{i}.npy") for i in range(len(examples))]
        for path, rows in zip(paths, examples):
            np.save(path, rows)
        dataset = listing(paths, folder)
    job: dict[str, Any] = {
        "config": {"target_platform": target, "custom_string": custom_string},
        "load": {"call": "load_onnx", "arguments": {"model": str(source)}},
        "build": {"do_quantization": dataset is not None, "dataset": dataset},
        "export": str(made),
    }
    try:
        import rknn.api  # noqa: F401
    except ImportError:
        run_job(toolkit_python(), job)
    else:
        run_job(None, job)
    return made
