"""Custom operators of ONNX files: onnxruntime computes around them, functions of ours the nodes."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from custom_models import softmax
from test_operators import plugin
from threads import in_threads

from rknn_runtime import GeneralModel, Model
from rknn_runtime.errors import InvalidModelError, OperationFailedError, RknnError, UnavailableError
from rknn_runtime.sim import bundle_from_onnx, record
from rknn_runtime.sim.executor import Executor, Graph

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
FRAME = np.random.default_rng(1).integers(0, 9, (1, 4, 5, 3)).astype(np.uint8)
SHAPE = [1, 3, 4, 5]


def tensor(name, shape=SHAPE, kind=None):
    kind = onnx.TensorProto.FLOAT if kind is None else kind
    return onnx.helper.make_tensor_value_info(name, kind, shape)


def file(nodes, outputs=("y",), between=("b",), domain="", constants=(), shape=SHAPE):
    """An ONNX file of nodes between x and y; it says the shapes of those ``between``."""
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [tensor("x", shape)],
        [tensor(name, shape) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
        value_info=[tensor(name, shape) for name in between],
    )
    domains = [onnx.helper.make_opsetid("", 13)]
    domains += [onnx.helper.make_opsetid(domain, 1)] if domain else []
    return onnx.helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString()


def two(domain=""):
    """X * 2 -> custom, with a constant -> Relu -> custom: the output, and a sum with it."""
    node = onnx.helper.make_node
    extra = {"alpha": 0.5, "axes": [1, -2], "mode": "so", "axis": -1, "some": [0.25, 4.0]}
    nodes = [
        node("Mul", ["x", "k"], ["a"]),
        node("cstTwice", ["a", "w"], ["b"], "first", domain=domain, **extra),
        node("Relu", ["b"], ["c"]),
        node("cstTwice", ["c"], ["y"], "second", domain=domain),
        node("Add", ["c", "y"], ["z"]),
    ]
    constants = {"k": np.float32(2), "w": np.arange(4, dtype=np.float32)}
    return file(nodes, ("y", "z"), domain=domain, constants=constants)


def one(**options):
    """A custom operator that is all there is."""
    return file([custom("cstTwice")], between=(), **options)


def twice(node, inputs, outputs):
    outputs[0][...] = 2 * inputs[0]


def run(model):
    return [
        np.copy(each) for each in (model(FRAME) if isinstance(model, Model) else model.run(FRAME))
    ]


@pytest.mark.parametrize("cls", [Model, GeneralModel])
def test_each_duplicate_has_its_own_exception(control, monkeypatch, cls):
    """Both runs have failed before either is asked why."""
    bundle = bundle_from_onnx(file([onnx.helper.make_node("Relu", ["x"], ["y"])], between=()))
    both, keep = threading.Barrier(2, timeout=60), Executor.keep

    def late(executor, error):
        keep(executor, error)
        both.wait()

    def fail(graph, inputs, outputs):
        raise ValueError(threading.current_thread().name)

    monkeypatch.setattr(Executor, "keep", late)
    monkeypatch.setattr(Graph, "run", fail)

    def work(model):
        with pytest.raises(OperationFailedError) as caught:
            run(model)
        assert caught.value.__cause__.args == (threading.current_thread().name,)

    with cls(bundle, library="sim") as model, model.duplicate() as twin:
        in_threads(work, [(model,), (twin,)])


def test_a_duplicate_outlives_what_described_its_nodes(control):
    """The original is gone, with the executor that told the runtime of them."""
    model = Model(bundle_from_onnx(two()), library="sim")
    twin = model.duplicate()
    model.close()
    del model
    gc.collect()
    with twin, pytest.raises(OperationFailedError, match="cstTwice: a custom operator without a"):
        run(twin)


@pytest.mark.parametrize("cls", [Model, GeneralModel])
@pytest.mark.parametrize("domain", ["", "somebody.else"])
def test_functions_compute_nodes_of_an_onnx_file(control, cls, domain):
    """In the order of the graph, in the midst of what onnxruntime computes, run after run."""
    bundle = bundle_from_onnx(two(domain))
    with cls(bundle, library="sim") as model:
        model.register_custom_op("cstTwice", twice)
        for _ in range(2):
            y, z = run(model)
            c = 4.0 * FRAME.transpose(0, 3, 1, 2)
            assert np.array_equal(y, 2 * c)
            assert np.array_equal(z, 3 * c)


def test_what_a_node_of_an_onnx_file_is_told(control, tmp_path):
    """Shapes, constants and attributes, in the form that librknnrt has; also of the file itself."""
    path = tmp_path / "two.onnx"
    path.write_bytes(two())
    seen, constants = [], []

    def init(node):
        names = ("alpha", "axes", "mode", "axis", "some", "name", "no")
        seen.append((node, [node.attribute(name) for name in names]))

    def compute(node, inputs, outputs):
        constants.extend(inputs[1:])
        outputs[0][...] = inputs[0]

    with Model(path, library="sim") as model:
        model.register_custom_op("cstTwice", compute, init=init)
        run(model)
    (first, (alpha, axes, mode, axis, some, name, missing)), (second, others) = seen
    assert (alpha.tolist(), axes.tolist(), mode, axis.tolist()) == ([0.5], [1, -2], "so", [-1])
    assert (some.tolist(), name, missing) == ([0.25, 4.0], "cstTwice:first", None)
    assert axes.dtype == np.int64 and some.dtype == np.float32
    assert others == [None] * 5 + ["cstTwice:second", None]
    assert [each.name for each in first.inputs] == ["a_cst_temp", "w_cst_temp"]
    assert [each.shape for each in first.inputs] == [(1, 3, 4, 5), (4,)]
    assert second.outputs[0].shape == (1, 3, 4, 5)
    assert [each.tolist() for each in constants] == [[0, 1, 2, 3]]


def test_nothing_but_a_custom_operator(control, tmp_path):
    """Between input and output there is nothing to compute; a function of C does it, too."""
    bundle = bundle_from_onnx(one())
    with Model(bundle, library="sim") as model:
        model.register_custom_op("cstTwice", twice)
        assert np.array_equal(run(model)[0], 2.0 * FRAME.transpose(0, 3, 1, 2))
    node = onnx.helper.make_node("cstSoftmax1", ["x"], ["y"], axis=3)
    with Model(bundle_from_onnx(file([node], between=())), library="sim") as model:
        assert model.register_custom_op_library(plugin(tmp_path)) == "cstSoftmax1"
        assert set(run(model)[0].ravel()) == {1 + 1 + 3}


def test_without_a_function_nothing_runs(control):
    """As of a `.rknn` file: the model loads, and the run names the operator."""
    with Model(bundle_from_onnx(two()), library="sim") as model:
        with pytest.raises(OperationFailedError, match="cstTwice: a custom operator without a"):
            run(model)
        model.register_custom_op("cstOther", softmax)  # of which there is none
        with pytest.raises(OperationFailedError, match="cstTwice"):
            run(model)
        model.register_custom_op("cstTwice", twice)
        run(model)
        with pytest.raises(UnavailableError, match="no duplicates"):
            model.duplicate()


def test_what_a_function_raises(control):
    """Comes out of the run as it is, from whichever node; the next run is as ever."""
    calls = []

    def second(node, inputs, outputs):
        calls.append(node)
        if len(calls) == 2:
            raise KeyError("second")
        outputs[0][...] = 2 * inputs[0]

    with Model(bundle_from_onnx(two()), library="sim") as model:
        model.register_custom_op("cstTwice", second)
        with pytest.raises(KeyError, match="second") as caught:
            run(model)
        assert isinstance(caught.value.__cause__, OperationFailedError)
        assert np.array_equal(run(model)[0], 8.0 * FRAME.transpose(0, 3, 1, 2))


def test_models_in_threads(control):
    """Each has its own nodes, whoever runs beside it."""
    bundle, wrong = bundle_from_onnx(two()), []

    def work(factor):
        def times(node, inputs, outputs):
            outputs[0][...] = factor * inputs[0]

        with Model(bundle, library="sim") as model:
            model.register_custom_op("cstTwice", times)
            for _ in range(5):
                if not np.array_equal(run(model)[0], 2.0 * factor**2 * FRAME.transpose(0, 3, 1, 2)):
                    wrong.append(factor)

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_who_has_no_functions(control):
    """Neither ranges nor outputs are recorded through somebody else's operator: it is said."""
    with pytest.raises(RknnError, match="cstTwice is a custom operator, and nobody computes it"):
        bundle_from_onnx(two(), samples=[FRAME])
    with pytest.raises(RknnError, match="cstTwice"):
        record(bundle_from_onnx(two()), [FRAME])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: file([custom("cstA", "b"), relu()], between=()),
            "value_info",
        ),
        (lambda: one(shape=[1, 3, "rows", 5]), "expected a fixed shape"),
        (lambda: file([custom("Nothing")]), "cannot load"),
        (lambda: file([custom("cst" + "a" * 300)]), "255"),
    ],
)
def test_files_that_cannot_be_cut(control, make, text):
    """Refused with what is missing."""
    with pytest.raises(InvalidModelError, match=text):
        Model(bundle_from_onnx(make()), library="sim")


def custom(op_type, output="y"):
    return onnx.helper.make_node(op_type, ["x"], [output])


def relu():
    return onnx.helper.make_node("Relu", ["b"], ["y"])


def test_damaged_files():
    """Of 1,000 mutations each loads or is an `InvalidModelError`, as of any other ONNX file."""
    rng, whole = np.random.default_rng(7), two()
    refused = 0
    for _ in range(1000):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        if rng.integers(0, 4) == 0:
            del data[rng.integers(0, len(data)) :]
        try:
            Graph(bytes(data))
        except InvalidModelError:
            refused += 1
    assert 300 < refused < 1000
