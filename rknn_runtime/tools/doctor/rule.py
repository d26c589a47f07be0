"""What a rule is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Union

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import first_match, line_with

__all__ = ["PROBLEM", "WARNING", "Cure", "Observation", "Rule", "When", "logged", "matched"]

PROBLEM, WARNING = "problem", "warning"

#: Looks for a cause: false where it is not there; else what the text may show as ``{found}``.
When = Callable[[Facts], object]
#: Commands, a line each, or what knows them; empty where none helps and the text says what does.
Cure = Union[str, Callable[[Facts], str]]


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


class Rule(NamedTuple):
    """A row: what is looked for, what repairs it, and what it is.

    A rule that differs by circumstances has several rows of one name, of which the first counts.
    """

    name: str
    severity: str
    topic: str
    when: When
    cure: Cure
    #: What is wrong, on lines of any length; shows ``{found}`` and ``{facts.kernel}`` and so on.
    text: str

    def judge(self, facts: Facts) -> Observation | None:
        """Say what is wrong; None when the facts do not say so."""
        found = self.when(facts)
        if not found:
            return None
        if isinstance(self.cure, str):
            cure = self.cure.format(facts=facts, found=found)
        else:
            cure = self.cure(facts)
        if facts.surroundings.uid == 0:  # who needs no sudo, and often has none
            cure = cure.replace("sudo ", "")
        text = " ".join(self.text.split()).format(facts=facts, found=found)
        return Observation(self.severity, self.topic, text, cure, self.name)


def logged(sign: str) -> When:
    """Return the log line that has this sign, a key of `rknn_runtime.tools.doctor.log.SIGNS`."""
    return lambda facts: line_with(sign, facts.log) if sign in facts.signs else ""


def matched(sign: str, pattern: str) -> When:
    """Look for a sign of the log, and for what it speaks of: the match of ``pattern``."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda facts: first_match(compiled, facts.log) if sign in facts.signs else None
