"""Fixtures of the tests that use the simulated NPU."""

from __future__ import annotations

import gc
import os
import signal
from socketserver import BaseServer

import pytest
from hypothesis import HealthCheck, settings

from rknn_runtime.sim import Control, Live

# Machines differ in speed, and emulated ones are ten times slower.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


def pytest_configure():
    """Let SIGINT interrupt, also where a shell runs the tests in the background and ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("TERM", None)  # a dumb terminal is sent less
    os.environ.setdefault("RKNN_SIM_THREADS", "1")  # the suite has a process for each CPU
    BaseServer.serve_forever.__defaults__ = (0.01,)  # to end a server takes so long, not 0.5 s


@pytest.fixture(autouse=True, scope="module")
def freeze_old_objects():
    """Keep the objects of pytest and modules out of a file's thousands of garbage collections."""
    gc.collect()
    gc.freeze()


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
