"""The whole way, with a stand-in in the toolkit's place."""

from __future__ import annotations

import json
import pickle
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from nets import CLASSES, SIZE, Net, anchor_free, anchored, yolox
from paths import PROJECT

from rknn_runtime import RknnError, convert, letterbox
from rknn_runtime.cli.main import main
from rknn_runtime.conversion.accuracy import compare
from rknn_runtime.conversion.convert import _builder
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.ladder import ALL
from rknn_runtime.conversion.toolkit import ToolkitError, run_job

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

SCENES = PROJECT / "examples/scenes"
SHAPES = PROJECT / "examples/models/shapes.onnx"
#: The file that the stand-in "builds".
MODEL = PROJECT / "examples/models/shapes_rk3588.rknn"
NAMES = {i: f"thing {i}" for i in range(CLASSES)}


@pytest.fixture
def network(tmp_path):
    """A detector as Ultralytics exports it."""
    path = tmp_path / "best.onnx"
    path.write_bytes(anchor_free().model(names=str(NAMES), task="detect", stride="32"))
    return path


def test_a_detector_is_cut_and_described(toolkit_process, network):
    """The toolkit gets the cut graph, letterboxed images, and what Detector needs to know."""
    said = []
    made = convert(
        network, "rk3588", calibrate=SCENES, report=False, environment=toolkit_process.folder,
        progress=said.append,
    )  # fmt: skip
    assert made.path == network.with_name("best_rk3588.rknn")
    assert made.path.read_bytes() == MODEL.read_bytes()
    assert made.head == "yolov8-split"
    assert OnnxGraph(toolkit_process.onnx, "x").outputs == list(made.cut)
    assert said == ["import", "config", "load_onnx", "build", "export_rknn"]
    calls = toolkit_process.calls
    assert calls["config"]["target_platform"] == "rk3588"
    assert calls["config"]["mean_values"] == [[0, 0, 0]]
    assert calls["config"]["std_values"] == [[255, 255, 255]]
    assert json.loads(calls["config"]["custom_string"]) == {
        "labels": list(NAMES.values()),
        "head": "yolov8-split",
        "options": {"logits": True},
        "task": "detect",
        "input": {"width": SIZE, "height": SIZE, "color": "RGB"},
    }
    assert calls["build"] == {"do_quantization": True, "files": 2}
    pixels = np.load(toolkit_process.first_image)
    expected, _ = letterbox(sorted(SCENES.iterdir())[0], (SIZE, SIZE))
    assert np.array_equal(pixels[0].transpose(1, 2, 0), expected)


@pytest.mark.parametrize(
    ("family", "color", "mean", "std"),
    [
        ("YOLOX", "BGR", [0, 0, 0], [1, 1, 1]),
        ("Ultralytics", "RGB", [0, 0, 0], [255, 255, 255]),
        ("a text detector of PaddleOCR", "BGR", [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]),
    ],
)
def test_families_have_their_own_colours_and_means(toolkit, tmp_path, family, color, mean, std):
    """A note names them; the user's own values win."""
    metadata = {}
    if family == "YOLOX":
        net = yolox()
    elif family == "Ultralytics":
        net, metadata = anchor_free(), {"author": "Ultralytics"}
    else:
        net = Net()
        net.output("map", net.op("Sigmoid", net.conv("images", 3, 1)))
        for node in net.nodes:
            node.name = f"p2o.{node.op_type}.0"
    path = tmp_path / "x.onnx"
    path.write_bytes(net.model(**metadata))
    made = convert(path, "rk3588")
    assert any(note.startswith(f"{family} by its graph: {color}, mean") for note in made.notes)
    config = toolkit.calls["config"]
    assert (config["mean_values"], config["std_values"]) == ([mean], [std])
    said = json.loads(config["custom_string"])
    assert said["input"]["color"] == color
    assert (said.get("task") == "text-detection") == family.startswith("a text detector")
    made = convert(path, "rk3588", color="RGB", mean=[1, 2, 3])
    assert not any("by its graph" in note for note in made.notes)
    config = toolkit.calls["config"]
    assert (config["mean_values"], config["std_values"]) == ([[1, 2, 3]], [[255, 255, 255]])
    assert "BGR" not in config.get("custom_string", "")


