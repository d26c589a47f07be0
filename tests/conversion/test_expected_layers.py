"""The layers that are expected of an ONNX graph before it is converted."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, anchor_free

from rknn_runtime.conversion.expected_layers import expected_layers


def layers_of(net, tmp_path, **options):
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model() if isinstance(net, Net) else net)
    return expected_layers(path, **options)


def test_what_follows_a_convolution_is_a_part_of_it(tmp_path):
    """Normalisation, activation, swish and constants; not what somebody else reads before."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    x = net.op("Relu", net.op("Mul", x, net.const(np.float32(0.5))))
    y = net.conv(x, 16, 24)
    y = net.op("Mul", y, net.op("Sigmoid", y))  # a swish
    z = net.conv(y, 24, 24)
    net.output("first", net.op("Relu", z))
    net.output("second", z)
    layers = layers_of(net, tmp_path)
    assert [layer.operator for layer in layers] == ["ConvMulRelu", "ConvSwish", "Conv", "Relu"]
    assert [layer.macs for layer in layers] == [
        32 * 32 * 16 * 27, 32 * 32 * 24 * 16, 32 * 32 * 24 * 24, 0
    ]  # fmt: skip
    assert layers[0].input_bytes == 3 * 64 * 64  # an image is not padded
    assert layers[1].output_bytes == 32 * 32 * 32  # 24 channels lie in two groups
    assert {layer.device for layer in layers} == {"NPU"}


def test_a_sum_is_a_part_of_the_later_convolution(tmp_path):
    """As in ResNet, with the following activation.

    After SiLU the toolkit keeps the sum separate.
    """
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    y = net.op("Add", net.conv(net.op("Relu", net.conv(x, 16, 16)), 16, 16), x)
    y = net.op("Relu", y)
    z = net.conv(y, 16, 16)
    net.output("end", net.op("Add", net.op("Mul", z, net.op("Sigmoid", z)), y))
    layers = layers_of(net, tmp_path)
    names = [layer.operator for layer in layers]
    assert names == ["Conv", "ConvRelu", "ConvAddRelu", "ConvSwish", "Add"]
    assert [tensor.name for tensor in layers[2].inputs] == [layers[1].outputs[0].name, x]
    assert layers[2].kernel == (1, 1)


def test_activations_that_exporters_spell_out(tmp_path):
    """Paddle's HardSwish is one; scales after an activation are separate passes."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    six, three, nought = (net.const(np.float32(value)) for value in (6, 3, 0))
    y = net.op("Mul", x, net.op("Clip", net.op("Add", x, three), nought, six))
    y = net.op("Div", y, six)
    y = net.op("Add", net.op("Mul", y, net.const(np.float32(2))), three)
    first, second = net.op("Split", y, outputs=2, axis=1)
    net.output("end", net.op("Concat", first, second, axis=1))
    names = [layer.operator for layer in layers_of(net, tmp_path)]
    assert names == ["ConvSwish", "Mul", "Add", "Split", "Concat"]


def test_what_the_toolkit_makes_a_convolution_of(tmp_path):
    """The Focus of an image and a channel shuffle; odd channels are put together by a product."""
    net = Net()
    nought, one, two, three, end = (net.const([i], np.int64) for i in (0, 1, 2, 3, 64))
    cut = [
        net.op("Slice", net.op("Slice", "images", y, end, two, two), x, end, three, two)
        for y in (nought, one)
        for x in (nought, one)
    ]
    x = net.conv(net.cat(*cut), 12, 20)
    x = net.reshape(net.cat(x, net.conv(x, 20, 20)), 1, 2, 20, 32, 32)
    x = net.reshape(net.op("Transpose", x, perm=[0, 2, 1, 3, 4]), 1, 40, 32, 32)
    net.output("end", net.op("Relu", x))
    layers = layers_of(net, tmp_path)
    names = [layer.operator for layer in layers]
    assert names == ["Conv", "Conv", "Conv", "Concat", "Conv", "Relu"]
    # Concat_40_2conv of YOLOX-nano has 208 * 208 * 12 * 12, 444-gather_2conv of NanoDet-m 116^2.
    assert layers[0].macs == 32 * 32 * 12 * 12
    assert layers[4].macs == 32 * 32 * 40 * 40
    assert layers[3].weight_bytes == 40 * (32 + 32)
    assert layers[4].output_bytes == 32 * 32 * 48  # in groups again


def test_a_transpose_without_an_order_is_no_shuffle(tmp_path):
    """It turns all axes round; nothing is made a convolution of."""
    net = Net()
    x = net.reshape(net.conv("images", 3, 40), 64, 64, 20, 2, 1)
    net.output("end", net.op("Relu", net.reshape(net.op("Transpose", x), 1, 40, 64, 64)))
    assert [layer.operator for layer in layers_of(net, tmp_path)].count("Conv") == 1


def test_other_products(tmp_path):
    """Grouped and transposed convolutions, and matrices."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    depthwise = net.const(np.ones((16, 1, 3, 3)))
    x = net.op("Conv", x, depthwise, group=16, pads=[1] * 4)
    x = net.op("ConvTranspose", x, net.const(np.ones((16, 8, 2, 2))), strides=[2, 2])
    x = net.op("GlobalAveragePool", x)
    x = net.op("Gemm", net.op("Flatten", x), net.const(np.ones((8, 5))))
    net.output("scores", x)
    found = [(layer.operator, layer.device, layer.macs) for layer in layers_of(net, tmp_path)]
    assert found == [
        ("Conv", "NPU", 32 * 32 * 16 * 27),
        ("Conv", "NPU", 32 * 32 * 16 * 9),
        ("ConvTranspose", "NPU", 32 * 32 * 16 * 8 * 4),
        ("Conv", "NPU", 10 * 10 * 8 * 7 * 7),  # at most 7 x 7 places at once
        ("Conv", "NPU", 2 * 2 * 8 * 7 * 7),
        ("Conv", "NPU", 8 * 2 * 2),
        ("Conv", "NPU", 40),
        ("Reshape", "NPU", 0),  # to the two axes of the output
    ]


