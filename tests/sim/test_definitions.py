"""Nodes of trained nets do the operations of ONNX: their outputs follow from their inputs.

A wrong meaning of a register would show as a plausible wrong result. So every node that only
moves, repeats or chooses values is compared with its definition, on the emulator's own values.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA, PROJECT
from reference.windows import sliding_windows

from rknn_runtime.sim.emulator import Emulator, TensorInfo

NETS = sorted(
    [*PROJECT.glob("examples/models/*.rknn"), *(DATA / "nets").glob("*.rknn")],
    key=lambda path: path.name,
)
Values = tuple[TensorInfo, np.ndarray]


def walked(path: Path) -> dict[str, list[tuple[list[Values], Values]]]:
    """Run a net; return the inputs and the output of each node by its kind, int8."""
    emulator = Emulator(path)
    _, c, h, w = emulator.inputs[0].shape
    pixels = np.random.default_rng(41).integers(0, 256, (1, h // 20, w // 20, c)).astype(np.uint8)
    emulator.set_input(0, pixels.repeat(20, 1).repeat(20, 2))
    known: dict[int, np.ndarray[Any, Any]] = {}
    found: dict[str, list[tuple[list[Values], Values]]] = defaultdict(list)
    for node in emulator.walk():
        for index in node.outputs if node.tasks or node.op in ("Reshape", "Concat") else ():
            known[index] = emulator.read(index)
        if node.op in ("MaxPool", "Resize", "Reshape", "Concat"):
            inputs = [(emulator.tensors[i], known[i]) for i in node.inputs if i in known]
            output = emulator.tensors[node.outputs[0]]
            assert inputs
            found[node.op].append((inputs, (output, known[output.index])))
    return found


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_nodes_do_what_onnx_says(path: Path) -> None:
    """0 values differ, but for parts of a Concat that change their scale."""
    found = walked(path)
    assert (len(found["MaxPool"]), len(found["Resize"])) == (3, 2)
    for ((_, source), *_), (_, pooled) in found["MaxPool"]:  # SPPF, cut in strips by the compiler
        padded = np.pad(source[0], ((0, 0), (2, 2), (2, 2)), constant_values=-128)
        windows = sliding_windows(padded, (5, 5), 1)
        np.testing.assert_array_equal(pooled[0], windows.max((3, 4)))
    for ((_, source), *_), (_, resized) in found["Resize"]:
        np.testing.assert_array_equal(resized, source.repeat(2, 2).repeat(2, 3))
    for ((_, source), *_), (_, reshaped) in found["Reshape"]:
        np.testing.assert_array_equal(source.ravel(), reshaped.ravel())
    check_concatenations(found["Concat"])


def requantized(values: Values, output: TensorInfo) -> np.ndarray[Any, Any]:
    """Int8 values in the scale of another tensor, ties to even, before they are rounded."""
    tensor, q = values
    return (q.astype(np.float64) - tensor.zero_point) * (tensor.scale / output.scale)


def check_concatenations(nodes: list[tuple[list[Values], Values]]) -> None:
    """Parts in another scale than the output's: below 0.1 % differ by one, none by more."""
    off = total = 0
    for inputs, (output, joined) in nodes:
        axis = next(i for i in range(1, 4) if inputs[0][1].shape[i] != joined.shape[i])
        at = 0
        for tensor, q in inputs:
            part = joined.take(range(at, at + q.shape[axis]), axis).astype(int)
            at += q.shape[axis]
            if (tensor.scale, tensor.zero_point) == (output.scale, output.zero_point):
                np.testing.assert_array_equal(part, q)
                continue
            exact = np.rint(requantized((tensor, q), output)) + output.zero_point
            difference = np.abs(part - np.clip(exact, -128, 127))
            assert difference.max() <= 1
            off += np.count_nonzero(difference)
            total += difference.size
        assert at == joined.shape[axis]
    assert off <= total * 0.001
    assert total > 100_000
