"""Nodes of trained nets do what ONNX says: what they gave beside what they were given.

A wrong meaning of a register would show as a plausible wrong result. So every node that only
moves, repeats or chooses values is compared with its definition, on the emulator's own values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA, PROJECT
from reference.windows import sliding_windows

from rknn_runtime.emulation import NodeInfo, TensorInfo
from rknn_runtime.sim.emulator import Emulator

NETS = sorted(
    [*PROJECT.glob("examples/models/*.rknn"), *(DATA / "nets").glob("*.rknn")],
    key=lambda path: path.name,
)
Values = tuple[TensorInfo, np.ndarray]


def nodes(path: Path, op: str) -> Iterator[tuple[NodeInfo, list[Values], Values]]:
    """Run a net; yield each node of one kind with its inputs and its output, int8."""
    emulator = Emulator(path)
    _, c, h, w = emulator.inputs[0].shape
    pixels = np.random.default_rng(41).integers(0, 256, (1, h // 20, w // 20, c)).astype(np.uint8)
    emulator.set_input(0, pixels.repeat(20, 1).repeat(20, 2))
    known: dict[int, np.ndarray[Any, Any]] = {}
    for node in emulator.walk():
        for index in node.outputs if node.tasks or node.op in ("Reshape", "Concat") else ():
            known[index] = emulator.read(index)
        if node.op == op:
            inputs = [(emulator.tensors[i], known[i]) for i in node.inputs if i in known]
            output = emulator.tensors[node.outputs[0]]
            assert inputs
            yield node, inputs, (output, known[output.index])


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_max_pooling_chooses_the_largest(path: Path) -> None:
    """5x5 windows of SPPF, cut in strips by the compiler: 0 values differ."""
    count = 0
    for _, ((_, source), *_), (_, pooled) in nodes(path, "MaxPool"):
        padded = np.pad(source[0], ((0, 0), (2, 2), (2, 2)), constant_values=-128)
        windows = sliding_windows(padded, (5, 5), 1)
        np.testing.assert_array_equal(pooled[0], windows.max((3, 4)))
        count += 1
    assert count == 3


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_nearest_resizing_repeats(path: Path) -> None:
    """To twice the size: 0 values differ."""
    count = 0
    for _, ((_, source), *_), (_, resized) in nodes(path, "Resize"):
        np.testing.assert_array_equal(resized, source.repeat(2, 2).repeat(2, 3))
        count += 1
    assert count == 2


@pytest.mark.parametrize("path", NETS[:2], ids=lambda path: path.stem)
def test_reshaping_changes_no_value(path: Path) -> None:
    """In the exporting framework's order: 0 values differ."""
    count = 0
    for _, ((_, source), *_), (_, reshaped) in nodes(path, "Reshape"):
        np.testing.assert_array_equal(source.ravel(), reshaped.ravel())
        count += 1
    assert count == 3


def requantized(values: Values, output: TensorInfo) -> np.ndarray[Any, Any]:
    """Int8 values in the scale of another tensor, ties to even, before they are rounded."""
    tensor, q = values
    return (q.astype(np.float64) - tensor.zero_point) * (tensor.scale / output.scale)


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_concatenation_puts_channels_behind_each_other(path: Path) -> None:
    """Parts in the output's scale: 0 values differ. Others: below 0.1 % by one, none by more."""
    off = total = 0
    for _, inputs, (output, joined) in nodes(path, "Concat"):
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