def text_line(characters):
    """A text recognizer as paddle2onnx writes it: 16 steps of a line of 32 x 128 pixels."""
    net = Net()
    net.inputs["images"] = [1, 3, 32, 128]
    net.output("scores", net.reshape(net.conv("images", 3, 4, 3, 8), 1, 16, 16))
    for node in net.nodes:
        node.name = f"p2o.{node.op_type}.0"
    return net.model(character=characters)


def test_a_text_recognizer_keeps_its_characters(toolkit, tmp_path, capsys):
    """In the custom string; if they do not fit, in a file next to the model, which a note names."""
    path = tmp_path / "line.onnx"
    path.write_bytes(text_line("a\nb\n \n"))
    photos = tmp_path / "photos"
    photos.mkdir()
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (64, 32), (200, 200, 200)).save(photos / "a.png")
    made = convert(path, "rk3588", calibrate=photos, report=False, environment=toolkit.folder)
    said = json.loads(toolkit.calls["config"]["custom_string"])
    assert said["task"] == "text-recognition" and said["characters"] == "ab "
    assert said["input"] == {"width": 128, "height": 32, "color": "BGR"}
    assert ", read by TextRecognizer\n" in str(made) and made.task == "text-recognition"
    assert not any(note.startswith("not cut") for note in made.notes)
    pixels = np.load(toolkit.first_image)[0]
    assert np.all(pixels[:, :, :64] == 200) and np.all(pixels[:, :, 64:] == 127)
    assert main(["info", str(path)]) == 0
    assert "read by  TextRecognizer" in capsys.readouterr().out
    many = [chr(0x4E00 + i) for i in range(500)]
    path.write_bytes(text_line("\n".join(many)))
    made = convert(path, "rk3588", report=False, environment=toolkit.folder)
    assert "characters" not in json.loads(toolkit.calls["config"]["custom_string"])
    keys = made.path.with_suffix(".txt")
    assert any(f"characters={str(keys)!r}" in note for note in made.notes)
    assert keys.read_text("utf-8").splitlines() == many


@pytest.mark.parametrize("channels", [1, 5])
def test_pixels_that_are_no_colours_are_normalized_by_channel(toolkit, tmp_path, channels):
    """One mean for a gray image; none for what is no image, unless it is given."""
    net, path = Net(), tmp_path / "x.onnx"
    net.inputs = {"images": [1, channels, SIZE, SIZE]}
    net.output("last", net.conv("images", channels, 2))
    path.write_bytes(net.model())
    convert(path, "rk3588", environment=toolkit.folder, report=False)
    means = [toolkit.calls["config"].get(name) for name in ("mean_values", "std_values")]
    assert means == ([[[0.0]], [[255.0]]] if channels == 1 else [None, None])


def test_of_several_inputs_none_is_normalized_unless_it_is_said_how(toolkit, tmp_path):
    """A note names the image; what is given goes to the toolkit, even if it is the usual."""
    net, path = Net(), tmp_path / "x.onnx"
    net.inputs = {"words": [1, 2, SIZE, SIZE], "images": [1, 3, SIZE, SIZE]}
    both = net.op("Concat", "words", "images", axis=1)
    net.output("last", net.conv(both, 5, 2))
    path.write_bytes(net.model())
    made = convert(path, "rk3588", environment=toolkit.folder, report=False)
    assert "mean_values" not in toolkit.calls["config"]
    assert any(note.startswith("'images' gets pixels as the network") for note in made.notes)
    rows = {"mean_values": [[0, 0], [0, 0, 0]], "std_values": [[1, 1], [255, 255, 255]]}
    for given in ({"config": rows}, {"mean": (0, 0, 0), "std": (255, 255, 255)}):
        made = convert(path, "rk3588", environment=toolkit.folder, report=False, **given)
        wanted = given.get("config", {"mean_values": [[0, 0, 0]]})["mean_values"]
        assert toolkit.calls["config"]["mean_values"] == wanted
        assert not any("gets pixels" in note for note in made.notes)


