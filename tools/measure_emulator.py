"""Count the models of a folder that the emulator runs, and compare their results.

::

    python tools/measure_emulator.py FOLDER [FOLDER ...] [--records vendor-run-2.3.2.npz]

Prints a table in Markdown:

- models that run, and refused models with their reasons;
- outputs of models ``NAME_SOC.rknn`` for several SoCs, compared bit by bit with RK3588;
- sums of convolutions compared with ``NAME.onnx``, if onnx is installed;
- outputs compared with recorded ones (``NAME_SOC/inK``, ``NAME_SOC/outK``).
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

TESTS = Path(__file__).resolve().parents[1] / "tests"
#: SoCs of the machine in NumPy.
LISTENED_SOCS = ("rk3588", "rv1106")


def feed(emulator: Emulator, seed: int = 3) -> None:
    """Set random inputs of the right types, the same for every SoC."""
    random = np.random.default_rng(seed)
    for index, tensor in enumerate(emulator.inputs):
        assert tensor.dtype is not None
        if tensor.dtype == np.int8:
            values = random.integers(-128, 128, tensor.shape).astype(np.int8)
        else:
            values = random.uniform(-1, 1, tensor.shape).astype(tensor.dtype)
        emulator.set_input(index, values)


def run(path: Path) -> tuple[Emulator, list[np.ndarray[Any, Any]]]:
    emulator = Emulator(path)
    feed(emulator)
    emulator.run()
    return emulator, [emulator.read(output) for output in emulator.outputs]


def refusal(path: Path) -> str:
    """Return the reason of a refusal; empty if the model runs."""
    try:
        emulator = Emulator(path)
        refused = [node for node in emulator.nodes if node.verdict == Verdict.REFUSED]
        if refused:
            return f"{len(refused)} nodes, {refused[0].op}: {refused[0].reason}"
        run(path)
    except EmulatorError as error:
        return str(error)
    return ""


def count_runs(paths: Iterable[Path]) -> dict[str, str]:
    """Print the table of models that run, and return the refusals by model."""
    refused, verdicts = {}, collections.Counter[str]()
    ran = 0
    for path in paths:
        reason = refusal(path)
        if reason:
            refused[path.stem] = reason
            continue
        ran += 1
        for node in Emulator(path).nodes:
            verdicts[node.verdict.name.lower()] += 1
    print(f"| models that run | {ran} of {ran + len(refused)} |")
    print(f"| nodes of these | {', '.join(f'{n} {v}' for v, n in sorted(verdicts.items()))} |")
    return refused


def compare_socs(paths: Iterable[Path]) -> None:
    """Compare the outputs of each network on several SoCs."""
    families: dict[str, dict[str, Path]] = collections.defaultdict(dict)
    for path in paths:
        name, _, soc = path.stem.rpartition("_")
        if not refusal(path):
            families[name][soc] = path
    equal, all_of = collections.Counter[str](), collections.Counter[str]()
    differing = collections.defaultdict(list)
    for name, socs in sorted(families.items()):
        if "rk3588" not in socs:
            continue
        expected = run(socs["rk3588"])[1]
        for soc, path in socs.items():
            ours = run(path)[1]
            same = all(np.array_equal(a, b) for a, b in zip(ours, expected))
            equal[soc] += same
            all_of[soc] += 1
            if not same:
                differing[soc].append(name)
    for soc in sorted(set(all_of) - {"rk3588"}):
        rest = f"; not: {', '.join(differing[soc])}" if differing[soc] else ""
        print(f"| {soc} = rk3588, bit by bit | {equal[soc]} of {all_of[soc]}{rest} |")


def compare_accumulators(paths: Iterable[Path]) -> None:
    """Compare the sums of int8 convolutions in the machine in NumPy, which follows the emulator."""
    sys.path.append(str(TESTS))
    from reference.accumulators import Layers, Listening

    totals: dict[str, Any] = {soc: np.zeros(6, int) for soc in LISTENED_SOCS}
    for path in paths:
        name, _, soc = path.stem.rpartition("_")
        source = path.with_name(f"{name}.onnx")
        if soc not in totals or not source.exists() or refusal(path):
            continue
        emulator = Emulator(path)
        if any(tensor.dtype != np.int8 for tensor in emulator.inputs):
            continue
        feed(emulator)
        machine = Listening(path.read_bytes(), Layers(source).by_weights)
        machine.follow(emulator)
        counts = len(machine.compared), len(machine.others), *machine.sums, *machine.outputs
        totals[soc] += counts
    for soc, (nodes, others, sums, differ, outputs, wrong) in totals.items():
        print(
            f"| sums of {nodes} convolutions = ONNX, {soc} | {differ} of {sums} differ; "
            f"stored values, with {others} more of the compiler's own: {wrong} of {outputs} |"
        )


def compare_records(paths: Iterable[Path], records: Path) -> None:
    by_name = {path.stem: path for path in paths}
    equal, rest = 0, []
    with np.load(records) as stored:
        names = sorted({key.split("/")[0] for key in stored.files} & set(by_name))
        for name in names:
            emulator = Emulator(by_name[name])
            for index, tensor in enumerate(emulator.inputs):
                values = stored[f"{name}/in{index}"]
                is_pixels = tensor.is_image and values.dtype == np.uint8
                emulator.set_input(index, values if is_pixels else values.reshape(tensor.shape))
            emulator.run()
            same = all(
                np.array_equal(emulator.read(output).ravel(), stored[f"{name}/out{k}"].ravel())
                for k, output in enumerate(emulator.outputs)
            )
            equal += same
            rest += [] if same else [name]
    print(f"| recorded outputs, bit by bit | {equal} of {len(names)}; not: {rest} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the emulator.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--records", type=Path, help="recorded outputs, an npz")
    args = parser.parse_args()
    found = {path.stem: path for folder in args.folders for path in sorted(folder.glob("*.rknn"))}
    print("| check | result |\n| --- | --- |")
    refused = count_runs(found.values())
    compare_socs(found.values())
    if importlib.util.find_spec("onnx"):
        compare_accumulators(found.values())
    if args.records:
        compare_records(found.values(), args.records)
    for name, reason in refused.items():
        print(f"| refused: {name} | {reason} |")


if __name__ == "__main__":
    main()
