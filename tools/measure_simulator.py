"""Compare single nodes with the toolkit's simulator on a PC, each on the simulator's inputs.

::

    python tools/measure_simulator.py MODEL.rknn SNAPSHOT [--onnx MODEL.onnx]

SNAPSHOT is the ``output_dir`` of rknn-toolkit2's ``accuracy_analysis``, for the same network and
conversion as MODEL. The machine in NumPy executes the tasks of each node, and gives the same bits
as the emulator (``tests/sim/test_accumulators.py``). The simulator rounds after every node of the
ONNX file and computes functions exactly, so fused nodes cannot agree with it.

With ``--onnx``, rows "in float" replace the file's factors of 14 and 15 bits and the NPU's two
roundings by one float factor and one rounding, and count the values that still differ. Each
difference has a reason: float32 in the simulator decides ties differently, or a weight of the
kernel is at a tie and the file rounds it to the other side.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from reference.npu import Machine

#: Nodes that the machine in NumPy executes; it has no nodes that only move values.
COMPUTED = (
    "Conv",
    "Add",
    "Mul",
    "Concat",
    "MaxPool",
    "AveragePool",
    "Resize",
    "Sigmoid",
    "exSwish",
)


def dumped(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return real values by tensor name."""
    lines = (folder / "map_name_to_file.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.rstrip().endswith(".txt")]
    npy = folder / "simulator" / "npy"
    files = {name: npy / file.replace(".txt", ".npy") for name, file in pairs}
    return {name: np.load(path) for name, path in files.items() if path.exists()}


def values_of(machine: Any, index: int, dumps: dict[str, Any]) -> np.ndarray[Any, Any] | None:
    """Return the simulator's values of a tensor, quantized; None if they were not dumped."""
    tensor = machine.tensors[index]
    found = dumps.get(tensor.name + "_int8", dumps.get(tensor.name))
    if found is None or found.size != np.prod(tensor.shape):
        return None
    q = np.rint(found.astype(np.float64) / tensor.scale) + tensor.zero_point
    return np.clip(q, -128, 127).astype(np.int8).reshape(tensor.shape)


class Sums(Machine):
    """Keeps the sums of convolutions, with biases, and their multipliers."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.sums: list[np.ndarray[Any, Any]] = []
        self.multipliers: Any = None

    def bs(self, r: Any, v: Any, bias: Any, mul: Any) -> Any:
        self.sums.append(v if bias is None else v + bias[:, None, None])
        self.multipliers = mul
        return super().bs(r, v, bias, mul)


def weights_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return weights ``(kernels, weights of one)`` by the output of the convolution or its Relu."""
    import onnx

    graph, found = onnx.load(str(path)).graph, {}
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Conv" and node.input[1] in weights:
            w = weights[node.input[1]]
            found[node.output[0]] = w.reshape(len(w), -1)
        elif node.op_type == "Relu" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def scales_of(w: np.ndarray[Any, Any], multipliers: Any) -> np.ndarray[Any, Any]:
    """Return the scale of each kernel of a convolution: its range in 255 steps.

    The toolkit leaves an outlier out of some kernels, which the multiplier of the file shows.
    """
    ordered = np.sort(w, 1)
    low, high = np.minimum(ordered[:, :2], 0), np.maximum(ordered[:, -2:], 0)
    scale = (high[:, 1] - low[:, 0]) / 255.0
    if multipliers is None:
        return scale.astype(np.float64)
    for other in ((high[:, 1] - low[:, 1]) / 255.0, (high[:, 0] - low[:, 0]) / 255.0):
        expected = multipliers[: len(w)] / 16384 * scale[np.argmax(multipliers[: len(w)])]
        off, off_other = np.abs(scale - expected), np.abs(other - expected)
        is_left_out = (off > scale.max() / 16384) & (off_other < scale.max() / 16384)
        scale = np.where(is_left_out, other, scale)
    return scale.astype(np.float64)


class Exact:
    """Nodes with sums quantized once, by a float factor, and the reasons of differences."""

    def __init__(self, machine: Sums, network: Path | None) -> None:
        self.machine = machine
        self.weights = weights_of(network) if network else {}
        self.by_tie = self.by_weight = self.unexplained = 0

    def values(self, op: str, source: int, target: int, given: Any) -> Any:
        """Return the values of the last node that ran; None if it is no convolution."""
        machine, tensor = self.machine, self.machine.tensors[target]
        if op not in ("Conv", "ConvRelu") or tensor.name not in self.weights:
            return None
        w = self.weights[tensor.name]
        scale = scales_of(w, machine.multipliers)[:, None, None]
        factors = machine.tensors[source].scale * scale / tensor.scale
        real = np.concatenate(machine.sums, 1)[: len(w)] * factors
        real = np.maximum(real, 0) if op == "ConvRelu" else real
        found = np.clip(np.rint(real) + tensor.zero_point, -128, 127)[None]
        if found.shape == given.shape:
            self.explain(real, (found != given)[0], w / scale[:, 0], factors)
        return found

    def explain(self, real: Any, differs: Any, steps: Any, factors: Any) -> None:
        """Count the values that differ, by reason."""
        at_ties = np.abs(np.abs(steps - np.floor(steps)) - 0.5).min(1) < 1e-5
        for kernel, y, x in np.argwhere(differs):
            value = real[kernel, y, x]
            distance = abs(abs(value - np.floor(value)) - 0.5)
            if distance < max(abs(value), 16) * 2.0**-20:  # the last bits of a sum in float32
                self.by_tie += 1
            elif at_ties[kernel] and distance < 255 * factors[kernel, 0, 0]:
                self.by_weight += 1
            else:
                self.unexplained += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare nodes with the toolkit's simulator.")
    parser.add_argument("model", type=Path)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--onnx", type=Path, help="the network, for the rows in float")
    args = parser.parse_args()
    machine, dumps = Sums(args.model.read_bytes()), dumped(args.snapshot)
    exact = Exact(machine, args.onnx)
    counts: dict[str, Any] = defaultdict(lambda: np.zeros(4, int))
    with_tasks = {task[0] for task in machine.tasks}
    for number, (op, inputs, outputs) in enumerate(machine.nodes):
        if number not in with_tasks or not op.startswith(COMPUTED):
            continue
        inner = [i for i in inputs if machine.tensors[i].kind in (1, 2, 3)]
        if len(inner) < len(inputs) and op == "Add":
            op = "Add of an int8 constant"  # which the simulator has in float
        inner = [i for i in inner if not machine.tensors[i].name.endswith("_exSecondary")]
        given = {i: values_of(machine, i, dumps) for i in (*inner, *outputs)}
        if any(v is None or v.ndim != 4 for v in given.values()):
            counts[op] += (0, 0, 0, 1)
            continue
        for index in inner:
            machine.write(index, given[index])
        machine.sums.clear()
        machine.run_node(number)
        once = exact.values(op, inner[0], outputs[0], given[outputs[0]]) if inner else None
        for row, values in ((op, machine.read(outputs[0])), (f"{op} in float", once)):
            if values is not None and values.shape == given[outputs[0]].shape:
                off = np.abs(values.astype(int) - given[outputs[0]])
                counts[row] += (off.size, np.count_nonzero(off == 1), np.count_nonzero(off > 1), 0)
    print(
        "| node | values | off by one | by more | not compared |\n| --- | --- | --- | --- | --- |"
    )
    for op, (size, one, more, missing) in sorted(counts.items()):
        share = f"{one / size:.3%} | {more}" if size else "|"
        print(f"| {op} | {size} | {share} | {missing} |")
    if args.onnx:
        print(
            f"| in float: {exact.by_tie} off at ties of float32, {exact.by_weight} by a weight at "
            f"a tie, {exact.unexplained} unexplained |"
        )


if __name__ == "__main__":
    main()