def test_the_file_says_that_scores_are_logits(toolkit, network):
    """Their ranges may not tell it; without images nothing is quantized."""
    convert(network, "rk3588", environment=toolkit.folder)
    assert toolkit.calls["build"] == {"do_quantization": False, "files": 0}
    said = json.loads(toolkit.calls["config"]["custom_string"])
    assert said["options"] == {"logits": True}


def test_labels_come_from_a_file(toolkit, network, tmp_path):
    """And travel with the network."""
    path = tmp_path / "names.txt"
    path.write_text("".join(f"kind {i}\n" for i in range(CLASSES)))
    convert(network, "rk3588", labels=path, environment=toolkit.folder, report=False)
    assert "kind 2" in toolkit.calls["config"]["custom_string"]


def test_shapes_are_given_to_networks_alone(toolkit, tmp_path, capsys):
    """A file of another framework has no inputs that are open."""
    words = ["convert", str(tmp_path / "x.tflite"), "--for", "rk3588", "--imgsz", "64"]
    (tmp_path / "x.tflite").write_bytes(b"x")
    assert main(words) == 1
    assert "--imgsz, --shape: expected an .onnx file" in capsys.readouterr().err


def test_the_graph_can_be_kept(toolkit, network):
    """Then Detector finds the head itself."""
    made = convert(network, "rk3588", keep_graph=True, environment=toolkit.folder)
    assert made.cut == ()
    assert OnnxGraph(toolkit.onnx, "x").outputs == ["output0"]
    assert "head" not in json.loads(toolkit.calls["config"]["custom_string"])


def test_networks_of_other_programs_get_no_custom_string(toolkit, tmp_path):
    """Immich reads its own text there; a file of a network that is no detector has none."""
    path = tmp_path / "embedding.onnx"
    net = Net()
    net.outputs = [net.features()[1]]
    path.write_bytes(net.model())
    convert(path, "rk3588", report=False, environment=toolkit.folder)
    assert "custom_string" not in toolkit.calls["config"]
    convert(path, "rk3588", color="BGR", report=False, environment=toolkit.folder)
    said = json.loads(toolkit.calls["config"]["custom_string"])
    assert said == {"input": {"width": SIZE, "height": SIZE, "color": "BGR"}}


def test_anchors_travel_with_the_file(toolkit, tmp_path):
    """YOLOv5's, however they were trained."""
    path = tmp_path / "v5.onnx"
    path.write_bytes(anchored().model())
    convert(path, "rk3588", calibrate=SCENES, report=False, environment=toolkit.folder)
    said = json.loads(toolkit.calls["config"]["custom_string"])
    assert said["head"] == "yolov5"
    assert said["options"]["anchors"][0][0] == [10, 13]


def test_too_many_names_are_said_to_be_left_out(toolkit, tmp_path):
    """The toolkit takes 1023 bytes."""
    path = tmp_path / "x.onnx"
    path.write_bytes(anchor_free().model(names=str(dict.fromkeys(range(CLASSES), "x" * 400))))
    made = convert(path, "rk3588", environment=toolkit.folder)
    assert "labels" not in json.loads(toolkit.calls["config"]["custom_string"])
    assert any("give labels= to Detector" in note for note in made.notes)


