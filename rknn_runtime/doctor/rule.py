"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rknn_runtime.doctor.facts import Facts

__all__ = ["PROBLEM", "WARNING", "Cause", "Observation", "Rule"]

PROBLEM, WARNING = "problem", "warning"


class Cause(NamedTuple):
    """What is wrong, and the command that repairs it."""

    text: str
    #: Commands, a line each; empty where no command helps and the text says what does.
    cure: str = ""


class Rule(NamedTuple):
    """A row: facts -> what is wrong."""

    name: str
    severity: str
    #: The line of the report that it stands for.
    topic: str
    #: None when the facts do not say so.
    judge: Callable[[Facts], Cause | None]


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
