"""Runs jobs of rknn-toolkit2 in its own Python, and reads what it complained of."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rknn_runtime.conversion.environment import clean_environment
from rknn_runtime.conversion.runner import STEP, do
from rknn_runtime.errors import RknnError

__all__ = ["ToolkitError", "reason_in", "run_job"]

#: Takes a line at a time.
Progress = Callable[[str], None]

_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_COMPLAINT = re.compile(r"E (?:[a-z_]+: )?(.*)")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit): (.*)")
#: What it says before and after every reason.
_NO_REASON = ("Traceback", "rknn-toolkit2 version", "Catch exception", "Please feedback")


class ToolkitError(RknnError):
    """rknn-toolkit2 could not do something; the message has its own reason.

    Attributes:
        step: What it was at: ``"config"``, ``"load"``, ``"build"`` ...
        log: All that it printed.
    """

    def __init__(self, message: str, step: str, log: str) -> None:
        super().__init__(message, step, log)  # which pickle calls it with
        self.step = step
        self.log = log

    def __str__(self) -> str:
        return str(self.args[0])


def run_job(python: str | None, job: Mapping[str, Any], progress: Progress | None = None) -> str:
    """Run a job and return what the toolkit printed.

    Args:
        python: The program with rknn-toolkit2; None: this process has it.
        job: The steps to do, in this order: ``init`` and ``config`` (arguments), ``load``
            (``call`` and ``arguments``), ``build`` (arguments), ``export`` (a path), ``simulate``
            (``inputs``, a list of paths of ``.npy`` for each run, and ``folder`` for the
            outputs), ``accuracy_analysis`` (arguments).
        progress: Called with each step.

    Raises:
        OSError: The program cannot be started.
        ToolkitError: A step failed.
    """

    def say(step: str) -> None:
        if progress is not None:
            progress(_named(step, job))

    if python is None:
        log, result = "", do(dict(job), say)
    else:
        log, result = _elsewhere(python, job, say)
    if result["error"] is not None:
        step = result["step"]
        reason = reason_in(log) or result["error"]
        raise ToolkitError(f"rknn-toolkit2 failed in {_named(step, job)}: {reason}", step, log)
    return log


def _named(step: str, job: Mapping[str, Any]) -> str:
    """What the toolkit calls a step."""
    if step == "load":
        return str(job["load"]["call"])
    return {"export": "export_rknn", "simulate": "inference"}.get(step, step)


def _elsewhere(
    python: str, job: Mapping[str, Any], say: Progress
) -> tuple[str, dict[str, str | None]]:
    """Run a job in another Python; return what it printed, and what became of the job."""
    with tempfile.TemporaryDirectory(prefix="rknn-toolkit-") as folder:
        given, answer = Path(folder, "job.json"), Path(folder, "result.json")
        given.write_text(json.dumps(job), "utf-8")
        program = Path(__file__).with_name("runner.py")
        log, status = _watched([python, "-u", str(program), str(given), str(answer)], folder, say)
        try:
            result: dict[str, str | None] = json.loads(answer.read_text("utf-8"))
        except (OSError, ValueError):
            result = {"step": _last_step(log), "error": _death(status)}
    return log, result


def _watched(words: list[str], folder: str, say: Progress) -> tuple[str, int]:
    """Run a program in a folder of its own, where the toolkit leaves files, and read along."""
    environment = {**clean_environment(), "PYTHONIOENCODING": "utf-8"}
    lines = []
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        try:
            for data in process.stdout:
                # Bars of progress are drawn over and over, with returns between.
                text = _COLORS.sub("", data.decode("utf-8", "replace"))
                line = text.rstrip("\r\n").rpartition("\r")[2]
                lines.append(line)
                if line.startswith(STEP):
                    say(line[len(STEP) :])
        except BaseException:
            process.kill()
            raise
    return "\n".join(lines), process.returncode


def reason_in(log: str) -> str | None:
    """Find the sentence of a log that says why: its first complaint that is one."""
    complaints, raised = [], []
    for line in log.split("\n"):
        match = _COMPLAINT.match(line)
        if match and match[1].strip() and not match[1].startswith(_NO_REASON):
            complaints.append(match[1].strip())
        match = _RAISED.match(line)
        if match and match[1].strip() and not match[1].startswith(_NO_REASON):
            raised.append(match[1].strip())
    found = complaints or raised[-1:]
    return found[0] if found else None


def _last_step(log: str) -> str:
    steps = [line[len(STEP) :] for line in log.split("\n") if line.startswith(STEP)]
    return steps[-1] if steps else "import"


def _death(status: int) -> str:
    if status < 0:
        return f"its process was ended by signal {-status}" + (
            ", as when memory runs out" if status == -9 else ""
        )
    return f"its process ended with status {status}"