def test_parameters_reach_the_toolkit_by_their_names(toolkit, network, capsys):
    """As flags, and any of them as KEY=VALUE."""
    words = ["convert", str(network), "--for", "rk3588", "--no-report", "--quiet"]
    words += ["--environment", str(toolkit.folder), "--calibrate", str(SCENES)]
    words += ["--quantized-algorithm", "mmse", "--optimization-level", "2", "--single-core-mode"]
    words += ["--config", "op_target={'a': 'cpu'}", "--config", "compress_weight=True"]
    assert main(words) == 0
    config = toolkit.calls["config"]
    assert config["quantized_algorithm"] == "mmse"
    assert config["optimization_level"] == 2
    assert config["single_core_mode"] is True
    assert config["op_target"] == {"a": "cpu"}
    assert config["compress_weight"] is True
    for text in ('{"dims":[{}]}', ""):  # kept as text
        assert main([*words, "--config", f"custom_string={text}"]) == 0
        assert toolkit.calls["config"]["custom_string"] == text
    assert "cut at 4 tensors, head yolov8-split" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 1.5}, "target: expected a number above 0 and up to 1"),
        ({"calibrate": None}, "a folder of images to calibrate with"),
        ({"without": ["magic"]}, "without: expected names of channels, weights, ranges, float16"),
        ({"config": {"quantized_algorithm": "mmse"}}, "quantized_algorithm: expected none with"),
        ({"build": {"rknn_batch_size": 2}}, "rknn_batch_size: expected none with a target"),
    ],
)
def test_what_a_target_does_not_go_with_is_refused_before(network, options, message):
    """No toolkit is started."""
    with pytest.raises(ValueError, match=message):
        convert(network, "rk3588", **{"target": 0.9, "calibrate": SCENES, **options})


