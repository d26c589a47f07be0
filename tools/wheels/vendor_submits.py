"""Compare what a vendor's runtime and the open runtime submit for one model, word by word.

    python vendor_submits.py LIBRARY MODEL

LIBRARY "" is the one that the package finds. The device executes nothing (vendor_npu.c). In every
way to bind that the vendor's runtime takes, all tasks of a run are compared in their order: node,
blocks, interrupts, every command word but addresses; then how they are cut into jobs, and each
job's flags, cores, priority and ranges. A difference that changes no result is explained by the
rule that recognises it. The last line begins with ``ok`` or ``differs``, then tells the ways that
are equal, those that each rule explains, and those with something that none does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

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
#: The end of the number of a register that says which group of a block the words are for.
POINTER = "004"
#: Why a difference changes no result.
ENDS = "the CPU fills rows and copies outputs"
COUNT = "behind a job's last task"
CUT = "jobs that also end at outputs"
EDGE = "columns behind passed-through rows"
BYPASS = "words of a conversion that is off"
PIXELS = "pixels of int16 that the CPU converts"
IN_FULL = "in full as the CPU runs a node"
REFUSED = "not emulated"


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
    #: The next one of its job and core.
    next: Task | None = None

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What tells it from other tasks of the model."""
        return self.core, self.node, self.enabled, len(self.words)

    def value(self, number: int) -> int | None:
        """Return the last value that its own words give a register."""
        found = [word for word in self.words[:-CHAIN] if word.endswith(f"{number:04x}")]
        return int(found[-1][4:-4], 16) if found else None


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
            tasks = jobs[-1].tasks
            tasks.append(Task(*map(int, words[:5]), core, tuple(words[5:])))
            if len(tasks) > 1 and tasks[-2].core == core:
                tasks[-2].next = tasks[-1]
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


def differences(
    theirs: list[Job], ours: list[Job], names: list[str], way: Way
) -> Counter[tuple[str, str]]:
    """Return each difference in words, with what explains it or ``""``, and how often it is met."""
    found: Counter[tuple[str, str]] = Counter()
    one = [task for job in theirs for task in job.tasks]
    other = [task for job in ours for task in job.tasks]
    left_out = {task.node for task in one} - {task.node for task in other}
    if any(not names[node].endswith("putOperator") for node in left_out):
        return Counter(in_full([task for task in one if task.node not in left_out], other, names))
    keys = [[task.identity for task in tasks] for tasks in (one, other)]
    pairs: list[tuple[Task, Task]] = []
    for tag, i, i_end, j, j_end in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(one[i:i_end], other[j:j_end])
            continue
        for task in one[i:i_end]:
            reason = ENDS if names[task.node].endswith("putOperator") else ""
            found[f"task of {names[task.node]} only theirs", reason] += 1
        found.update((f"task of {names[task.node]} only ours", "") for task in other[j:j_end])
    kept = [{id(pair[side]) for pair in pairs} for side in (0, 1)]
    cuts = [
        [(job.flags, job.cores, job.priority, job.has_base, own)
         for job in jobs if (own := [task for task in job.tasks if id(task) in ids])]
        for jobs, ids in zip((theirs, ours), kept)
    ]  # fmt: skip
    shapes = [[(*cut[:-1], [task.identity for task in cut[-1]]) for cut in side] for side in cuts]
    goes_on: set[int] = set()  # behind these tasks, the last of theirs, ours may lead on
    if shapes[0] != shapes[1]:
        goes_on = joined_at_outputs(cuts[0], shapes[1], names)
        found[f"{len(cuts[0])} jobs theirs, {len(cuts[1])} ours", CUT if goes_on else ""] += 1
    for mine, its in pairs:
        found.update(task_differences(mine, its, kept[0], goes_on, way))
    return found


def in_full(theirs: list[Task], ours: list[Task], names: list[str]) -> list[tuple[str, str]]:
    """Compare tasks where the CPU runs a node: those that are left rely on no other's registers.

    Ours give every register that theirs do the same last value, but the pointers of the groups.
    """
    order = [[(task.core, task.node, task.enabled) for task in tasks] for tasks in (theirs, ours)]
    if order[0] != order[1] or not ours:
        return [("other tasks beside a node on the CPU", "")]
    found = [("a node on the CPU", IN_FULL)]
    for mine, its in zip(theirs, ours):
        wanted, given = ({word[-4:]: word for word in task.words[:-CHAIN]} for task in (mine, its))
        found += [
            (f"{names[mine.node]} in full, {number}: {word[4:-4]} theirs", "")
            for number, word in wanted.items()
            if number[1:] != POINTER and given.get(number) != word
        ]
    return found


