"""Find out why models do not run on a machine, and how to repair it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rknn_runtime.tools.doctor import look
from rknn_runtime.tools.doctor.facts import Facts, Surroundings, TrialFacts
from rknn_runtime.tools.doctor.rules import PROBLEM, Observation, judge

__all__ = ["Diagnosis", "Observation", "Surroundings", "doctor"]

_TRIAL_SECONDS = 120
_TRIAL = """
import sys, time
import numpy as np
from rknn_runtime import Model
path, library = sys.argv[1:]
with Model(path, library=library or None) as model:
    def inputs(kind):
        return [np.zeros(spec.shape, kind if spec.takes_pixels else np.float32)
                for spec in model.inputs]
    started = time.perf_counter()
    try:
        model.run(*inputs(np.uint8))
    except TypeError:  # images that are stored otherwise, as those of two channels on RV1103B
        model.run(*inputs(np.float32))
    print(f"loaded, and ran in {(time.perf_counter() - started) * 1e3:.1f} ms", end="")
"""


@dataclass(frozen=True)
class Diagnosis:
    """The findings.

    Attributes:
        observations: Problems, then warnings, each with the first cause first; then healthy topics.
        facts: What the rules judged.
    """

    observations: tuple[Observation, ...]
    facts: Facts

    @property
    def first(self) -> Observation | None:
        """The first cause; None when nothing is wrong."""
        return next((each for each in self.observations if each.rule), None)

    @property
    def healthy(self) -> bool:
        """No problem was found; there may be warnings."""
        return all(each.severity != PROBLEM for each in self.observations)

    def to_dict(self) -> dict[str, Any]:
        """Return the lines with stable keys, for JSON."""
        return {
            "healthy": self.healthy,
            "observations": [each._asdict() for each in self.observations],
        }


def doctor(
    model: str | os.PathLike[str] | None = None,
    *,
    library: str | None = None,
    root: str | os.PathLike[str] = "/",
    surroundings: Surroundings | None = None,
    log: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Diagnosis:
    """Find out why models do not run here.

    Args:
        model: A .rknn file to check. If nothing else is wrong and ``root`` is /, it is also loaded
            and run once in another process. None to look at the machine only.
        library: Path of a runtime, ``"open"`` for the open runtime, or ``"sim"`` for the
            simulated NPU, for which nothing of the board matters. None to choose as
            `open_library` does.
        root: The folder with /proc, /sys, /dev, /etc and /usr/lib, such as a container's host.
            Nothing outside of it is read.
        surroundings: The process. None for this one, or for the Python below another ``root``.
        log: A file with the output of a program or of dmesg, from here or another machine. The
            kernel's own log is read as well.
        progress: Called with a sentence before a step that may take longer than a second.

    Returns:
        The problems with their repairs, the first cause first, and the healthy topics.

    Raises:
        OSError: ``model`` or ``log`` cannot be read.
    """
    if surroundings is not None and not isinstance(surroundings, Surroundings):
        raise TypeError(f"surroundings: expected a Surroundings, got {type(surroundings).__name__}")
    if library is not None and not isinstance(library, str):
        raise TypeError(f"library: expected a str or None, got {type(library).__name__}")
    process = look.surroundings(look.Tree(root)) if surroundings is None else surroundings
    if library is not None and library != "sim":
        process = replace(process, variables={**process.variables, "RKNN_RUNTIME_LIBRARY": library})
    simulated = (library or process.variables.get("RKNN_RUNTIME_LIBRARY")) == "sim"
    known = None if model is None else look.model_facts(model)
    facts = look.gather(root, process, log=log, model=known, simulated=simulated)
    found = judge(facts)
    if known is not None and process.live and not any(each.severity == PROBLEM for each in found):
        if progress is not None:
            progress(f"loading and running {known.path}")
        facts = replace(facts, trial=_trial(known.path, library))
        found = judge(facts)
    return Diagnosis((*found, *_well(facts, found)), facts)


def _trial(path: str, library: str | None) -> TrialFacts:
    """Load a model and run it in another process, as runtimes may end the process."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TRIAL, path, library or ""],
            capture_output=True, text=True, errors="replace", timeout=_TRIAL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"no answer within {_TRIAL_SECONDS} s; look for the NPU in dmesg"
        return TrialFacts(False, text)
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


def _well(facts: Facts, found: Sequence[Observation]) -> list[Observation]:
    """Return a line for each healthy topic with known facts."""
    chip = f"{facts.soc.name} ({facts.soc.npu})" if facts.soc else facts.chip
    kernel = f"Linux {facts.kernel}" if facts.kernel else ""
    kind = {"drm": ", as a DRM device", "misc": ", as /dev/rknpu"}.get(facts.interface, "")
    nodes = [*facts.nodes, *([facts.heap] if facts.heap else [])]
    texts = {
        "board": _joined(facts.board, chip, kernel, "in a container" if facts.container else ""),
        "driver": f"{facts.driver} {facts.driver_version or 'of unknown version'}{kind}"
        if facts.driver and facts.driver != "rocket"
        else facts.driver,
        "device": _joined(*(f"{node.path} ({node.group}, {node.mode:04o})" for node in nodes)),
        "library": "",
        "model": "",
        "memory": _joined(
            *(
                f"{facts.memory_kb[name] >> 10} MB {word}"
                for name, word in (
                    ("MemAvailable", "available"), ("CmaTotal", "CMA"), ("CmaFree", "CMA free"),
                )
                if facts.memory_kb.get(name)
            )
        ),
        "clocks": _clocks(facts),
        "log": f"{len(facts.log)} lines about the NPU, none of them bad" if facts.log else "",
        "python": _joined(*(f"{name} {v}" for name, v in facts.surroundings.versions.items())),
        "test": facts.trial.text if facts.trial else "",
    }  # fmt: skip
    library, header = facts.library, facts.model.header if facts.model else None
    if library is not None and library.elf is not None:
        version = library.runtime or "version unknown"
        words = _joined(f"{version}", library.elf.target, library.elf.libc)
        texts["library"] = f"{library.path}: {words}"
    if facts.open_runtime:
        texts["library"] = "the open runtime, a part of this package"
    if facts.model is not None and header is not None:
        texts["model"] = (
            f"{facts.model.path}: for {header.soc}, by toolkit {header.toolkit_version}, container "
            f"version {header.container_version}"
        )
    skipped = {each.topic for each in found}
    if facts.simulated:
        skipped |= texts.keys() - {"model", "python", "test"}
    return [
        Observation("ok", topic, text)
        for topic, text in texts.items()
        if text and topic not in skipped
    ]


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _clocks(facts: Facts) -> str:
    governors = facts.clocks.get("governor", {})
    words = [
        f"{name} {mhz:.0f} MHz" + (f" ({governors[name]})" if name in governors else "")
        for name, mhz in facts.clocks.get("frequency_mhz", {}).items()
        if name.startswith("cpu") or name in ("npu", "dmc")
    ]
    degrees = facts.clocks.get("temperature_c", {}).values()
    return _joined(*words, f"{max(degrees):.0f} C" if degrees else "")