def test_matrices_are_kept_with_channels_first(tmp_path):
    """A product with weights is a convolution, and turns are put off until one is needed.

    GELU and a layer normalisation are one operator each.
    """
    net = Net()
    one, two, half, root = (net.const(np.float32(value)) for value in (1, 2, 0.5, 2**0.5))
    x = net.reshape(net.conv("images", 3, 16, 1, 8), 1, 16, 64)
    x = net.op("MatMul", net.op("Transpose", x, perm=[0, 2, 1]), net.const(np.ones((16, 24))))
    x = net.op("Add", x, net.const(np.ones(24)))
    gate = net.op("Add", net.op("Erf", net.op("Div", x, root)), one)
    x = net.op("Mul", net.op("Mul", x, gate), half)
    x = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1]))
    variance = net.op("ReduceMean", net.op("Pow", x, two), axes=[-1])
    x = net.op("Div", x, net.op("Sqrt", net.op("Add", variance, one)))
    x = net.op("Add", net.op("Mul", x, net.const(np.ones(24))), net.const(np.ones(24)))
    net.output("end", net.op("MatMul", x, net.const(np.ones((24, 8)))))
    layers = layers_of(net, tmp_path)
    names = [layer.operator for layer in layers]
    assert names[:2] == ["Conv", "Reshape"]
    assert names[2:] == ["ConvAddSwish", "LayerNorm", "Conv", "Transpose", "Reshape"]
    assert (layers[2].macs, layers[2].kernel) == (64 * 24 * 16, (1, 1))
    assert [tensor.shape for tensor in layers[4].inputs] == [(1, 24, 64)]


def test_means_and_products_that_are_no_convolutions(tmp_path):
    """A mean of one axis alone, and a product with a matrix for each of a batch."""
    net = Net()
    x = net.reshape(net.conv("images", 3, 16, 1, 8), 1024)
    net.output("mean", net.op("ReduceMean", x, axes=[0]))
    net.output("end", net.op("MatMul", net.reshape(x, 2, 8, 64), net.const(np.ones((2, 64, 4)))))
    names = [layer.operator for layer in layers_of(net, tmp_path)]
    assert "ReduceMean" in names and "MatMul" in names