def joined_at_outputs(theirs: list[Any], ours: list[Any], names: list[str]) -> set[int]:
    """Join jobs between which an output leaves the network.

    Returns:
        The tasks that ended the first ones, by their ``id``; none if the rest is not as ours.
    """
    joined: list[list[Any]] = []
    ends: set[int] = set()
    for *how, tasks in theirs:
        between = names[joined[-1][-1][-1].node + 1 : tasks[0].node] if joined else []
        if "OutputOperator" in between and joined[-1][:-1] == how:
            ends.add(id(joined[-1][-1][-1]))
            joined[-1][-1].extend(tasks)
        else:
            joined.append([*how, list(tasks)])
    is_same = [(*how, [task.identity for task in tasks]) for *how, tasks in joined] == ours
    return ends if is_same else set()


def task_differences(
    theirs: Task, ours: Task, kept: set[int], goes_on: set[int], way: Way
) -> list[tuple[str, str]]:
    """Return the differences of a task that both submit; ``kept`` are all such of theirs."""
    found = [
        (f"task's {name} {getattr(theirs, name):x} theirs, {getattr(ours, name):x} ours", "")
        for name in ("interrupts", "cleared", "flags")
        if getattr(theirs, name) != getattr(ours, name)
    ]
    behind = ""
    if id(theirs) in goes_on:
        behind = CUT
    elif ours.next is None and (theirs.next is None or id(theirs.next) not in kept):
        behind = COUNT if theirs.next is None else ENDS
    for at, (a, b) in enumerate(zip(theirs.words, ours.words)):
        if a != b:
            is_chain = at >= len(theirs.words) - CHAIN
            what = "chain" if is_chain else "register"
            reason = behind if is_chain else explained(theirs, ours, int(a[-4:], 16), way)
            found.append((f"{what} {a[-4:]}: {a[4:-4]} theirs, {b[4:-4]} ours", reason))
    return found


def explained(theirs: Task, ours: Task, number: int, way: Way) -> str:
    """Return why a register of a convolution may differ, or ``""``.

    RK3588 does not convert the input where bit 0 of 104c is on. librknnrt 1.5.2 has it convert
    uint8 for int16 (which 100c tells), and widens an image of float16 whose rows are passed through
    by the columns that fill them up; 2.3.2 does neither.
    """
    pair = theirs, ours
    if number in (0x104C, 0x1180) or 0x1050 <= number <= 0x105C:
        is_off, is_ours_off = ((task.value(0x104C) or 0) & 1 == 1 for task in pair)
        is_wide = all((task.value(0x100C) or 0) >> 4 & 7 == 1 for task in pair)
        return "" if not is_ours_off else BYPASS if is_off else PIXELS if is_wide else ""
    sizes = [task.value(0x1020) or 0 for task in pair]
    (row, width), heights = [size >> 16 for size in sizes], {size & 0xFFFF for size in sizes}
    planes = [(task.value(0x1080) or 0) // max(w, 1) for task, w in zip(pair, (row, width))]
    is_wider = (
        way.pass_through
        and len(heights) == 1
        and width < row < width + 8
        and row % 8 == 0
        and [task.value(0x107C) for task in pair] == [row, width]
        and len(set(planes)) == 1
    )
    return EDGE if is_wider and number in (0x1020, 0x107C, 0x1080) else ""


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
    said: Counter[str] = Counter()  # ways
    wrong: Counter[str] = Counter()
    for number, way in enumerate(ways_of(model, is_full)):
        theirs = submitted(library or None, model, way, number)
        if isinstance(theirs, str):
            continue  # the vendor's runtime refuses this way
        ours = submitted("open", model, way, number)
        if not isinstance(ours, str):
            found = set(differences(theirs, ours, names, way))
        else:
            is_known = isinstance(submitted("sim", model, way, number), str)
            found = {(f"here {ours}", REFUSED if is_known else "")}
        said["ways"] += 1
        said["equal"] += not found
        said.update({reason or "unexplained" for _, reason in found})
        wrong.update(f"{what} ({way.name})" for what, reason in found if not reason)
    counts = "; ".join(f"{what}: {count}" for what, count in said.items() if count)
    examples = "".join(f", {what}" for what, _ in wrong.most_common(8))
    print(f"{'differs' if wrong else 'ok'}: {counts or 'ways: 0'}{examples}")


if __name__ == "__main__":
    main()
