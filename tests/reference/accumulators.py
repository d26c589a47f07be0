"""Accumulators of the convolutions of a model, computed from its ONNX file alone.

From the ``.rknn`` file come only scale and zero point of a node's input. The weights are
quantized here as the toolkit does it, per kernel over a range that holds 0, and the sum of
products follows ONNX: ``sum((x - zero point of x) * (q - zero point of the kernel))``.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from reference.npu import Machine


def quantized(weights):
    """Asymmetric int8 per kernel -> ``q - zero point``, integers. All of it in float32."""
    flat = weights.reshape(len(weights), -1).astype(np.float32)
    low, high = np.minimum(flat.min(1), 0), np.maximum(flat.max(1), 0)
    scale = (high - low) / np.float32(255)
    scale[scale == 0] = 1
    zero = np.rint(-128 - low / scale)[:, None]
    q = np.clip(np.rint(flat / scale[:, None] + zero), -128, 127)
    return (q - zero).astype(np.int64).reshape(weights.shape)


def convolved(x, w, strides, pads, dilations, group):
    """ONNX's Conv of integers, zeros outside: ``(C, H, W)``, ``(K, C / group, kh, kw)``."""
    x = np.pad(x, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    kh, kw = ((w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(2))
    rows, columns = (x.shape[1] - kh) // strides[0] + 1, (x.shape[2] - kw) // strides[1] + 1
    each = len(w) // group
    out = np.zeros((len(w), rows, columns), np.int64)
    for k in range(group):
        part = x[k * w.shape[1] : (k + 1) * w.shape[1]]
        for i, j in np.ndindex(*w.shape[2:]):
            y, z = i * dilations[0], j * dilations[1]
            window = part[:, y : y + rows * strides[0] : strides[0]]
            window = window[:, :rows, z : z + columns * strides[1] : strides[1]][:, :, :columns]
            mine = slice(k * each, (k + 1) * each)
            out[mine] += np.tensordot(w[mine, :, i, j], window, 1)
    return out


class Layers:
    """Convolutions and fully connected layers of an ONNX file, by the name of their weights."""

    def __init__(self, path):
        graph = onnx.load(str(path)).graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        self.by_weights = {}
        for node in graph.node:
            if node.op_type not in ("Conv", "Gemm") or node.input[1] not in constants:
                continue
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            weights = constants[node.input[1]]
            if node.op_type == "Gemm":
                weights = weights if attributes.get("transB") else weights.T
                weights = weights[:, :, None, None]
            self.by_weights[node.input[1]] = (
                weights,
                attributes.get("strides", [1, 1]),
                attributes.get("pads", [0, 0, 0, 0]),
                attributes.get("dilations", [1, 1]),
                attributes.get("group", 1),
            )


class Listening(Machine):
    """The machine in NumPy; the accumulators of its convolutions are compared with the ONNX's.

    Attributes:
        sums: How many accumulators were compared, and how many differ.
        outputs: The same of the stored values, against another machine's.
        compared: Nodes whose weights are in the ONNX file.
        others: Convolutions of the compiler's own, with weights that are in no ONNX file.
    """

    def __init__(self, data, layers):
        super().__init__(data)
        self.layers = layers
        self.sums, self.outputs = np.zeros(2, int), np.zeros(2, int)
        self.compared, self.others = [], []
        self._expected = None

    def follow(self, emulator):
        """Walk along with another machine, whose inputs are set: every node from its values."""
        convolutions = {
            owner
            for owner, enabled, *_ in self.tasks
            if enabled and enabled & 1 and self.nodes[owner][0].startswith(("Conv", "Concat"))
        }
        values = {t.index: emulator.read(t) for t in emulator.inputs}
        steps = emulator.walk()
        for number, (op, inputs, outputs) in enumerate(self.nodes):
            if number in convolutions:
                for index in inputs:
                    if index in values and len(self.tensors[index].shape) == 4:
                        self.write(index, values[index])
                self.begin(number)
                self.run_node(number)
            node = next(steps)
            assert (node.index, node.op) == (number, op)
            for index in outputs:
                values[index] = emulator.read(index)
            if number in convolutions:
                mine, theirs = self.read(outputs[0]), values[outputs[0]]
                self.outputs += mine.size, np.count_nonzero(mine != theirs)

    def begin(self, node):
        """Compute the sums of a node, and the excess of sums of raw stored values."""
        inputs = self.nodes[node][1]
        found = [self.tensors[i].name for i in inputs if self.tensors[i].name in self.layers]
        (self.compared if found else self.others).append(node)
        self._expected = None
        if found:
            weights, *attributes = self.layers[found[0]]
            tensor = self.tensors[inputs[0]]
            x = self.read(inputs[0])[0].astype(np.int64)
            w = quantized(weights)
            sums = convolved(x - tensor.zero_point, w, *attributes)
            self._expected = sums, tensor.zero_point * w.reshape(len(w), -1).sum(1)

    def accumulated(self, node, registers, acc):
        """Compare the sums of a task: rows, and perhaps kernels, of the node's."""
        if self._expected is None:
            return
        expected, corrections = self._expected
        address = registers(0x4020) - self.tensors[self.nodes[node][2][0]].address
        first = address // registers(0x4024) * 16
        row = address % registers(0x4024) // (acc.shape[2] * 16)
        mine = expected[first : first + len(acc), row : row + acc.shape[1]]
        ours = acc[: len(mine)] - corrections[first : first + len(mine), None, None]
        self.sums += mine.size, np.count_nonzero(ours != mine)