def test_a_softmax_that_ends_the_network_is_float16(tmp_path):
    """Its input is converted; one in the middle stays int8."""
    net = Net()
    x = net.conv("images", 3, 16, 1, 8)
    net.output("end", net.op("Softmax", net.conv(net.op("Softmax", x, axis=1), 16, 16), axis=1))
    layers = layers_of(net, tmp_path)
    found = [(layer.operator, layer.output_bytes) for layer in layers]
    size = 16 * 8 * 8
    assert found[1:3] == [("Softmax", size), ("Conv", size)]
    assert found[3:] == [("DataConvert", 2 * size), ("Softmax", 2 * size)]


@pytest.mark.parametrize(("is_end", "rows"), [(True, (192, 32, 3)), (False, (3072, 512, 48))])
def test_places_of_several_scales_are_joined_by_a_product(tmp_path, is_end, rows):
    """The toolkit takes places for channels, at an output divided by what all have in common."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    parts = [net.conv(x, 16, n * 2, 1, side) for n, side in ((3, 1), (2, 2), (3, 8))]
    parts = [net.reshape(net.op("Transpose", y, perm=[0, 2, 3, 1]), 1, -1, 2) for y in parts]
    x = net.op("Concat", *parts, axis=1)
    net.output("end", x if is_end else net.op("Sigmoid", x))
    (joined,) = (layer for layer in layers_of(net, tmp_path) if layer.operator == "Concat")
    has_odd = any(n % 16 for n in rows)
    assert joined.weight_bytes == (sum(rows) * (sum(rows[:2]) + 16) if has_odd else 0)


def test_a_shuffle_by_gathers_is_cut_once(tmp_path):
    """ShuffleNetV2's: a Reshape, a Transpose and a Split; its second Reshape changes nothing."""
    net = Net()
    x = net.reshape(net.conv("images", 3, 48, 1, 8), 24, 2, 64)
    x = net.reshape(net.op("Transpose", x, perm=[1, 0, 2]), 2, 1, 24, 8, 8)
    first, second = (net.op("Gather", x, net.const(i, np.int64), axis=0) for i in (0, 1))
    net.output("end", net.op("Relu", net.cat(first, net.conv(second, 24, 24))))
    layers = layers_of(net, tmp_path)
    names = [layer.operator for layer in layers]
    assert names[:5] == ["Conv", "Reshape", "Transpose", "Split", "Conv"]
    assert layers[1].output_bytes == 24 * 16 * 64  # two channels lie in a group


def test_an_attention_is_one_layer(tmp_path):
    """Two products of computed matrices with a softmax between; its matrices are not padded."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 8)
    parts = net.op("Split", net.reshape(net.conv(x, 16, 48), 1, 2, 24, 64), outputs=3, axis=2)
    query = net.op("Transpose", parts[0], perm=[0, 1, 3, 2])
    scores = net.op("Mul", net.op("MatMul", query, parts[1]), net.const(np.float32(0.35)))
    weights = net.op("Transpose", net.op("Softmax", scores, axis=3), perm=[0, 1, 3, 2])
    y = net.reshape(net.op("MatMul", parts[2], weights), 1, 16, 8, 8)
    net.output("end", net.conv(y, 16, 16))
    layers = layers_of(net, tmp_path)
    names = [layer.operator for layer in layers]
    assert names == ["Conv", "Conv", "Reshape", "Split", "Attention", "Reshape", "Conv"]
    attention = layers[4]
    assert attention.macs == 2 * (64 * 64 * 8 + 8 * 64 * 64)
    assert attention.input_bytes == 3 * 2 * 8 * 64


def test_sizes_that_the_graph_computes_are_no_layers(tmp_path):
    """As exporters leave them behind."""
    net = Net()
    x = net.conv("images", 3, 16, 3, 2)
    batch = net.op("Gather", net.op("Shape", x), net.const([0], np.int64))
    shape = net.op("Concat", batch, net.const([16, -1], np.int64), axis=0)
    net.output("end", net.op("Reshape", x, shape))
    assert [layer.operator for layer in layers_of(net, tmp_path)] == ["Conv", "Reshape"]


def test_a_detector_is_cut_as_it_will_be_converted(tmp_path):
    """Its tail is the CPU's work then, and no layer, unless the graph shall be kept."""
    data = anchor_free()
    cut, whole = layers_of(data, tmp_path), layers_of(data, tmp_path, keep_graph=True)
    assert len(cut) < len(whole)
    assert all(layer.operator.startswith("Conv") for layer in cut)
    assert sum(layer.macs for layer in cut) <= sum(layer.macs for layer in whole)
