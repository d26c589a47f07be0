"""Looks, judges, and says what is wrong, the first cause first."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rknn_runtime.tools.doctor import (
    around_rules,
    files,
    library_rules,
    machine_rules,
    model_rules,
    probes,
    program_rules,
    python_rules,
    run_rules,
    summary,
)  # fmt: skip
from rknn_runtime.tools.doctor.facts import Facts, ModelFacts, Surroundings
from rknn_runtime.tools.doctor.log import log_lines, logged_runtime, signs_in
from rknn_runtime.tools.doctor.rule import PROBLEM, Observation, Rule
from rknn_runtime.tools.doctor.tree import Tree

__all__ = ["RULES", "Diagnosis", "Observation", "doctor", "gather", "judge"]

#: In the order of causes: what stands first makes what comes later pointless.
RULES: tuple[Rule, ...] = (
    *machine_rules.RULES, *library_rules.RULES, *program_rules.RULES, *python_rules.RULES,
    *model_rules.RULES, *run_rules.RULES, *around_rules.RULES,
)  # fmt: skip
#: On the simulated NPU only these count.
_TOPICS_OF_SIMULATED = ("model", "python", "test")
_RULES_OF_RUNTIMES = ("model-target", "model-too-new", "model-damaged")


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        observations: Problems, then warnings, each with the first cause first; then what is well.
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
        """The lines with stable keys, for JSON."""
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
    """Say why models do not run here.

    Args:
        model: A .rknn file that is to run; it is also loaded and run once, in a process of its
            own, when nothing else is wrong and ``root`` is /. None: only the machine is looked at.
        library: A runtime's path; ``"sim"`` for the simulated NPU, on which nothing of the board
            matters. None: as `open_library` chooses.
        root: Where /proc, /sys, /dev, /etc and /usr/lib are, as of a container's host; nothing
            outside is read.
        surroundings: What is known of the process; None: this one, or of another ``root`` the
            Python that lies there.
        log: A file with what the kernel or a program printed, here or on another machine; the
            kernel's own log is asked, too.
        progress: Called with a sentence before what may take longer than a second.

    Returns:
        What is wrong, the first cause first, with what repairs it, and what is well.

    Raises:
        OSError: ``model`` or ``log`` cannot be read.
        TypeError: An argument of another type.
    """
    if surroundings is not None and not isinstance(surroundings, Surroundings):
        raise TypeError(f"surroundings: expected a Surroundings, got {type(surroundings).__name__}")
    if library is not None and not isinstance(library, str):
        raise TypeError(f"library: expected a str or None, got {type(library).__name__}")
    process = probes.surroundings(Tree(root)) if surroundings is None else surroundings
    if library is not None and library != "sim":
        process = replace(process, variables={**process.variables, "RKNN_RUNTIME_LIBRARY": library})
    simulated = (library or process.variables.get("RKNN_RUNTIME_LIBRARY")) == "sim"
    known = None if model is None else files.model_facts(model)
    facts = gather(root, process, log=log, model=known, simulated=simulated)
    found = judge(facts)
    if known is not None and process.live and not any(each.severity == PROBLEM for each in found):
        from rknn_runtime.tools.doctor.trial import trial

        if progress is not None:
            progress(f"loading and running {known.path}")
        facts = replace(facts, trial=trial(known.path, library))
        found = judge(facts)
    return Diagnosis((*found, *summary.well(facts, found)), facts)


def gather(
    root: str | os.PathLike[str],
    surroundings: Surroundings,
    *,
    log: str | os.PathLike[str] | None = None,
    model: ModelFacts | None = None,
    simulated: bool = False,
) -> Facts:
    """Look at all there is.

    Raises:
        OSError: ``log`` cannot be read.
    """
    from rknn_runtime.tools.bench.board import state

    tree = Tree(root)
    lines = log_lines(tree, surroundings.live, log)
    found: Mapping[str, Any] = {
        **probes.board(tree), **probes.driver(tree, lines), **probes.nodes(tree, surroundings),
    }  # fmt: skip
    return Facts(
        surroundings=surroundings,
        simulated=simulated,
        libraries=files.libraries(tree, surroundings),
        clocks=state(str(tree.root)),
        memory_kb=probes.memory(tree),
        has_demo=bool(found["soc"] and found["soc"].mini) and probes.has_demo(tree),
        log=lines,
        told=log is not None,
        signs=signs_in(lines),
        logged_runtime=logged_runtime(lines),
        model=model,
        **found,
    )


def judge(facts: Facts) -> tuple[Observation, ...]:
    """Apply every rule: problems, then warnings, each in the order of causes."""
    found: dict[str, Observation] = {}
    for rule in RULES:
        if facts.simulated and rule.topic not in _TOPICS_OF_SIMULATED:
            continue
        if facts.simulated and rule.name in _RULES_OF_RUNTIMES and facts.model is None:
            continue
        observed = None if rule.name in found else rule.judge(facts)
        if observed is not None:
            found[rule.name] = observed
    return tuple(sorted(found.values(), key=lambda each: each.severity != PROBLEM))
