"""A network as an ONNX file of operators that the NPU has."""

from __future__ import annotations

from rknn_runtime.sklearn.network import HIDDEN, Network

__all__ = ["INPUT", "onnx_of"]

INPUT, OUTPUT = "features", "targets"
#: What every version of the toolkit takes.
_OPSET, _IR = 12, 7


def onnx_of(network: Network, batch_size: int) -> bytes:
    """Write ``Gemm`` for every layer, which the toolkit makes a convolution of.

    Args:
        network: The layers.
        batch_size: Rows of an inference.

    Returns:
        The file.

    Raises:
        ImportError: The package onnx is missing.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise ImportError("converting needs the package onnx: pip install 'onnx<=1.18'") from error
    nodes, numbers = [], []
    before, last = INPUT, len(network.weights) - 1
    for i, (weights, bias) in enumerate(zip(network.weights, network.biases)):
        numbers += [
            numpy_helper.from_array(weights, f"weights{i}"),
            numpy_helper.from_array(bias, f"bias{i}"),
        ]
        after = OUTPUT if i == last else f"layer{i}"
        nodes.append(helper.make_node("Gemm", [before, f"weights{i}", f"bias{i}"], [after]))
        if i < last and HIDDEN[network.activation]:
            before, after = after, f"hidden{i}"
            nodes.append(helper.make_node(HIDDEN[network.activation], [before], [after]))
        before = after
    shapes = (network.weights[0].shape[0], network.weights[-1].shape[1])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch_size, size])
        for name, size in zip((INPUT, OUTPUT), shapes)
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], numbers)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR
    )
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data
