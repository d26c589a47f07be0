"""Fixtures of the tests that use the simulated NPU."""

from __future__ import annotations

import gc

import pytest

from rknn_runtime.sim import Control, Live


@pytest.fixture
def control():
    """Steer the simulated NPU; afterwards nothing may be alive, and nothing was misused."""
    steering = Control()
    steering.reset()
    yield steering
    gc.collect()
    live, violation = steering.live, steering.last_violation
    steering.reset()
    assert live == Live(0, 0, 0)
    assert violation == ""
