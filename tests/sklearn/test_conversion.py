"""Estimators become networks that compute the same; a stand-in takes the toolkit's place."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime.errors import RknnError
from rknn_runtime.sklearn import convert
from rknn_runtime.sklearn.__main__ import main
from rknn_runtime.sklearn.metadata import metadata_of

# Estimators are fitted for a moment only.
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")

#: Bytes of the file that the stand-in gives.
MADE = b"made"


class Toolkit:
    """What `rknn.api.RKNN` is called with; one step may fail."""

    last: Toolkit
    fail: str = ""
    how: object = -1

    def __init__(self):
        Toolkit.last = self
        self.options, self.examples, self.is_released = {}, None, False

    def _step(self, name):
        if self.fail == name:
            if isinstance(self.how, BaseException):
                raise self.how
            return self.how
        return 0

    def config(self, **options):
        self.options.update(options)
        return self._step("config")

    def load_onnx(self, model):
        self.onnx = Path(model).read_bytes()
        return self._step("load_onnx")

    def build(self, do_quantization, dataset):
        self.options["do_quantization"] = do_quantization
        if dataset is not None:
            names = Path(dataset).read_text("utf-8").splitlines()
            self.examples = np.array([np.load(name) for name in names])
        return self._step("build")

    def export_rknn(self, path):
        Path(path).write_bytes(MADE)
        return self._step("export_rknn")

    def release(self):
        self.is_released = True


@pytest.fixture
def toolkit(monkeypatch):
    """A stand-in for the vendor's package."""
    pytest.importorskip("onnx")
    api = types.ModuleType("rknn.api")
    api.RKNN = Toolkit
    monkeypatch.setitem(sys.modules, "rknn", types.ModuleType("rknn"))
    monkeypatch.setitem(sys.modules, "rknn.api", api)
    monkeypatch.setattr(Toolkit, "fail", "")
    return Toolkit


@pytest.fixture
def sklearn():
    """The names that these tests use of scikit-learn."""
    names = types.SimpleNamespace()
    for module, found in {
        "linear_model": ("LogisticRegression",),
        "neural_network": ("MLPClassifier", "MLPRegressor"),
        "pipeline": ("make_pipeline",),
        "preprocessing": ("MinMaxScaler", "StandardScaler"),
    }.items():
        for name in found:
            setattr(names, name, getattr(pytest.importorskip(f"sklearn.{module}"), name))
    return names


SOON = {"max_iter": 9, "random_state": 0}
ROWS = np.random.default_rng(0).normal(size=(60, 4)) * [1, 10, 100, 1000] + [0, 5, 50, 500]
TASKS = {
    "binary": (ROWS[:, 0] > 0).astype(int),
    "multiclass": np.digitize(ROWS[:, 0], [-0.5, 0.5]),
    "multilabel": (ROWS[:, :3] > [0, 5, 50]).astype(int),
    "regression": ROWS[:, 0] * 3 + 7,
    "regressions": np.stack([ROWS[:, 0], ROWS[:, 1] * 1e6], axis=1),
}


def fitted(sklearn, task="multiclass", activation="relu", scaled=True):
    """An estimator that was fitted for a moment."""
    kind = sklearn.MLPRegressor if task.startswith("regression") else sklearn.MLPClassifier
    perceptron = kind(hidden_layer_sizes=(8, 6), activation=activation, **SOON)
    estimator = sklearn.make_pipeline(sklearn.StandardScaler(), perceptron)
    estimator.fit(ROWS, TASKS[task])
    return estimator if scaled else perceptron


