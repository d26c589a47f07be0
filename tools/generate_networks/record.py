"""Keep generated files with their answers: the tests need neither toolkit nor ONNX."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime.sim.emulator import Emulator, EmulatorError

from . import judge
from .toolkit import Toolkit
from .whole import FAMILIES, draw

#: Larger files and answers are left out. RK3576's and RV1126B's are larger.
_MOST_BYTES, _MOST_BYTES_OF_LATER, _MOST_VALUES = 24_000, 40_000, 1000
_EACH = 6


def record(path: Path, seed: int, pairs: Sequence[str]) -> None:
    """Convert networks of every family, in turn for all pairs, and write those that are right.

    A file that is refused is kept, too, with the answer that it should give one day.
    """
    index, members = [], {}
    with Toolkit() as toolkit:
        for row, rknn, answers in _kept(toolkit, seed, pairs):
            name = f"{row['case'].replace(':', '-')}_{row['pair'].replace(':', '_')}"
            members[f"{name}.rknn"] = rknn
            for number, answer in enumerate(answers):
                buffer = io.BytesIO()
                np.save(buffer, answer)
                members[f"{name}.{number}.npy"] = buffer.getvalue()
            index.append({"name": name, **row})
            print(name, row["result"], row["steps"], flush=True)
    members["index.json"] = json.dumps(index, indent=1).encode()
    # Like next to like: they compress better.
    with tarfile.open(path, "w:xz", preset=9 | lzma.PRESET_EXTREME) as archive:
        for name in sorted(members, key=lambda n: (n[-4:], n.rpartition("_")[2], n)):
            member = tarfile.TarInfo(name)
            member.size = len(members[name])
            archive.addfile(member, io.BytesIO(members[name]))
    print(f"{path}: {len(index)} files, {path.stat().st_size} bytes")


def _kept(toolkit: Toolkit, seed: int, pairs: Sequence[str]) -> Iterator[tuple[Any, bytes, Any]]:
    turn = 0
    for family in FAMILIES:
        for number in range(_EACH):
            case = _small_case(seed, family, number)
            pair = pairs[turn % len(pairs)]
            turn += 1
            soc, _, dtype = pair.partition(":")
            runs = judge.draw_inputs(case)
            given = judge.calibration(case, runs)
            rknn, _, _ = toolkit.convert(case.onnx, soc, dtype, given, judge.norms(case))
            most = _MOST_BYTES_OF_LATER if soc in ("rk3576", "rv1126b") else _MOST_BYTES
            if rknn is None or len(rknn) > most:
                continue
            found = judged(case, rknn, dtype)
            if found is not None:
                yield {"case": case.name, "pair": pair, **found[0]}, rknn, found[1]


def _small_case(seed: int, family: str, number: int) -> Any:
    """The first network of a few whose answer is small; else the smallest inputs."""
    drawn = [draw(seed, family, number * 8 + i) for i in range(8)]
    return min(drawn, key=lambda case: sum(int(np.prod(each[1])) for each in case.inputs))


def stored_inputs(machine: Emulator, seed: int) -> list[np.ndarray]:
    """Draw stored values for the inputs, the same with every version of NumPy."""
    random = np.random.RandomState(seed)
    found = []
    for tensor in machine.inputs:
        values = random.randint(-100, 101, tensor.shape)
        if tensor.dtype is not None and tensor.dtype.kind == "f":
            found.append((values / 50).astype(tensor.dtype))
        else:
            found.append((values + (28 if tensor.dtype == np.uint8 else 0)).astype(tensor.dtype))
    return found


def judged(case: Any, rknn: bytes, dtype: str) -> tuple[dict[str, Any], list[np.ndarray]] | None:
    """Compare a file with its network on these inputs; None if it is neither right nor refused."""
    try:
        machine = Emulator(rknn)
    except EmulatorError:
        return None
    if any(t.is_image and t.dtype == np.uint8 for t in machine.inputs):
        return None  # what an image becomes is not exactly known
    if any(node.is_faulty or node.reason.startswith("tried") for node in machine.nodes):
        return None
    if len(machine.inputs) != len(case.inputs):
        return None  # the toolkit left one out
    stored = stored_inputs(machine, case.random % 1000)
    seen = [
        judge.to_real(values, tensor).reshape(each[1]).astype(np.float32)
        for values, tensor, each in zip(stored, machine.inputs, case.inputs)
    ]
    outcome, _ = judge.judge(case.onnx, rknn, seen, dtype)
    if outcome.result not in ("right", "refused"):
        return None
    known = judge.stored_tensors(case.onnx, machine, seen)
    reference = judge.Reference(case.onnx, known, dtype)
    exact, trials = reference.run(seen, [0.0] * len(seen))
    answers, most = [], outcome.steps
    for i, tensor in enumerate(machine.outputs):
        answer = exact[i].reshape(tensor.shape)
        if answer.size > _MOST_VALUES or not np.isfinite(answer).all():
            return None
        moved = max(float(np.abs(t[i].reshape(answer.shape) - answer).max()) for t in trials)
        if outcome.result == "refused":
            most = max(most, 3 * moved / judge.step_of(tensor, answer) + 2)
        answers.append(judge.to_stored(answer, tensor))
    row = {
        "result": outcome.result,
        "reason": outcome.reason,
        "seed": case.random % 1000,
        "steps": round(float(np.ceil(most + 0.5)), 1),
    }
    return row, answers
