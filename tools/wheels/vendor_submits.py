"""Compare what a vendor's runtime and the open runtime submit for one model, word by word.

    python vendor_submits.py LIBRARY MODEL

LIBRARY "" is the one that the package finds. The device executes nothing (vendor_npu.c). In every
way to bind that the vendor's runtime takes, all tasks of a run are compared in their order: node,
blocks, interrupts, every command word but addresses; then how they are cut into jobs, and each
job's flags, cores, priority and ranges. The last line begins with ``ok`` or ``differs``.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from vendor_bindings import (
    COPYING,
    SEVERAL_CORES,
    ZERO_COPY,
    CallFailed,
    Client,
    Way,
    in_child,
    run_bound,
    run_copying,
)

from rknn_runtime.modelfile import read_layers
from rknn_runtime.modelfile.reader import read
from rknn_runtime.modelfile.soc import FULL_RUNTIME, find_soc
from rknn_runtime.npu.library import open_library

#: Words behind a task's own that lead to the next one.
CHAIN = 4
#: Differences that are meant, and why.
EXPLAINED = (
    (r"task of (In|Out)putOperator only theirs", "the CPU fills rows and copies outputs"),
    (r"chain 001[04]: .* theirs, 00000000 ours", "leads to such a task; the job's count ends it"),
    (r"in full: ", "without a node's tasks, which the CPU runs, the others rely on nothing"),
    (r"not emulated: ", "the emulator refuses the model"),
)


@dataclass
class Task:
    """A task as it is submitted."""

    node: int
    enabled: int
    interrupts: int
    cleared: int
    flags: int
    core: int
    words: tuple[str, ...]

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What tells it from other tasks of the model."""
        return self.core, self.node, self.enabled, len(self.words)


@dataclass
class Job:
    """A call that submits."""

    flags: int
    cores: int
    priority: int
    has_base: bool
    tasks: list[Task] = field(default_factory=list)


def read_jobs(path: Path) -> list[Job]:
    """Read what ``vendor_npu.c`` has written."""
    jobs: list[Job] = []
    for line in path.read_text("ascii").splitlines() if path.exists() else []:
        kind, *words = line.split()
        if kind == "submit":
            flags, cores, priority, has_base = map(int, words)
            jobs.append(Job(flags, cores, priority, bool(has_base)))
            core = -1
        elif kind == "core":
            core += 1
        else:
            numbers = map(int, words[:5])
            jobs[-1].tasks.append(Task(*numbers, core, tuple(words[5:])))
    return jobs


def submitted(library: str | None, model: bytes, way: Way, number: int) -> list[Job] | str:
    """Return the jobs of one run, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")

        def run() -> str:
            os.environ["VENDOR_TRACE"] = str(path)
            os.environ["RKNN_OPEN_ASK"] = "never"
            try:
                with Client(open_library(library), model, library is None or is_full) as client:
                    if way.cores:
                        client.choose_cores(way.cores)
                    (run_copying if way.is_copying else run_bound)(client, way, number)
            except CallFailed as error:
                return str(error)
            return ""

        is_full = read(model).runtime == FULL_RUNTIME
        failure = in_child(run)
        return failure or read_jobs(path)


def differences(theirs: list[Job], ours: list[Job], names: list[str]) -> Counter[str]:
    """Return each difference in words, and how often it is met."""
    found: Counter[str] = Counter()
    one = [task for job in theirs for task in job.tasks]
    other = [task for job in ours for task in job.tasks]
    left_out = {task.node for task in one} - {task.node for task in other}
    if inner := {names[node] for node in left_out if not names[node].endswith("putOperator")}:
        return Counter([f"in full: {', '.join(sorted(inner))} on the CPU"])
    keys = [[task.identity for task in tasks] for tasks in (one, other)]
    same: set[int] = set()
    pairs: list[tuple[Task, Task]] = []
    for tag, i, i_end, j, j_end in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(one[i:i_end], other[j:j_end])
            same.update(map(id, one[i:i_end]))
            continue
        found.update(f"task of {names[task.node]} only theirs" for task in one[i:i_end])
        found.update(f"task of {names[task.node]} only ours" for task in other[j:j_end])
    for mine, its in pairs:
        found.update(task_differences(mine, its))
    cuts = [
        [(job.flags, job.cores, job.priority, job.has_base, [t.identity for t in kept])
         for job in jobs
         if (kept := [t for t in job.tasks if t.identity in {u.identity for u, _ in pairs}])]
        for jobs in (theirs, ours)
    ]  # fmt: skip
    if [cut[-1] for cut in cuts[0]] != [cut[-1] for cut in cuts[1]]:
        found[f"{len(cuts[0])} jobs theirs, {len(cuts[1])} ours"] += 1
    else:
        for mine, its in zip(*cuts):
            for name, a, b in zip(("flags", "cores", "priority", "base"), mine, its):
                if a != b:
                    found[f"job's {name} {a} theirs, {b} ours"] += 1
    return found


def task_differences(theirs: Task, ours: Task) -> list[str]:
    """Return the differences of a task that both submit."""
    found = [
        f"task's {name} {getattr(theirs, name):x} theirs, {getattr(ours, name):x} ours"
        for name in ("interrupts", "cleared", "flags")
        if getattr(theirs, name) != getattr(ours, name)
    ]
    for at, (a, b) in enumerate(zip(theirs.words, ours.words)):
        if a != b:
            is_chain = at >= len(theirs.words) - CHAIN
            what = "chain" if is_chain else "register"
            found.append(f"{what} {a[-4:]}: {a[4:-4]} theirs, {b[4:-4]} ours")
    return found


def ways_of(model: bytes, is_full: bool) -> tuple[Way, ...]:
    """Return the ways to bind and run a model that its SoC has."""
    soc = find_soc(read(model).soc)
    several = [way for way in SEVERAL_CORES if soc and way.cores < 1 << soc.cores]
    return (*ZERO_COPY, *COPYING, *several) if is_full else ZERO_COPY


def main() -> None:
    library, path = sys.argv[1:]
    model = Path(path).read_bytes()
    is_full = read(model).runtime == FULL_RUNTIME
    names = [layer.operator for layer in read_layers(model)]
    total: Counter[str] = Counter()  # of ways
    last: dict[str, str] = {}
    equal = explained = ways = 0
    for number, way in enumerate(ways_of(model, is_full)):
        theirs = submitted(library or None, model, way, number)
        if isinstance(theirs, str):
            continue  # the vendor's runtime refuses this way
        ours = submitted("open", model, way, number)
        ways += 1
        found = [f"here {ours}"] if isinstance(ours, str) else differences(theirs, ours, names)
        if isinstance(ours, str) and isinstance(submitted("sim", model, way, number), str):
            found = [f"not emulated: {ours}"]
        wrong = [what for what in found if not any(re.match(rule, what) for rule, _ in EXPLAINED)]
        equal += not found
        explained += bool(found) and not wrong
        for what in wrong:
            total[what] += 1
            last[what] = way.name
    said = "; ".join(
        f"{what} ({last[what] if count == 1 else f'{count} ways'})"
        for what, count in total.most_common(20)
    )
    verdict = "differs" if total else "ok"
    print(f"{verdict}: {equal} of {ways} ways equal, {explained} explained; {said}")


if __name__ == "__main__":
    main()
