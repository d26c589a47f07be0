"""The drawing of a network: ``rknn-runtime info --graph``."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from paths import DATA, PROJECT

from rknn_runtime.cli import main
from rknn_runtime.cli.graph import draw
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile import Layer, LayerTensor, read_layers

SVG = "{http://www.w3.org/2000/svg}"
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"


def layer(name: str, inputs: list[str], outputs: list[str], device: str = "NPU") -> Layer:
    def tensors(names: list[str]) -> tuple[LayerTensor, ...]:
        return tuple(LayerTensor(name, (1, 8), TensorType.INT8, 8) for name in names)

    return Layer("Add", name, device, 1, tensors(inputs), tensors(outputs), 0, 0)


def boxes(drawing: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the boxes of layers."""
    found = []
    for group in ElementTree.fromstring(drawing).iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


@pytest.mark.parametrize("model", [SHAPES, DATA / "models" / "ic5_rv1106.rknn"])
def test_boxes_neither_overlap_nor_leave_the_image(model: Path) -> None:
    """Each layer has one, below all that it reads."""
    layers = read_layers(model)
    drawing = draw("title", layers)
    root = ElementTree.fromstring(drawing)
    places = boxes(drawing)
    assert len(places) == len(layers)
    for number, (left, top, right, bottom) in enumerate(places):
        assert left >= 0 and right <= float(root.attrib["width"])
        assert bottom <= float(root.attrib["height"])
        for other_left, other_top, other_right, _ in places[:number]:
            assert other_top != top or other_right <= left or right <= other_left
    writers = {tensor.name: i for i, one in enumerate(layers) for tensor in one.outputs}
    arrows = 0
    for number, one in enumerate(layers):
        above = {writers[tensor.name] for tensor in one.inputs if writers[tensor.name] < number}
        assert all(places[writer][3] < places[number][1] for writer in above)
        arrows += len(above)
    assert len(root.findall(f"{SVG}path")) == arrows


def test_colours_tell_the_device_and_boxes_their_shapes() -> None:
    """Blue, orange, grey; the legend counts each."""
    layers = [layer("in", [], ["a"], ""), layer("x", ["a"], ["b"]), layer("y", ["b"], ["c"], "CPU")]
    drawing = draw("model.rknn", layers)
    fills = [
        group.find(f"{SVG}rect").attrib["fill"]  # type: ignore[union-attr]
        for group in ElementTree.fromstring(drawing).iter(f"{SVG}g")
    ]
    assert fills == ["#eeeeee", "#dbeafe", "#ffe0b8"]
    texts = [text.text for text in ElementTree.fromstring(drawing).iter(f"{SVG}text")]
    assert texts[:4] == ["model.rknn", "1 on the NPU", "1 on the CPU", "1 ends"]
    assert texts.count("1x8") == 3


def test_a_graph_is_written_as_svg_or_as_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name; a page refers to nothing elsewhere."""
    for name in ("net.svg", "net.html"):
        assert main(["info", "--graph", str(tmp_path / name), str(SHAPES)]) == 0
    ElementTree.parse(tmp_path / "net.svg")
    page = (tmp_path / "net.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and "<svg " in page
    assert page.count("http") == page.count("http://www.w3.org/2000/svg")
    with pytest.raises(SystemExit):
        main(["info", "--graph", "net.png", str(SHAPES)])
    assert "ends in .svg or .html, got 'net.png'" in capsys.readouterr().err
    assert main(["info", "--graph", "net.svg", str(SHAPES), str(SHAPES)]) == 1
    assert "--graph: expected one model, got 2" in capsys.readouterr().err
    assert main(["info", "--graph", str(tmp_path / "no" / "net.svg"), str(SHAPES)]) == 1


def test_a_network_of_too_many_layers_is_refused_and_an_empty_one_drawn() -> None:
    """Ordering takes long where nobody can look; no layers are a legend."""
    with pytest.raises(UnavailableError, match="expected at most 3000 layers"):
        draw("deep", [layer("x", [], [])] * 3001)
    ElementTree.fromstring(draw("none", []))
