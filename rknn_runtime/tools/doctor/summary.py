"""Says what was found where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.rule import Observation

__all__ = ["well"]


def well(facts: Facts, found: Sequence[Observation]) -> list[Observation]:
    """A line for each topic of which something is known and nothing is wrong."""
    wrong = {each.topic for each in found}
    topics = _SIMULATED if facts.simulated else _TOPICS
    lines = ((topic, describe(facts)) for topic, describe in topics if topic not in wrong)
    return [Observation("ok", topic, text) for topic, text in lines if text]


def _board(facts: Facts) -> str:
    chip = f"{facts.soc.name} ({facts.soc.npu})" if facts.soc else facts.chip
    words = [facts.board, chip, f"Linux {facts.kernel}" if facts.kernel else ""]
    words.append("in a container" if facts.container else "")
    return ", ".join(word for word in words if word)


def _driver(facts: Facts) -> str:
    if not facts.driver:
        return ""
    kind = {"drm": ", as a DRM device", "misc": ", as /dev/rknpu"}.get(facts.interface, "")
    return f"{facts.driver} {facts.driver_version or 'of unknown version'}{kind}"


def _device(facts: Facts) -> str:
    nodes = [*facts.nodes, *([facts.heap] if facts.heap else [])]
    return ", ".join(f"{node.path} ({node.group}, {node.mode:04o})" for node in nodes)


def _library(facts: Facts) -> str:
    library = facts.library
    if library is None or library.elf is None:
        return ""
    libc = f", {library.elf.libc}" if library.elf.libc else ""
    return f"{library.path}: {library.runtime or 'version unknown'}, {library.elf.target}{libc}"


def _model(facts: Facts) -> str:
    header = facts.model.header if facts.model else None
    if facts.model is None or header is None:
        return ""
    return (
        f"{facts.model.path}: for {header.soc}, by toolkit {header.toolkit_version}, container "
        f"version {header.container_version}"
    )


def _memory(facts: Facts) -> str:
    names = {"MemAvailable": "available", "CmaTotal": "CMA", "CmaFree": "CMA free"}
    known = facts.memory_kb
    return ", ".join(f"{known[name] >> 10} MB {word}" for name, word in names.items()
                     if known.get(name))  # fmt: skip


def _clocks(facts: Facts) -> str:
    governors = facts.clocks.get("governor", {})
    words = [
        f"{name} {mhz:.0f} MHz" + (f" ({governors[name]})" if name in governors else "")
        for name, mhz in facts.clocks.get("frequency_mhz", {}).items()
        if name.startswith("cpu") or name in ("npu", "dmc")
    ]
    degrees = facts.clocks.get("temperature_c", {}).values()
    return ", ".join([*words, f"{max(degrees):.0f} C"] if degrees else words)


def _log(facts: Facts) -> str:
    return f"{len(facts.log)} lines about the NPU, none of them bad" if facts.log else ""


def _python(facts: Facts) -> str:
    return ", ".join(f"{name} {version}" for name, version in facts.surroundings.versions.items())


def _test(facts: Facts) -> str:
    return facts.trial.text if facts.trial else ""


_TOPICS: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    ("board", _board), ("driver", _driver), ("device", _device), ("library", _library),
    ("model", _model), ("memory", _memory), ("clocks", _clocks), ("log", _log),
    ("python", _python), ("test", _test),
)  # fmt: skip
_SIMULATED = tuple(row for row in _TOPICS if row[0] in ("model", "python", "test"))
