"""The operators of a model file, one by one."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import Vector, standard_model, tensor, u8, u32
from paths import DATA, PROJECT

from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import Layer, LayerTensor, read_layers

MODELS = DATA / "models"


def by_operator(path: str) -> dict[str, Layer]:
    return {layer.operator: layer for layer in read_layers(MODELS / path)}


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_a_layer_says_shapes_bytes_and_multiplications(soc: str) -> None:
    """Two convolutions of an image of 37 x 21; channels and pixels as they are padded."""
    layers = by_operator(f"ic3_w37_{soc}.rknn")
    assert layers["ConvRelu"].inputs == (
        LayerTensor("images", (1, 3, 21, 37), TensorType.INT8, 21 * 37 * 3),
    )
    assert layers["ConvRelu"].outputs[0].shape == (1, 16, 21, 37)
    assert layers["ConvRelu"].output_bytes == 777 * 16
    assert layers["ConvRelu"].macs == 16 * 21 * 37 * 3 * 3 * 3
    assert layers["Conv"].macs == 24 * 21 * 37 * 16
    assert layers["Conv"].output_bytes == 2 * 777 * 16
    assert layers["Conv"].weight_bytes >= 24 * 16 + 24 * 4
    assert {layers["Conv"].device, layers["ConvRelu"].device} == {"NPU"}
    assert layers["ConvRelu"].tasks


@pytest.mark.parametrize(
    ("model", "macs"),
    [
        # Two convolutions, the mean over 16 x 16 pixels in two steps of 7 x 7 and 3 x 3 that the
        # compiler made, and a product of 1000 x 16.
        (
            "fc1000_softmax_rv1106",
            16 * 256 * 27 + 16 * (9 * 49 + 9) + 1000 * 16,
        ),
        # The biggest of the shapes.
        ("dyn_in_rk3588", 48 * 40 * (16 * 27 + 24 * 16)),
        # Channels that nobody convolves count as well: of a vector of 8.
        ("mi_img_vec_rk3588", 16 * 1024 * 27 + 16 * (25 * 49 + 25) + 24 * 12),
        ("i16_ic1_w37_rk3588", 21 * 37 * 16 * 9 + 21 * 37 * 16 * 24),
    ],
)
def test_multiplications_are_those_of_the_shapes(model: str, macs: int) -> None:
    """They equal a count by hand; layers that become convolutions count as such."""
    assert sum(layer.macs for layer in read_layers(MODELS / f"{model}.rknn")) == macs


def test_both_containers_hold_the_same_network() -> None:
    """The example's files for two SoCs: the same multiplications and shapes, other bytes."""
    one, other = (
        read_layers(PROJECT / "examples" / "models" / f"shapes_{soc}.rknn")
        for soc in ("rk3588", "rv1106")
    )
    assert sum(layer.macs for layer in one) == sum(layer.macs for layer in other) == 230_696_000
    wide = [layer.outputs[0].shape for layer in one if layer.macs]
    assert wide == [layer.outputs[0].shape for layer in other if layer.macs]
    assert [layer.name for layer in one if layer.device == "CPU"] == ["/Reshape_2"]
    assert one[0].device == one[-1].device == ""


def product(operator: str, *shapes: tuple[int, ...], kernel: tuple[int, ...] = ()) -> Layer:
    """The layer of a model of one operator, of inputs and an output of these shapes."""
    *inputs, output = (tensor(f"t{i}", shape, shape, layout=2) for i, shape in enumerate(shapes))
    if kernel:
        inputs.append({**tensor("w", kernel, kernel, reserved=640), 2: u8(4)})
    node: dict[int, Any] = {1: operator, 2: f"{operator}:it", 3: u8(2)}
    node[4], node[5] = Vector("i", *range(len(inputs))), Vector("i", len(inputs))
    model = standard_model(inputs, [output], nodes=[node], padding=4096)
    return read_layers(model)[0]


@pytest.mark.parametrize(
    ("shapes", "macs"),
    [
        (((1, 2, 400, 32), (1, 2, 32, 300), (1, 2, 400, 300)), 2 * 400 * 32 * 300),
        (((3, 32, 1, 400), (3, 32, 1, 300), (3, 400, 1, 300)), 3 * 400 * 32 * 300),
        (((5, 7), (7, 9), (5, 9)), 5 * 7 * 9),
        (((1, 512, 1, 24), (1, 512, 1, 1), (1, 24, 1, 1)), 512 * 24),
    ],
)
def test_products_of_run_time_matrices(shapes: tuple[tuple[int, ...], ...], macs: int) -> None:
    """In ONNX's order of the axes and in the compiler's, where the first is the batch."""
    assert product("MatMul", *shapes).macs == macs


def test_attention_counts_both_products() -> None:
    """Query by key and weights by values, for each head."""
    found = product("exSDPAttention", *[(2, 32, 1, 400)] * 2, (2, 64, 1, 400), (2, 64, 1, 400))
    assert found.macs == 2 * 400 * 400 * (32 + 64)


@pytest.mark.parametrize(
    ("operator", "shapes", "kernel", "macs"),
    [
        ("ConvExSwish", ((1, 8, 9, 9), (1, 8, 5, 5)), (1, 8, 3, 3), 8 * 25 * 9),
        ("ConvAdd", ((1, 8, 9, 9), (1, 8, 9, 9), (1, 6, 9, 9)), (6, 4, 1, 1), 81 * 6 * 4),
        ("ConvTranspose", ((1, 8, 9, 9), (1, 4, 18, 18)), (8, 4, 2, 2), 81 * 8 * 4 * 4),
    ],
    ids=["depthwise", "in groups", "transposed"],
)
def test_kinds_of_convolutions(
    operator: str, shapes: tuple[tuple[int, ...], ...], kernel: tuple[int, ...], macs: int
) -> None:
    """One kernel per channel, kernels of a group's channels, and pixels that are spread."""
    found = product(operator, *shapes, kernel=kernel)
    assert (found.macs, found.weight_bytes, len(found.inputs)) == (macs, 640, len(shapes) - 1)


def test_a_node_that_names_too_much_is_damage() -> None:
    """Work is bounded by the size of the file, however often nodes name one long list."""
    one = tensor("x", (1, 8), (1, 8))
    node = {1: "Add", 2: "Add:it", 4: Vector("i", *[0] * 3000), 5: Vector("i", 0)}
    model = standard_model([one], [one], nodes=[node] * 60)
    with pytest.raises(InvalidModelError, match="name more tensors than"):
        read_layers(model)
    missing = {1: "Add", 2: "Add:it", 4: Vector("i", -1, 77), 5: Vector("i", 0), 9: u32(0)}
    assert read_layers(standard_model([one], [one], nodes=[missing], padding=999))[0].inputs == ()
