"""ONNX files with open shapes, weights in other files, or without default attributes."""

from __future__ import annotations

import json

import nets
import numpy as np
import pytest

from rknn_runtime.cli import main
from rknn_runtime.conversion.expected_layers import expected_layers
from rknn_runtime.conversion.plan import load_of_shapes, plan_of
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.sim.graph import Graph, read_onnx

onnx = pytest.importorskip("onnx")


@pytest.fixture
def opened(tmp_path):
    """A classifier of images of any size."""
    net = nets.classifier()
    net.inputs["images"] = ["batch", 3, "height", "width"]
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model())
    return path


@pytest.fixture
def beside(tmp_path):
    """A network whose weights are in another file."""
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "net.onnx"
    model = onnx.load_model_from_string(nets.classifier().model())
    onnx.save_model(
        model, str(path), save_as_external_data=True, location="net.onnx.data", size_threshold=0
    )
    assert (folder / "net.onnx.data").stat().st_size > 1000
    return path


def plan(path, **load):
    return plan_of(path, load, False, "auto", None, "RGB")


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (["--imgsz", "96"], [96, 96]),
        (["--imgsz", "64,96"], [64, 96]),
        (["--shape", "images:1,3,32,48"], [32, 48]),
    ],
)
def test_open_shapes_are_given(opened, capsys, words, size):
    """To ``info`` and ``predict``, as to ``convert``."""
    assert main(["info", str(opened), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == {"images": [1, 3, *size]}
    assert main(["predict", str(opened), "--for", "rk3588", "--json", *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)["predictions"]
    assert found["layers"]
    image = size if words[0] == "--imgsz" else None
    shapes = {} if image else {"images": [1, 3, *size]}
    made = plan(opened, **load_of_shapes(opened, image, shapes))
    assert made.size == tuple(size)
    (given,) = onnx.load_model_from_string(made.onnx).graph.input
    assert [each.dim_value for each in given.type.tensor_type.shape.dim] == [1, 3, *size]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --imgsz 640 or --shape images:1,3,640,640"),
        (["--shape", "image:1,3,8,8"], "--shape: expected images, got 'image'"),
        (["--shape", "images:1,1,8,8"], "expected a shape as in the file"),
        (["--shape", "images:3,8,8"], "expected a shape as in the file"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(opened, capsys, words, message):
    """By all commands, in one line that says what to give."""
    for command in (["predict"], ["convert", "--for", "rk3588"]):
        assert main([command[0], str(opened), *command[1:], *words]) == 1
        err = capsys.readouterr().err
        assert message in err and err.count("\n") == 1


def test_what_would_be_cut_is_said(tmp_path, capsys):
    """With the head; a network with open shapes says how to give them, and is described too."""
    path = tmp_path / "net.onnx"
    path.write_bytes(nets.anchor_free().model())
    assert main(["info", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["cut"] == list(plan(path).cut) != []
    assert said["head"] == plan(path).head.name
    assert said["classes"] == nets.CLASSES
    assert main(["info", str(path)]) == 0
    page = capsys.readouterr().out
    assert "images [1, 3, 64, 64]" in page and said["cut"][0] in page


def test_an_open_network_is_described(opened, capsys):
    """Without its head, which needs the shapes."""
    assert main(["info", str(opened)]) == 0
    page = capsys.readouterr().out
    assert "images [open, 3, open, open]" in page and "--imgsz 640" in page


@pytest.mark.parametrize(
    ("said", "words"), [("[320, 320]", "320"), ("[320, 416]", "320,416"), ("wide", "640")]
)
def test_the_size_of_the_export_is_proposed(opened, said, words):
    """Ultralytics writes it into files with open shapes."""
    model = onnx.load_model(str(opened))
    model.metadata_props.add(key="imgsz", value=said)
    opened.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=f"give --imgsz {words} or --shape images:1,3,"):
        plan(opened)


def test_an_open_number_of_images_is_one(tmp_path, capsys):
    """If nothing else is open; shapes of the user's come first."""
    net = nets.classifier()
    channels, *size = net.inputs["images"][1:]
    net.inputs["images"] = ["batch", channels, *size]
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model())
    made = plan(path)
    assert made.size == tuple(size) and "one image at a time" in made.notes[0]
    (given,) = onnx.load_model_from_string(made.onnx).graph.input
    assert [each.dim_value for each in given.type.tensor_type.shape.dim] == [1, channels, *size]
    assert main(["predict", str(path), "--for", "rk3588"]) == 0
    two = plan(path, inputs=["images"], input_size_list=[[2, channels, *size]])
    (given,) = onnx.load_model_from_string(two.onnx).graph.input
    assert given.type.tensor_type.shape.dim[0].dim_value == 2


def test_weights_in_another_file_are_read(beside, tmp_path, monkeypatch, capsys):
    """From any working directory."""
    monkeypatch.chdir(tmp_path)
    made = onnx.load_model_from_string(plan(beside).onnx)
    wanted = onnx.load(str(beside))
    for ours, theirs in zip(made.graph.initializer, wanted.graph.initializer):
        values = onnx.numpy_helper.to_array(ours)
        np.testing.assert_array_equal(values, onnx.numpy_helper.to_array(theirs))
    assert expected_layers(beside)
    assert main(["predict", str(beside), "--for", "rk3588"]) == 0
    Graph(read_onnx(beside))  # as accuracy and Model.compare do
    beside.with_name("net.onnx.data").unlink()
    assert main(["info", str(beside)]) == 1
    assert "net.onnx.data: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("way", ["up", "absolute", "link", "short"])
def test_weights_outside_of_the_folder_are_not_read(beside, tmp_path, way):
    """Weights outside of the folder or beyond the end of a file are refused."""
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(100_000))
    model = onnx.load_model(str(beside), load_external_data=False)
    place = {"up": "../secret", "absolute": str(secret), "link": "link", "short": "short"}[way]
    beside.with_name("link").symlink_to(secret)
    beside.with_name("short").write_bytes(bytes(3))
    for tensor in model.graph.initializer:
        for each in tensor.external_data:
            if each.key == "location":
                each.value = place
    beside.write_bytes(model.SerializeToString())
    message = "is cut short" if way == "short" else "outside of"
    for read in (plan, read_onnx):
        with pytest.raises(InvalidModelError, match=message):
            read(beside)


def test_defaults_that_the_toolkit_reads_are_written(tmp_path):
    """LayerNormalization may leave out its epsilon and axis; given ones stay."""
    net = nets.Net()
    x = net.features()[1]
    one = net.const(np.ones(8))
    x = net.op("LayerNormalization", x, one, one)
    net.output("out", net.op("LayerNormalization", x, one, one, axis=3, epsilon=0.5))
    floats = onnx.TensorProto.FLOAT
    given = [onnx.helper.make_tensor_value_info(n, floats, s) for n, s in net.inputs.items()]
    ends = [onnx.helper.make_tensor_value_info("out", floats, [1, 16, 8, 8])]
    graph = onnx.helper.make_graph(net.nodes, "net", given, ends, net.values)
    opset = [onnx.helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    path.write_bytes(
        onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    nodes = onnx.load_model_from_string(plan(path).onnx).graph.node
    found = [
        {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        for node in nodes
        if node.op_type == "LayerNormalization"
    ]
    assert found == [{"axis": -1, "epsilon": pytest.approx(1e-5)}, {"axis": 3, "epsilon": 0.5}]


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize(
    ("bounds", "operators"),
    [
        ({}, ["Identity"]),
        ({"min": 0.0}, ["Relu"]),
        ({"min": -0.5}, ["Max"]),
        ({"max": 0.5}, ["Min"]),
        ({"min": -0.5, "max": 0.5}, ["Max", "Min"]),
        ({"min": -3.4e38, "max": 0.5}, ["Min"]),
        ({"min": 0.0, "max": 6.0}, ["Clip"]),
    ],
)
def test_a_clip_that_the_toolkit_compiles_wrongly_is_replaced(tmp_path, opset, bounds, operators):
    """It takes an open bound for 0, and a lower one for RV1106 as a whole number."""
    ort = pytest.importorskip("onnxruntime")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    names = [side if side in bounds else "" for side in ("min", "max")]
    clip = helper.make_node("Clip", ["x", *names], ["y"])
    if opset < 11:
        clip = helper.make_node("Clip", ["x"], ["y"], **bounds)
    graph = helper.make_graph(
        [clip, helper.make_node("Tanh", ["y"], ["z"])],
        "clip",
        [helper.make_tensor_value_info("x", floats, [1, 8, 4, 4])],
        [helper.make_tensor_value_info("z", floats, [1, 8, 4, 4])],
        [onnx.numpy_helper.from_array(np.float32(v), k) for k, v in bounds.items() if opset > 10],
    )
    opsets = [helper.make_opsetid("", opset)]
    path = tmp_path / "net.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    made = plan(path).onnx
    assert [node.op_type for node in onnx.load_model_from_string(made).graph.node][:-1] == operators

    array = np.linspace(-9, 9, 128, dtype=np.float32).reshape(1, 8, 4, 4)
    before, after = (
        ort.InferenceSession(each, providers=["CPUExecutionProvider"]).run(None, {"x": array})[0]
        for each in (path.read_bytes(), made)
    )
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("groups", "norm", "how", "is_replaced"),
    [
        (8, False, "shuffle", True),
        (2, True, "shuffle", True),
        (2, False, "gather", True),
        (1, False, "shuffle", False),  # the toolkit's way is right
        (2, False, "relu", False),  # as it is here
        (2, False, "output", False),  # others see the tensor that was not shuffled
        (2, False, "repeat", False),  # a Gather that is no order
    ],
)
def test_a_shuffle_that_the_toolkit_leaves_out_is_replaced(
    tmp_path, groups, norm, how, is_replaced
):
    """It takes the order into the weights of the Conv before, also where that has groups."""
    ort = pytest.importorskip("onnxruntime")
    make, floats = onnx.helper.make_node, onnx.TensorProto.FLOAT
    random = np.random.default_rng(0)
    tensors = {
        "w": random.standard_normal((8, 8 // groups, 1, 1)).astype(np.float32),
        "norm": random.uniform(0.5, 2, 8).astype(np.float32),
        "apart": np.array([1, 4, 2, 5, 3]),
        "whole": np.array([1, -1, 5, 3]),
        "order": np.array([0, 2, 4, 6, 1, 3, 5, -1 if how == "gather" else 5]),
    }
    nodes, last = [make("Conv", ["x", "w"], ["c"], group=groups)], "c"
    if norm:
        nodes.append(make("BatchNormalization", ["c", *["norm"] * 4], ["n"]))
        last = "n"
    if how == "relu":
        nodes.append(make("Relu", ["c"], ["n"]))
        last = "n"
    if how in ("gather", "repeat"):
        nodes.append(make("Gather", [last, "order"], ["y"], axis=1))
    else:
        nodes += [
            make("Reshape", [last, "apart"], ["a"]),
            make("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3, 4]),
            make("Reshape", ["t", "whole"], ["y"]),
        ]
    names = ["y", "c"] if how == "output" else ["y"]
    graph = onnx.helper.make_graph(
        nodes,
        "shuffle",
        [onnx.helper.make_tensor_value_info("x", floats, [1, 8, 5, 3])],
        [onnx.helper.make_tensor_value_info(name, floats, [1, 8, 5, 3]) for name in names],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    path = tmp_path / "net.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    made = plan(path).onnx
    operators = [node.op_type for node in onnx.load_model_from_string(made).graph.node]
    assert (operators.count("Conv") == 2) == is_replaced
    assert ("Transpose" in operators or "Gather" in operators) != is_replaced

    array = random.standard_normal((1, 8, 5, 3)).astype(np.float32)
    before, after = (
        ort.InferenceSession(each, providers=["CPUExecutionProvider"]).run(None, {"x": array})
        for each in (path.read_bytes(), made)
    )
    for each, same in zip(before, after):
        np.testing.assert_allclose(same, each, rtol=1e-6)


def test_every_output_has_a_name(tmp_path):
    """The toolkit cannot build a node with an output that is left out."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    given = [helper.make_tensor_value_info("x", floats, [5, 1, 4])]
    ends = [helper.make_tensor_value_info("last", floats, [1, 1, 8])]
    weights = [
        onnx.numpy_helper.from_array(np.ones((1, 32, size), np.float32), name)
        for name, size in (("w", 4), ("r", 8))
    ]
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "last", ""], hidden_size=8)
    graph = helper.make_graph([node], "net", given, ends, weights)
    path = tmp_path / "net.onnx"
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    (node,) = onnx.load_model_from_string(plan(path).onnx).graph.node
    assert list(node.output) == ["unused_0_0", "last"]
