"""Run jobs of rknn-toolkit2 in its own Python, and find the reasons of its failures."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rknn_runtime.conversion.environment import watch
from rknn_runtime.conversion.runner import STEP, do
from rknn_runtime.errors import RknnError

_COMPLAINT = re.compile(r"E (?:[a-z_]+: )?(.*)")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit): (.*)")
#: Complaints that give no reason.
_NO_REASON = ("Traceback", "rknn-toolkit2 version", "Catch exception", "Please feedback")


class ToolkitError(RknnError):
    """rknn-toolkit2 failed; the message has the reason and the step.

    Attributes:
        step: The step that failed: ``"config"``, ``"load"``, ``"build"`` ...
        log: All that the toolkit printed.
    """

    def __init__(self, message: str, step: str, log: str) -> None:
        super().__init__(message, step, log)  # the arguments that pickle passes
        self.step = step
        self.log = log

    def __str__(self) -> str:
        return str(self.args[0])


def run_job(
    python: str | None, job: Mapping[str, Any], progress: Callable[[str], None] | None = None
) -> str:
    """Run a job and return the output of the toolkit.

    Args:
        python: The Python with rknn-toolkit2; None if this process has it.
        job: The steps, done in this order: ``init`` and ``config`` (arguments), ``load``
            (``call`` and ``arguments``), ``build`` (arguments), ``export`` (a path), ``simulate``
            (``inputs``, a list of ``.npy`` paths for each run, and ``folder`` for the outputs),
            ``accuracy_analysis`` (arguments).
        progress: Called with each step.
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
    if step == "load":
        return str(job["load"]["call"])
    return {"export": "export_rknn", "simulate": "inference"}.get(step, step)


def _elsewhere(
    python: str, job: Mapping[str, Any], say: Callable[[str], None]
) -> tuple[str, dict[str, str | None]]:
    """Run a job in another Python; return its output and its result."""
    lines: list[str] = []

    def see(line: str) -> None:
        lines.append(line)
        if line.startswith(STEP):
            say(line[len(STEP) :])

    # In a new folder, since the toolkit leaves files.
    with tempfile.TemporaryDirectory(prefix="rknn-toolkit-") as folder:
        given, answer = Path(folder, "job.json"), Path(folder, "result.json")
        given.write_text(json.dumps(job), "utf-8")
        program = Path(__file__).with_name("runner.py")
        status = watch([python, "-u", str(program), str(given), str(answer)], see, folder)
        log = "\n".join(lines)
        try:
            result: dict[str, str | None] = json.loads(answer.read_text("utf-8"))
        except (OSError, ValueError):
            steps = [line[len(STEP) :] for line in lines if line.startswith(STEP)]
            result = {"step": steps[-1] if steps else "import", "error": _death(status)}
    return log, result


def reason_in(log: str) -> str | None:
    """Find the reason of a failure in a log: its first complaint that is one."""
    complaints, raised = (
        [
            match[1].strip()
            for match in map(pattern.match, log.split("\n"))
            if match and match[1].strip() and not match[1].startswith(_NO_REASON)
        ]
        for pattern in (_COMPLAINT, _RAISED)
    )
    return next(iter(complaints or raised[-1:]), None)


def _death(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    memory = ", as when memory runs out" if status == -9 else ""
    return f"its process was ended by signal {-status}{memory}"
