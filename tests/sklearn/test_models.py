"""The board's classes answer as scikit-learn did, on files that the toolkit made."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from bundles import image, output, recorded
from paths import PROJECT

from rknn_runtime import TensorType
from rknn_runtime.errors import ClosedError, InvalidModelError
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.sklearn import MLPClassifier, MLPRegressor

MADE = PROJECT / "tests" / "data" / "sklearn"
CLASSIFIERS = ("disc", "thirds", "labels")


def answers(name):
    """What scikit-learn says of 40 rows."""
    with np.load(MADE / f"{name}.npz") as kept:
        return dict(kept)


def opened(name):
    kind = MLPRegressor if name == "targets" else MLPClassifier
    return kind(MADE / f"{name}.rknn", library="sim")


@pytest.fixture(params=CLASSIFIERS)
def classifier(request, control):
    """A classifier and what scikit-learn answers."""
    with opened(request.param) as model:
        yield model, answers(request.param)


@pytest.fixture
def disc(control):
    """The binary classifier of points."""
    with opened("disc") as model:
        yield model


@pytest.fixture
def regressor(control):
    """The regressor of two targets."""
    with opened("targets") as model:
        yield model


def network(tmp_path, values, text="", n_features=2, beside=None):
    """Write a model of float16 that answers every row with the same values."""
    values = np.asarray(values, np.float16)
    options = {"soc": "rk3588", "dtype": TensorType.FLOAT16, "zero_point": None, "scale": None}
    bundle = bundle_from_arrays(
        [describe_input("x", (1, n_features), **options)],
        [describe_output("y", values.shape, **options)],
        [Record([values])],
        custom_string=text,
    )
    path = tmp_path / "model.rknn"
    path.write_bytes(bundle)
    if beside is not None:
        path.with_name("model.rknn.json").write_text(beside, "utf-8")
    return path


def test_a_classifier_agrees_with_scikit_learn(classifier):
    """Classes but for a label at its threshold, probabilities up to what int8 rounds."""
    model, kept = classifier
    assert (model.predict(kept["X"]) == kept["predict"]).mean() > 0.99
    probabilities = model.predict_proba(kept["X"])
    assert probabilities.dtype == np.float64
    assert np.abs(probabilities - kept["predict_proba"]).max() < 0.05
    assert np.allclose(np.exp(model.predict_log_proba(kept["X"])), probabilities)
    assert abs(model.score(kept["X"], kept["predict"]) - 1) < 0.05


def test_classes_have_their_dtype(control):
    """Texts stay texts, numbers numbers; labels are predicted as 0 and 1."""
    with opened("disc") as model:
        assert model.classes_.tolist() == ["in", "out"]
        assert model.classes_.dtype == "<U3"
        assert model.predict(answers("disc")["X"]).dtype == "<U3"
        assert model.out_activation_ == "logistic"
        model.classes_[0] = "x"
        assert model.classes_.tolist() == ["in", "out"]
    with opened("thirds") as model:
        assert model.classes_.tolist() == [0, 10, 20]
        assert model.predict(answers("thirds")["X"]).dtype == np.int64
        assert model.out_activation_ == "softmax"
    with opened("labels") as model:
        predicted = model.predict(answers("labels")["X"])
        assert predicted.dtype == np.int64
        assert set(np.unique(predicted)) == {0, 1}


def test_a_regressor_agrees_with_scikit_learn(regressor):
    """Targets of a million and of one, both to a thousandth of their range."""
    kept = answers("targets")
    predicted = regressor.predict(kept["X"])
    assert predicted.shape == kept["predict"].shape
    assert predicted.dtype == np.float64
    ranges = np.ptp(kept["predict"], axis=0)
    assert (np.abs(predicted - kept["predict"]).max(axis=0) < 1e-3 * ranges).all()
    assert regressor.score(kept["X"], kept["predict"]) > 0.9999


def test_rows_come_as_scikit_learn_takes_them(disc):
    """Lists, tuples, integers, float32 and float64, any strides, objects, a sparse matrix."""
    rows = np.array([[0, 1000], [1, 1200], [-1, 800]])
    expected = disc.predict_proba(rows)

    class Sparse:
        def toarray(self):
            return rows

    strided = np.repeat(rows, 2, axis=1)[:, ::2]
    kinds = [rows.tolist(), tuple(map(tuple, rows)), rows.astype(np.float32), rows.astype(object)]
    for given in (*kinds, rows.astype(np.float64), np.asfortranarray(rows), strided, Sparse()):
        assert (disc.predict_proba(given) == expected).all()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([0, 1000], r"X: expected 2 dimensions, got shape \(2,\); a single row is X.reshape"),
        (3, r"X: expected 2 dimensions, got shape \(\)"),
        ([[[1, 2]]], "X: expected 2 dimensions"),
        ([[1, 2, 3]], "X: expected 2 features for this MLPClassifier, got 3"),
        (np.zeros((0, 2)), "X: expected at least one row"),
        ([[1, np.nan]], "X: expected finite numbers"),
        ([[1, np.inf]], "X: expected finite numbers"),
        ([["1", "2"]], "X: expected numbers, got dtype <U1"),
        (np.array([[1j, 2]]), "X: expected numbers, got dtype complex128"),
        (None, "X: expected"),
        ([[1, 2], [3]], "inhomogeneous|sequence"),
        ([[object(), 1]], "must be a .*number"),
    ],
)
def test_other_rows_are_refused(disc, rows, words):
    """As by scikit-learn, and the next are taken."""
    for call in (disc.predict, disc.predict_proba, disc.predict_log_proba):
        with pytest.raises((TypeError, ValueError), match=words):
            call(rows)
    assert len(disc.predict([[0, 1000]])) == 1


def test_scores_are_those_of_scikit_learn(control):
    """Accuracy and R2, with weights."""
    metrics = pytest.importorskip("sklearn.metrics")
    weights = np.arange(40.0)
    for name in CLASSIFIERS:
        kept = answers(name)
        with opened(name) as model:
            predicted = model.predict(kept["X"])
            for some in (None, weights):
                expected = metrics.accuracy_score(kept["y"], predicted, sample_weight=some)
                assert model.score(kept["X"], kept["y"], some) == pytest.approx(expected)
    kept = answers("targets")
    constant = kept["y"] * [1, 0]
    with opened("targets") as model:
        predicted = model.predict(kept["X"])
        for some in (None, weights):
            for truth in (kept["y"], predicted, constant):
                expected = metrics.r2_score(truth, predicted, sample_weight=some)
                assert model.score(kept["X"], truth, some) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y", "weights", "words"),
    [
        (["in"], None, r"y: expected shape \(2,\), got \(1,\)"),
        ("in", None, r"y: expected shape \(2,\), got \(\)"),
        ([["in", "in"]], None, r"y: expected shape \(2,\)"),
        (["in", "in"], [1], r"sample_weight: expected shape \(2,\), got \(1,\)"),
        (["in", "in"], [0, 0], "sample_weight: expected finite numbers"),
        (["in", "in"], [1, -1], "sample_weight: expected finite numbers"),
        (["in", "in"], [1, np.nan], "sample_weight: expected finite numbers"),
    ],
)
def test_other_targets_and_weights_are_refused(disc, y, weights, words):
    """Not one per row, or no weights."""
    with pytest.raises(ValueError, match=words):
        disc.score([[0, 1000], [1, 1200]], y, weights)


def test_targets_in_a_column_and_of_other_types(disc):
    """A column stands for its numbers; what never equals a class is wrong everywhere."""
    rows = [[0, 1000], [1, 1200]]
    assert disc.score(rows, disc.predict(rows)[:, None]) == 1
    assert disc.score(rows, [1, 2]) == 0


def test_one_target_is_one_number_per_row(tmp_path, control):
    """As in scikit-learn: no column; Poisson losses end with an exponential."""
    for activation, expected in (("identity", 2.0), ("exp", np.exp(2.0)), ("none", 2.0)):
        text = json.dumps({"sklearn": {"task": "regression", "activation": activation}})
        with MLPRegressor(network(tmp_path, [[2]], text), library="sim") as model:
            assert model.predict([[1, 2], [3, 4]]).tolist() == [expected, expected]
            assert model.score([[1, 2]], [expected]) == 1
            assert model.score([[1, 2]], [0]) == 0


def test_numbers_beyond_float16_are_an_error(tmp_path, control):
    """Instead of NaN, which no class is."""
    said = {"task": "regression", "activation": "identity"}
    path = network(tmp_path, [[np.inf, 0]], json.dumps({"sklearn": said}))
    with (
        MLPRegressor(path, library="sim") as model,
        pytest.raises(OverflowError, match="X: row 0 gives numbers that float16 cannot hold"),
    ):
        model.predict([[1, 2]])


SCIRKNN = {
    "regressor": ({"mode": "regressor"}, [[2, 3]]),
    "binary": ({"mode": "classifier", "classes": [3, 7]}, [[0.75]]),
    "multiclass": ({"mode": "classifier", "classes": ["a", "b"]}, [[0.25, 0.75]]),
}


@pytest.mark.parametrize("name", SCIRKNN)
def test_models_of_scirknn_are_taken(tmp_path, control, name):
    """Their JSON file is read; their networks end with the activation."""
    said, values = SCIRKNN[name]
    said = {"input_shape": [1, 2], "output_shape": [1, len(values[0])], **said}
    path = network(tmp_path, values, beside=json.dumps(said))
    if name == "regressor":
        with MLPRegressor(path, library="sim") as model:
            assert model.predict([[0, 0]]).tolist() == [[2, 3]]
        return
    with MLPClassifier(path, library="sim") as model:
        assert model.predict([[0, 0]]).tolist() == said["classes"][1:]
        assert model.predict_proba([[0, 0]]).tolist() == [[0.25, 0.75]]
        assert np.allclose(model.predict_log_proba([[0, 0]]), np.log([[0.25, 0.75]]))
        assert model.out_activation_ == "none"


def test_the_file_beside_is_read_where_the_custom_string_says_nothing(tmp_path, control):
    """And only there: a file of old is not believed against the model."""
    good = json.dumps({"sklearn": {"task": "regression", "activation": "identity"}})
    other = json.dumps({"sklearn": {"task": "regression", "activation": "exp"}})
    for text, beside in ((good, other), ("", good), ("my model", good), ('{"labels": []}', good)):
        path = network(tmp_path, [[2]], text, beside=beside)
        with MLPRegressor(path, library="sim") as model:
            assert model.out_activation_ == "identity"


WRONG = {
    "nothing": ("", "neither its custom string nor .* convert it with"),
    "no task": ('{"sklearn": {}}', "no metadata of an estimator: KeyError"),
    "list": ('{"sklearn": []}', "no metadata of an estimator: TypeError"),
    "task": ('{"sklearn": {"task": "x", "activation": "exp"}}', "task: expected one of binary"),
    "activation": (
        '{"sklearn": {"task": "regression", "activation": 3}}',
        "activation: expected one of identity",
    ),
    "classes": (
        '{"sklearn": {"task": "binary", "activation": "logistic", "classes": [1], "dtype": "<i8"}}',
        "classes: 1 for 2 outputs of a binary",
    ),
    "dtype": (
        '{"sklearn": {"task": "multiclass", "activation": "softmax", "classes": ["a", "b"],'
        ' "dtype": "<i8"}}',
        "no metadata of an estimator: ValueError",
    ),
    "cut": (
        '{"sklearn": {"task": "multiclass", "activation": "softmax", "classes": [1.5, 2],'
        ' "dtype": "<i8"}}',
        "are not of dtype int64",
    ),
    "dates": (
        '{"sklearn": {"task": "multiclass", "activation": "softmax", "classes": [1, 2],'
        ' "dtype": "<M8[s]"}}',
        "dtype: expected one of numbers or texts",
    ),
    "scaling": (
        '{"sklearn": {"task": "multiclass", "activation": "softmax", "classes": [1, 2],'
        ' "dtype": "<i8", "features": [[1], [1]]}}',
        "expected 2 offsets and scales",
    ),
    "no scale": (
        '{"sklearn": {"task": "multiclass", "activation": "softmax", "classes": [1, 2],'
        ' "dtype": "<i8", "features": [[1, 1], [1, 0]]}}',
        "expected finite offsets and scales",
    ),
    "scirknn": ('{"mode": "magic"}', "mode: expected one of classifier, regressor"),
    "scirknn classes": ('{"mode": "classifier", "classes": [[1]]}', "no metadata"),
}


@pytest.mark.parametrize("name", WRONG)
def test_metadata_that_make_no_sense_are_refused(tmp_path, control, name):
    """With the place and the reason; nothing stays open."""
    text, words = WRONG[name]
    with pytest.raises(InvalidModelError, match=words):
        MLPClassifier(network(tmp_path, [[1, 2]], text), library="sim")
    assert control.live == (0, 0, 0)


def test_the_other_class_is_refused(control):
    """A regressor is no classifier."""
    with pytest.raises(InvalidModelError, match=r"targets.rknn: this was an MLPRegressor"):
        MLPClassifier(MADE / "targets.rknn", library="sim")
    with pytest.raises(InvalidModelError, match=r"disc.rknn: this was an MLPClassifier"):
        MLPRegressor(MADE / "disc.rknn", library="sim")


def test_networks_of_images_are_refused(tmp_path, control):
    """Whatever they say of themselves."""
    path = tmp_path / "image.rknn"
    path.write_bytes(recorded(inputs=[image()], outputs=[output("map", (1, 5, 4, 6))]).data)
    with pytest.raises(InvalidModelError, match="expected a network with one input and one output"):
        MLPRegressor(path, library="sim")


@pytest.mark.parametrize("wrong", [None, 3, b"bytes"])
def test_no_path(wrong):
    """Bytes have no JSON file."""
    with pytest.raises(TypeError, match="model: expected a path"):
        MLPRegressor(wrong, library="sim")


def test_a_closed_model_says_so(control):
    """After the with block; close is idempotent."""
    with opened("disc") as model:
        assert repr(model) == "<MLPClassifier 2 -> 1>"
    model.close()
    with pytest.raises(ClosedError):
        model.predict([[0, 0]])


def test_no_scikit_learn_is_needed(tmp_path, printed_by):
    """On the board NumPy is enough; onnx and the toolkit are not imported either."""
    shutil.copy(MADE / "disc.rknn", tmp_path)
    code = (
        "import sys\n"
        "for name in ('sklearn', 'onnx', 'rknn', 'onnxruntime'): sys.modules[name] = None\n"
        "from rknn_runtime.sklearn import MLPClassifier\n"
        "with MLPClassifier('disc.rknn', library='sim') as model:\n"
        "    print(*model.predict([[0, 1000], [1, 1200]]))\n"
    )
    assert printed_by(code, tmp_path) == "in out\n"
