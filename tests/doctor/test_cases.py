"""Machines of public threads: the first cause and the command that repairs it.

``threads.json`` has 394 threads, found in eleven searches. Rows that are held out were written
before any rule was run on them, so the first run on each set judged the rules of that day:

====== ============== ====== ==============
search right at first search right at first
====== ============== ====== ==============
1      32 of 37       7      27 of 32
2      24 of 41       8      29 of 32
3      14 of 21       9      31 of 32
4      7 of 9         10     3 of 15
5      18 of 26       11     20 of 36
6      13 of 20
====== ============== ====== ==============

``machines.json`` has machines for rules without a thread.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.machine import MACHINES, THREADS, build
from rknn_runtime.tools.doctor.look import gather
from rknn_runtime.tools.doctor.rules import Observation, judge

HEALTHY = json.loads(Path(__file__).with_name("healthy.json").read_text("utf-8"))


def test_first_cause_and_its_cure(judged: list[list[Observation]]) -> None:
    """The first cause and its command are the thread's."""
    wrong = []
    for case, found in zip((*THREADS, *MACHINES), judged):
        is_right = bool(found) and case.right(found[0].rule, found[0].cure)
        if is_right == case.unknown:
            wrong.append((case.thread or case.rule, found[:1]))
    assert wrong == []


def test_threads_are_counted_once() -> None:
    """No thread stands for two of the cases, and those that stay wrong are no more than 10."""
    assert len({case.thread for case in THREADS}) == len(THREADS) == 394
    assert sum(case.unknown for case in THREADS) == 10


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(name: str, tmp_path: Path) -> None:
    """On a healthy machine there is neither problem nor warning, whatever it prints."""
    assert not judge(gather(**build(tmp_path, **HEALTHY[name])))