def test_a_report_compares_with_the_network_in_float(toolkit, tmp_path, capsys):
    """As text, JSON and a page that needs nothing else; here the file that belongs to it."""
    table, page = tmp_path / "x.json", tmp_path / "x.html"
    words = ["convert", str(SHAPES), "--for", "rk3588", "--quiet", "--keep-graph"]
    words += ["--environment", str(toolkit.folder), "--calibrate", str(SCENES)]
    words += ["-o", str(tmp_path / "x.rknn"), "--report", str(table), "--html", str(page)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "judged by the simulated NPU of this package" in text
    assert "worst layers:" in text
    assert "on the CPU: " in text
    said = json.loads(table.read_text())["report"]
    assert said["accuracy"]["frames"] == 2
    assert said["accuracy"]["outputs"][0]["cosine"] > 0.99
    assert len(said["layers"]) == 5
    assert said["file_bytes"] == MODEL.stat().st_size
    shown = page.read_text()
    assert "<h2>Worst layers</h2>" in shown
    assert not re.search(r'(src|href)="(?!data:)', shown)


def test_what_the_simulated_npu_refuses_is_judged_by_the_toolkits_simulator(
    toolkit, tmp_path, monkeypatch
):
    """With the reason in a note; the images are the same arrays."""
    graph = OnnxGraph(SHAPES.read_bytes(), "x")
    sys.modules["rknn.api"].SHAPES += [graph.shape(name) for name in graph.outputs]
    simulated = []

    def refused(*arguments, **options):
        if not isinstance(arguments[1], list):
            raise RknnError("no")
        simulated.extend(arguments[1])
        return compare(*arguments, **options)

    monkeypatch.setattr("rknn_runtime.conversion.report.compare", refused)
    made = convert(
        SHAPES, "rk3588", tmp_path / "x.rknn", calibrate=SCENES, keep_graph=True,
        environment=toolkit.folder,
    )  # fmt: skip
    assert made.report.by == "the toolkit's simulator"
    assert made.report.on_cpu is None
    size = graph.shape("images")[2:]
    frames = [letterbox(str(path), size)[0] for path in sorted(SCENES.iterdir())]
    assert [outputs[0].flat[0] for outputs in simulated] == [frame.mean() for frame in frames]
    assert toolkit.calls["inference"] == {"data_format": ["nchw"]}
    assert "not run on the simulated NPU: no" in made.notes
    assert "on the CPU: not known" in str(made)


def test_a_simulator_that_gives_nothing_fails_the_step(toolkit, tmp_path, monkeypatch):
    """It prints why and returns None."""
    np.save(tmp_path / "x.npy", np.zeros(3))
    monkeypatch.setenv("STAND_IN_FAILS", "inference")
    steps = {"simulate": {"inputs": [[str(tmp_path / "x.npy")]], "folder": str(tmp_path)}}
    with pytest.raises(ToolkitError, match=r"failed in inference: .*returned nothing"):
        run_job(None, steps)


def test_a_climb_ends_where_the_target_is_reached(toolkit, tmp_path, capsys):
    """Here with the first file, which is built by the steps that take ranges and types."""
    words = ["convert", str(SHAPES), "--for", "rk3588", "--keep-graph", "--calibrate", str(SCENES)]
    words += ["--environment", str(toolkit.folder), "--target", "0.9"]
    assert main([*words, "-o", str(tmp_path / "x.rknn"), "--no-report"]) == 0
    assert toolkit.calls["hybrid_quantization_step2"]["custom_quantize_layers"] == {}
    assert "build" not in toolkit.calls
    assert "the target is reached" in capsys.readouterr().out
    assert (tmp_path / "x.rknn").read_bytes() == MODEL.read_bytes()


def test_ranges_and_float16_reach_the_toolkit(toolkit, tmp_path):
    """Float16 takes along what lies inside of a fused layer; a range per channel stays."""
    net = Net()
    first = net.op("Relu", "images", name="first")
    fused = net.op("Relu", net.op("Relu", first, name="inner"), name="fused")
    net.output("last", net.op("Relu", fused, name="after"))
    onnx = net.model()
    (tmp_path / "network.model").write_bytes(onnx)
    row = {"qmethod": "layer", "min": [0.0], "max": [6.0]}
    channels = {"qmethod": "channel", "min": [0.0, 1.0], "max": [2.0, 3.0]}
    rows = {"first": row, "fused": row, "inner": row, "weights": channels}
    sys.modules["rknn.api"].RANGES.update(rows)
    (tmp_path / "list.txt").write_text("a.npy\nb.npy\n")
    job = {
        "config": {"target_platform": "rk3588"},
        "load": {"call": "load_onnx", "arguments": {}},
        "build": {"dataset": str(tmp_path / "list.txt")},
    }
    build, path = _builder(None, job, tmp_path), tmp_path / "x.rknn"
    ranges = {"first": (-1.0, 3.0), "weights": (0.0, 1.0)}
    own = build(onnx, ranges, ["fused"], ["first", "fused"], path)
    assert own == {"first": [0.0, 6.0], "fused": [0.0, 6.0], "inner": [0.0, 6.0]}
    assert toolkit.calls["hybrid_quantization_step1"]["dataset"] == "a.npy\n"
    table = toolkit.calls["hybrid_quantization_step2"]
    assert table["custom_quantize_layers"] == {"fused": "float16", "inner": "float16"}
    changed = {"qmethod": "layer", "min": [-1.0], "max": [3.0]}
    assert table["quantize_parameters"] == {**rows, "first": changed}
    assert path.read_bytes() == MODEL.read_bytes()
    assert build(onnx, {}, [ALL], [], path) == {}
    assert toolkit.calls["build"] == {"do_quantization": False, "files": 0}


def with_operator(kind, **attributes):
    """A network that ends in an operator."""
    net = Net()
    net.output("output0", net.op(kind, net.features()[1], **attributes))
    return net.model()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"soc": "rk9999"}, "soc: expected one of rk3562"),
        ({"soc": "rv1106"}, "calibrate: expected a folder of images for rv1106.*no float16"),
        ({"soc": "rv1106", "calibrate": SCENES, "config": {"dynamic_input": [[[1]]]}},
         "dynamic_input: expected none for rv1106"),
        ({"calibrate": "/none"}, "calibrate: expected a folder of images, got '/none'"),
        ({"evaluate": "/none"}, "evaluate: expected a folder"),
        ({"calibrate": PROJECT / "csrc/decl"}, "calibrate: expected images .* got none"),
        ({"config": {"quantised_dtype": "x"}}, "got 'quantised_dtype': 'quantized_dtype'"),
        ({"config": {"mini_rknn": True}}, r"config: expected a parameter of rknn-toolkit2 2\.3\.2"),
        ({"load": {"model": "x"}}, "load: expected a parameter of .*load_onnx"),
        ({"build": 3}, "build: expected a mapping, got int"),
        ({"color": "rgb"}, "color: expected"),
        ({"mean": "abc"}, "mean: expected a number for each channel"),
        ({"head": "yolov99"}, "head: expected"),
        ({"head": "yolox"}, "no yolox head"),
        ({"task": "boxes"}, "task: expected one of .*, got 'boxes'"),
        ({"labels": ["one"]}, "labels"),
        ({"toolkit": "1.0"}, "toolkit: expected"),
        ({"load": {"outputs": ["none"]}}, "outputs: expected names of tensors"),
        ({"calibrate": SCENES, "limit": 0}, "limit: expected"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_work_is_refused_before(toolkit, network, monkeypatch, options, words):
    """Nothing is installed or built for it, and nothing written."""
    monkeypatch.setattr("rknn_runtime.conversion.convert.toolkit_python", None)
    before = sorted(network.parent.iterdir())
    arguments = {"soc": "rk3588", "head": "auto", **options}
    if options.get("labels"):
        arguments["head"] = "yolov8"
    with pytest.raises((TypeError, ValueError), match=words):
        convert(network, environment=toolkit.folder, **arguments)
    assert sorted(network.parent.iterdir()) == before


def test_operators_that_the_mini_runtime_lacks_are_refused(toolkit, tmp_path, monkeypatch):
    """ArgMax loads on no RV1106."""
    monkeypatch.setattr("rknn_runtime.conversion.convert.toolkit_python", None)
    path = tmp_path / "x.onnx"
    path.write_bytes(with_operator("ArgMax", axis=1, keepdims=1))
    with pytest.raises(ValueError, match="librknnmrt lacks, got ArgMax"):
        convert(path, "rv1106", calibrate=SCENES)


def test_open_shapes_are_refused_or_given(toolkit, tmp_path):
    """With what to say."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load_model_from_string(anchor_free().model())
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        ValueError, match=r"expected fixed shapes, got .*--imgsz 640.*input_size_list"
    ):
        convert(path, "rk3588", environment=toolkit.folder)
    load = {"inputs": ["images"], "input_size_list": [[1, 3, SIZE, SIZE]]}
    made = convert(path, "rk3588", load=load, environment=toolkit.folder)
    assert made.head == "yolov8-split"
    assert toolkit.calls["load_onnx"] == load


def test_other_files_are_handed_through(toolkit, tmp_path):
    """Nothing of them is looked into."""
    path = tmp_path / "x.tflite"
    path.write_bytes(b"tflite")
    made = convert(path, "rk3588", load={"input_is_nchw": True}, environment=toolkit.folder)
    assert toolkit.calls["load_tflite"] == {"model": str(path), "input_is_nchw": True}
    assert made.notes == ("not an ONNX file: it is not cut, and its head is not looked for",)
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/code/__torch__.py", "")
    load = {"input_size_list": [[1, 3, 8, 8]]}
    with pytest.raises(ValueError, match="with_torch: expected True"):
        convert(tmp_path / "x.pt", "rk3588", load=load, environment=toolkit.folder)
    with pytest.raises(ValueError, match="load: expected 'input_size_list', which load_pytorch"):
        convert(tmp_path / "x.pt", "rk3588", environment=toolkit.folder)
    with pytest.raises(ValueError, match=r"model: expected a file of \.onnx.*yolo export"):
        convert(tmp_path / "best.safetensors", "rk3588")
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "none.onnx", "rk3588")


@pytest.mark.parametrize("kind", ["zip", "older"])
def test_weights_are_no_network(toolkit, tmp_path, kind):
    """``best.pt`` has to be exported, and the message is the command."""
    path = tmp_path / "best.pt"
    path.write_bytes(b"\x80\x02" if kind == "older" else b"")
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("best/data.pkl", "")
    words = r"model: expected TorchScript, got the weights .* yolo export model=best\.pt format="
    with pytest.raises(ValueError, match=words):
        convert(path, "rk3588", with_torch=True, environment=toolkit.folder)


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ("build", "rknn-toolkit2 failed in build: the reason"),
        ("build raises", "rknn-toolkit2 failed in build: raised"),
        ("config exits", "rknn-toolkit2 failed in config: its process ended with status 3"),
        ("build dies", "rknn-toolkit2 failed in build: .* signal 9, as when memory runs out"),
    ],
)
def test_its_own_reason_is_told(toolkit_process, network, monkeypatch, capsys, fails, words):
    """In a sentence, with status 1; an old file stays, and the whole log is there for who asks."""
    monkeypatch.setenv("STAND_IN_FAILS", fails)
    path, log = network.with_suffix(".rknn"), network.with_suffix(".log")
    path.write_bytes(b"old")
    with pytest.raises(ToolkitError, match=words) as caught:
        convert(network, "rk3588", path, environment=toolkit_process.folder)
    assert caught.value.step == fails.split()[0].replace("load_onnx", "load")
    assert path.read_bytes() == b"old"
    command = ["convert", str(network), "--for", "rk3588", "--quiet", "--log", str(log)]
    assert main([*command, "--environment", str(toolkit_process.folder), "-o", str(path)]) == 1
    assert re.search(words, capsys.readouterr().err)
    assert "rknn-toolkit2 version" in log.read_text()


def test_arrays_are_taken_as_images(toolkit, network, tmp_path):
    """Of the input's shape; any other is refused with its path."""
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.save(folder / "a.npy", np.full((SIZE, SIZE, 3), 7, np.uint8))
    convert(network, "rk3588", calibrate=folder, report=False, environment=toolkit.folder)
    assert np.load(toolkit.first_image).shape == (1, 3, SIZE, SIZE)
    (folder / "b.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"^\S*b\.png cannot be decoded"):
        convert(network, "rk3588", calibrate=folder, report=False, environment=toolkit.folder)
    (folder / "b.png").unlink()
    np.save(folder / "b.npy", np.zeros((SIZE, 3), np.uint8))
    with pytest.raises(ValueError, match=r"b\.npy: expected \(1, 64, 64, 3\) uint8, got"):
        convert(network, "rk3588", calibrate=folder, report=False, environment=toolkit.folder)


def test_a_listing_of_the_toolkits_own_form_is_handed_on(toolkit, network):
    """It is for networks without an image, or with several inputs."""
    listing = network.with_suffix(".txt")
    array = network.with_suffix(".npy")
    np.save(array, np.zeros(3))
    listing.write_text(f"{array}\n")
    convert(network, "rk3588", calibrate=listing, environment=toolkit.folder)
    assert toolkit.calls["build"] == {"do_quantization": True, "files": 1}
    assert Path(toolkit.first_image).exists()


def test_the_images_of_such_a_listing_are_reported_on(toolkit, tmp_path):
    """If the network takes one image."""
    listing = tmp_path / "photos.txt"
    listing.write_text(f"{SCENES / 'wide.jpg'}\n{SCENES / 'scene.png'}\n")
    made = convert(
        SHAPES, "rk3588", tmp_path / "x.rknn", calibrate=listing, keep_graph=True,
        environment=toolkit.folder,
    )  # fmt: skip
    assert made.report is not None and made.report.accuracy.frames == 2
    # Nothing is cut, but what Detector reads is compared.
    assert made.head == "yolov8-single"
    assert made.report.accuracy.verdict.word == "keep"


def test_a_refusal_survives_pickle():
    """With its step and its log."""
    error = pickle.loads(pickle.dumps(ToolkitError("why", "build", "all of it")))
    assert (str(error), error.step, error.log) == ("why", "build", "all of it")
