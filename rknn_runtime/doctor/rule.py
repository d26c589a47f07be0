"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Union

from rknn_runtime.doctor.facts import Facts

__all__ = ["PROBLEM", "WARNING", "Cause", "Cure", "Judge", "Observation", "Rule", "logged"]

PROBLEM, WARNING = "problem", "warning"


class Cause(NamedTuple):
    """What is wrong, and the command that repairs it."""

    text: str
    #: Commands, a line each; empty where no command helps and the text says what does.
    cure: str = ""


Judge = Callable[[Facts], Union[Cause, None]]
#: Commands, or what knows them when it has the facts.
Cure = Union[str, Callable[[Facts], str]]


class Rule(NamedTuple):
    """A row: facts -> what is wrong."""

    name: str
    severity: str
    #: The line of the report that it stands for.
    topic: str
    #: None when the facts do not say so.
    judge: Judge


class Observation(NamedTuple):
    """A line of the report."""

    #: ``"ok"``, ``"warning"`` or ``"problem"``.
    severity: str
    #: ``"board"``, ``"driver"``, ``"device"``, ``"library"``, ``"model"``, ``"memory"``,
    #: ``"clocks"``, ``"log"``, ``"python"`` or ``"test"``.
    topic: str
    text: str
    #: Commands that repair it, a line each; may be empty.
    cure: str = ""
    #: Name of the rule; empty for what is well.
    rule: str = ""


def logged(sign: str, text: str, cure: Cure = "") -> Judge:
    """Judge by the log alone.

    Args:
        sign: A name of `rknn_runtime.doctor.log.SIGNS`.
        text: What is wrong where the log has it.
        cure: What repairs it.
    """

    def judge(facts: Facts) -> Cause | None:
        if sign not in facts.signs:
            return None
        return Cause(text, cure if isinstance(cure, str) else cure(facts))

    return judge
