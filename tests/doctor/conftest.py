"""The rules' verdicts, found once."""

from __future__ import annotations

import pytest

from doctor.machine import MACHINES, THREADS, build
from rknn_runtime.tools.doctor.look import gather
from rknn_runtime.tools.doctor.rules import Observation, judge


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[list[Observation]]:
    """What the rules say of each machine."""
    folder, every = tmp_path_factory.mktemp("machines"), (*THREADS, *MACHINES)
    return [judge(gather(**build(folder / str(n), **case.machine))) for n, case in enumerate(every)]
