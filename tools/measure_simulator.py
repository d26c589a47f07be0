"""Compare single nodes with the toolkit's simulator on a PC, each on the simulator's own inputs.

::

    python tools/measure_simulator.py MODEL.rknn SNAPSHOT

SNAPSHOT is the ``output_dir`` of rknn-toolkit2's ``accuracy_analysis``, run for the network and
conversion that MODEL came from. Each node's tasks are executed by the machine in NumPy, which
gives the emulator's bits (``tests/sim/test_accumulators.py``). The simulator rounds after every
node of the ONNX file, and computes functions exactly: fused nodes cannot agree with it.
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare nodes with the toolkit's simulator.")
    parser.add_argument("model", type=Path)
    parser.add_argument("snapshot", type=Path)
    args = parser.parse_args()
    machine, dumps = Machine(args.model.read_bytes()), dumped(args.snapshot)
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
        machine.run_node(number)
        off = np.abs(machine.read(outputs[0]).astype(int) - given[outputs[0]])
        counts[op] += (off.size, np.count_nonzero(off == 1), np.count_nonzero(off > 1), 0)
    print(
        "| node | values | off by one | by more | not compared |\n| --- | --- | --- | --- | --- |"
    )
    for op, (size, one, more, missing) in sorted(counts.items()):
        share = f"{one / size:.3%} | {more}" if size else "|"
        print(f"| {op} | {size} | {share} | {missing} |")


if __name__ == "__main__":
    main()
