"""Compare single nodes with the toolkit's simulator on a PC, each on the simulator's own inputs.

::

    python tools/measure_simulator.py MODEL.rknn SNAPSHOT [--onnx MODEL.onnx]

SNAPSHOT is the ``output_dir`` of rknn-toolkit2's ``accuracy_analysis``, run for the network and
conversion that MODEL came from. Each node's tasks are executed by the machine in NumPy, which
gives the emulator's bits (``tests/sim/test_accumulators.py``). The simulator rounds after every
node of the ONNX file, and computes functions exactly: fused nodes cannot agree with it.

With the network, rows "in float" say how many values stay off where the file's factors, of 14 and
15 bits, and the NPU's two roundings are replaced by one factor in float and one rounding.
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

#: What the machine in NumPy executes; it does not move values.
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
    """Values by tensor name, as real numbers."""
    lines = (folder / "map_name_to_file.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.rstrip().endswith(".txt")]
    npy = folder / "simulator" / "npy"
    files = {name: npy / file.replace(".txt", ".npy") for name, file in pairs}
    return {name: np.load(path) for name, path in files.items() if path.exists()}


def values_of(machine: Any, index: int, dumps: dict[str, Any]) -> np.ndarray[Any, Any] | None:
    """What the simulator has in a tensor, quantized; None when it has it not."""
    tensor = machine.tensors[index]
    found = dumps.get(tensor.name + "_int8", dumps.get(tensor.name))
    if found is None or found.size != np.prod(tensor.shape):
        return None
    q = np.rint(found.astype(np.float64) / tensor.scale) + tensor.zero_point
    return np.clip(q, -128, 127).astype(np.int8).reshape(tensor.shape)


class Sums(Machine):
    """Keeps what convolutions sum, biases included."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.sums: list[np.ndarray[Any, Any]] = []

    def bs(self, r: Any, v: Any, bias: Any, mul: Any) -> Any:
        self.sums.append(v if bias is None else v + bias[:, None, None])
        return super().bs(r, v, bias, mul)


def scales_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Of the weights of each convolution, per channel, by its output's name or its Relu's."""
    import onnx

    graph, found = onnx.load(str(path)).graph, {}
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    for node in graph.node:
        if node.op_type == "Conv" and node.input[1] in weights:
            w = weights[node.input[1]].reshape(len(weights[node.input[1]]), -1)
            found[node.output[0]] = (np.maximum(w.max(1), 0) - np.minimum(w.min(1), 0)) / 255.0
        elif node.op_type == "Relu" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def in_float(
    machine: Sums, scales: dict[str, np.ndarray[Any, Any]], op: str, source: int, target: int
) -> np.ndarray[Any, Any] | None:
    """Quantize the sums of the last node once, with a factor in float; None of other nodes."""
    tensor = machine.tensors[target]
    if op not in ("Conv", "ConvRelu") or tensor.name not in scales:
        return None
    scale = scales[tensor.name].astype(np.float64)[:, None, None]
    sums = np.concatenate(machine.sums, 1)[: len(scale)]
    real = sums * (machine.tensors[source].scale * scale / tensor.scale)
    real = np.maximum(real, 0) if op == "ConvRelu" else real
    return np.clip(np.rint(real) + tensor.zero_point, -128, 127)[None]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare nodes with the toolkit's simulator.")
    parser.add_argument("model", type=Path)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--onnx", type=Path, help="the network, for the rows in float")
    args = parser.parse_args()
    machine, dumps = Sums(args.model.read_bytes()), dumped(args.snapshot)
    scales = scales_of(args.onnx) if args.onnx else {}
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
        exact = in_float(machine, scales, op, inner[0], outputs[0]) if inner else None
        for row, values in ((op, machine.read(outputs[0])), (f"{op} in float", exact)):
            if values is not None and values.shape == given[outputs[0]].shape:
                off = np.abs(values.astype(int) - given[outputs[0]])
                counts[row] += (off.size, np.count_nonzero(off == 1), np.count_nonzero(off > 1), 0)
    print(
        "| node | values | off by one | by more | not compared |\n| --- | --- | --- | --- | --- |"
    )
    for op, (size, one, more, missing) in sorted(counts.items()):
        share = f"{one / size:.3%} | {more}" if size else "|"
        print(f"| {op} | {size} | {share} | {missing} |")


if __name__ == "__main__":
    main()
