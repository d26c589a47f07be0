"""A stand-in for the NPU's device, and programs that use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

from rknn_runtime.npu.library import SIMULATED

#: Behind a sanitizer's library, which has to be the first.
PRELOADED = f"{os.environ.get('LD_PRELOAD', '')} {Path(SIMULATED).with_name('librknn_board.so')}"

#: Begins each program: inputs for a model, drawn from a seed.
HEAD = """\
import json, sys, threading
import numpy as np
from rknn_runtime import Model

def inputs(model, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, t.shape, dtype=np.uint8) if t.takes_pixels
        else rng.normal(0, 1, t.shape).astype(np.float32)
        for t in model.inputs
    ]

def answers(model, *given):
    return [output.copy() for output in model(*given)]

def same(some, others):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(some, others))
"""


@pytest.fixture
def run(tmp_path, beside_device):
    """Return a function that runs a program on the stand-in and returns its output."""

    def run_program(driver: str, soc: str, code: str, *words: object, **variables: str):
        ours = {**beside_device(driver, soc), "XDG_CACHE_HOME": str(tmp_path)}
        done = python(HEAD + code, *words, env={**ours, **variables})
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run_program


@pytest.fixture
def start(tmp_path, beside_device):
    """Return a function that starts a program on the stand-in, with pipes; it ends by itself.

    All of them share the answers about kinds of task, and rocket's core.
    """
    started = []

    def start_program(driver: str, soc: str, code: str, *words: object, **variables: str):
        ours = {"XDG_CACHE_HOME": str(tmp_path), "RKNN_BOARD_BUSY": str(tmp_path / "busy")}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", HEAD + code, *map(str, words)],
                env={**beside_device(driver, soc), **ours, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start_program
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def beside_device():
    """Return the variables of a program that sees the device of a driver."""

    def variables(driver: str, soc: str) -> dict[str, str]:
        return {
            **os.environ,
            "LD_PRELOAD": PRELOADED,
            "RKNN_BOARD_NPU": driver,
            "RKNN_BOARD_SOC": soc,
            "RKNN_BOARD_EMULATOR": SIMULATED,
        }

    return variables
