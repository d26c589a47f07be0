"""Loads a model and runs it once, in a process of its own: runtimes end processes."""

from __future__ import annotations

import signal
import subprocess
import sys

from rknn_runtime.tools.doctor.facts import TrialFacts

__all__ = ["trial"]

_SECONDS = 120
_PROGRAM = """
import sys, time
import numpy as np
from rknn_runtime import Model
path, library = sys.argv[1:]
with Model(path, library=library or None) as model:
    inputs = [np.zeros(spec.shape, np.uint8 if spec.takes_pixels else np.float32)
              for spec in model.inputs]
    started = time.perf_counter()
    model.run(*inputs)
    print(f"loaded, and ran in {(time.perf_counter() - started) * 1e3:.1f} ms", end="")
"""


def trial(path: str, library: str | None) -> TrialFacts:
    """Try a model.

    Args:
        path: Of the model.
        library: As of `Model`; None: as it chooses.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, path, library or ""],
            capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return TrialFacts(False, f"no answer within {_SECONDS} s; look for the NPU in dmesg")
    except OSError as error:
        return TrialFacts(False, f"no process could be started: {error}")
    if done.returncode == 0:
        return TrialFacts(True, done.stdout)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        lines = (done.stdout + done.stderr).strip().splitlines()[-3:]
        return TrialFacts(False, f"the runtime ended the process ({name}): {'; '.join(lines)}")
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return TrialFacts(False, lines[-1])