def outputs_of(toolkit, rows):
    """Compute the network given to the toolkit and the CPU's part: the board's answer."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(toolkit.last.onnx, providers=["CPUExecutionProvider"])
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    metadata = metadata_of(
        toolkit.last.options["custom_string"], "", given.shape[1], result.shape[1]
    )
    if metadata.features is not None:
        rows = metadata.features.apply(rows)
    values = session.run(None, {given.name: rows.astype(np.float32)})[0].astype(np.float64)
    if metadata.targets is not None:
        values = metadata.targets.undo(values)
    if metadata.activation == "softmax":
        values = np.exp(values - values.max(axis=1, keepdims=True))
        values /= values.sum(axis=1, keepdims=True)
    elif metadata.activation == "logistic":
        values = np.exp(-np.logaddexp(0, -values))
    return metadata, values


@pytest.mark.parametrize("examples", [False, True], ids=["", "examples"])
@pytest.mark.parametrize("scaled", [False, True], ids=["raw", "pipeline"])
@pytest.mark.parametrize("activation", ["identity", "logistic", "relu", "tanh"])
@pytest.mark.parametrize("task", TASKS)
def test_the_network_computes_what_the_estimator_does(
    sklearn, toolkit, tmp_path, task, activation, scaled, examples
):
    """All tasks and activations, with and without a scaler and examples."""
    estimator = fitted(sklearn, task, activation, scaled)
    options = {"example_input": ROWS} if examples else {}
    convert(estimator, tmp_path / "x.rknn", "rk3588", batch_size=60, **options)
    metadata, values = outputs_of(toolkit, ROWS)
    assert metadata.task == ("regression" if task == "regressions" else task)
    if metadata.classes is None:
        expected = estimator.predict(ROWS).reshape(values.shape)
    else:
        assert (metadata.classes == estimator.classes_).all()
        expected = estimator.predict_proba(ROWS)
        if task == "binary":
            expected = expected[:, 1:]
    assert np.allclose(values, expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())
    assert (metadata.features is not None) == (scaled or examples)
    assert (metadata.targets is not None) == (examples and task.startswith("regression"))
    assert toolkit.last.options["do_quantization"] is False
    assert toolkit.last.examples is None


def test_examples_are_given_as_the_network_takes_them(sklearn, toolkit, tmp_path):
    """Scaled, in batches, the last filled up."""
    estimator = fitted(sklearn)
    path = tmp_path / "x.rknn"
    some = ROWS[:10]
    convert(estimator, str(path), "rv1106", True, some.tolist(), batch_size=4)
    assert toolkit.last.options["do_quantization"] is True
    assert toolkit.last.options["target_platform"] == "rv1106"
    scaled = estimator[0].transform(some)
    expected = np.concatenate([scaled, scaled[:2]]).reshape(3, 4, 4)
    assert np.allclose(toolkit.last.examples, expected, atol=1e-5)
    assert toolkit.last.examples.dtype == np.float32
    assert toolkit.last.is_released
    assert path.read_bytes() == MADE
    assert list(tmp_path.iterdir()) == [path]


def test_what_does_not_fit_into_the_custom_string_is_beside(sklearn, toolkit, tmp_path):
    """Scaling of 100 features, in a JSON file; the custom string is left empty."""
    rows = np.random.default_rng(0).normal(size=(20, 100))
    perceptron = sklearn.MLPRegressor(hidden_layer_sizes=(3,), **SOON).fit(rows, rows[:, 0])
    path = tmp_path / "x.rknn"
    convert(perceptron, path, "rk3588", example_input=rows)
    assert toolkit.last.options["custom_string"] == ""
    beside = (tmp_path / "x.rknn.json").read_text("utf-8")
    metadata = metadata_of(beside, "", 100, 1)
    assert np.allclose(metadata.features.offset, rows.mean(axis=0))
    assert np.allclose(metadata.features.scale, rows.std(axis=0))


@pytest.mark.parametrize(
    "classes", [["a", "ü"], [True, False], [1.0, -2.0], [3, 2**40]], ids=lambda each: str(each[0])
)
def test_classes_survive_the_metadata(sklearn, toolkit, tmp_path, classes):
    """Texts, bools, numbers, with their dtype."""
    names = np.array(classes)[TASKS["binary"]]
    for given in (names, names.astype(object)) if names.dtype.kind == "U" else (names,):
        perceptron = sklearn.MLPClassifier(hidden_layer_sizes=(3,), **SOON).fit(ROWS, given)
        convert(perceptron, tmp_path / "x.rknn", "rk3588")
        metadata = metadata_of(toolkit.last.options["custom_string"], "", 4, 1)
        assert metadata.classes.tolist() == perceptron.classes_.tolist()
        assert metadata.classes.dtype == perceptron.classes_.dtype


def test_other_estimators_are_refused(sklearn, tmp_path):
    """The error has their class, and whether they must be fitted."""
    path = tmp_path / "x.rknn"
    perceptron = sklearn.MLPClassifier()
    others = {
        "got LogisticRegression": sklearn.LogisticRegression(),
        "got MinMaxScaler and MLPClassifier": sklearn.make_pipeline(
            sklearn.MinMaxScaler(), perceptron
        ),
        "got StandardScaler$": sklearn.make_pipeline(sklearn.StandardScaler()),
        "got no step": sklearn.make_pipeline("passthrough"),
        "got dict": {},
    }
    for words, estimator in others.items():
        with pytest.raises(TypeError, match=f"estimator: expected an MLPClassifier.*{words}"):
            convert(estimator, path, "rk3588")
    for estimator in (perceptron, sklearn.make_pipeline(sklearn.StandardScaler(), perceptron)):
        with pytest.raises(ValueError, match="this MLPClassifier is not fitted: fit it first"):
            convert(estimator, path, "rk3588")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "rk9999"}, "target: expected one of rk3562, .*, got 'rk9999'"),
        ({"target": 3588}, "target: expected the name of a SoC, got int"),
        ({"target": "rv1106"}, "quantization: expected True for rv1106, got False"),
        ({"quantization": True}, "example_input: expected rows to quantize with, got None"),
        ({"example_input": ROWS[:, :2]}, "expected 4 features for this MLPClassifier, got 2"),
        ({"example_input": ROWS[:0]}, "expected at least one row"),
        ({"example_input": ROWS * np.nan}, "expected finite numbers"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"path": None}, "expected str, bytes or os.PathLike"),
    ],
)
def test_wrong_arguments_are_refused(sklearn, toolkit, tmp_path, options, words):
    """Before anything is written."""
    arguments = {"path": tmp_path / "x.rknn", "target": "rk3588", **options}
    with pytest.raises((TypeError, ValueError), match=words):
        convert(fitted(sklearn), **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["config", "load_onnx", "build", "export_rknn"])
@pytest.mark.parametrize("how", [-1, ValueError("why"), SystemExit(-1)], ids=repr)
def test_a_toolkit_that_fails_is_reported(sklearn, toolkit, tmp_path, monkeypatch, step, how):
    """The error has the step; an old file stays unchanged."""
    path = tmp_path / "x.rknn"
    path.write_bytes(b"old")
    monkeypatch.setattr(Toolkit, "fail", step)
    monkeypatch.setattr(Toolkit, "how", how)
    with pytest.raises(RknnError, match=f"rknn-toolkit2 failed in {step}"):
        convert(fitted(sklearn), path, "rk3588")
    assert path.read_bytes() == b"old"
    assert toolkit.last.is_released


def test_a_missing_toolkit_is_taken_from_its_own_environment(sklearn, tmp_path, monkeypatch):
    """And a missing onnx says what to install."""
    pytest.importorskip("onnx")
    monkeypatch.setitem(sys.modules, "rknn.api", None)
    monkeypatch.setattr(
        "rknn_runtime.conversion.environment.toolkit_python", lambda: "/none/python"
    )
    with pytest.raises(FileNotFoundError, match="/none/python"):
        convert(fitted(sklearn), tmp_path / "x.rknn", "rk3588")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install 'onnx<=1"):
        convert(fitted(sklearn), tmp_path / "x.rknn", "rk3588")
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_float32_cannot_hold(sklearn, toolkit, tmp_path):
    """Are an error, not infinity."""
    estimator = fitted(sklearn)
    estimator[-1].coefs_[0][0, 0] = 1e300
    with pytest.raises(ValueError, match="estimator: its numbers are not finite in float32"):
        convert(estimator, tmp_path / "x.rknn", "rk3588")


def test_the_command_converts_a_pickle(sklearn, toolkit, tmp_path, capsys):
    """The command warns that a pickle can run code."""
    source, target, rows = tmp_path / "x.pkl", tmp_path / "x.rknn", tmp_path / "rows.npy"
    source.write_bytes(pickle.dumps(fitted(sklearn)))
    np.save(rows, ROWS)
    arguments = [str(source), str(target), "--target-platform", "rk3588"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert f"reading {source} as a pickle, which runs whatever code is in it" in said.err
    assert said.out == f"wrote {target}\n"
    assert target.read_bytes() == MADE
    arguments += ["--quantization", "--example-input", str(rows), "--batch-size", "8"]
    assert main(arguments) == 0
    assert toolkit.last.examples.shape == (8, 8, 4)


@pytest.mark.parametrize("content", [b"", b"no pickle", b"cos\nnothing\n."])
def test_the_command_refuses_what_is_no_pickle(tmp_path, capsys, content):
    """Other files and missing ones give one line and status 1."""
    source = tmp_path / "x.pkl"
    source.write_bytes(content)
    for path in (source, tmp_path / "missing.pkl"):
        assert main([str(path), str(tmp_path / "x.rknn"), "--target-platform", "rk3588"]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("rknn_runtime.sklearn: ")
