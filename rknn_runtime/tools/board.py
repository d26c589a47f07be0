"""The state of the board during a measurement: clocks, governors, temperatures, memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rknn_runtime._files import read_kernel_file


def state(root: str = "/") -> dict[str, Any]:
    """Return the state, as far as Linux reports it.

    Returns:
        ``"frequency_mhz"`` and ``"governor"`` by clock (``cpu0``, ``npu``, ``dmc`` ...),
        ``"temperature_c"`` by zone, ``"npu_load_percent"`` by core (for root only), and
        ``"throttled"``: the clocks whose limit is below their maximum.
    """
    base = Path(root)
    frequency: dict[str, float] = {}
    governor: dict[str, str] = {}
    temperature: dict[str, float] = {}
    throttled = []
    policies = sorted(base.glob("sys/devices/system/cpu/cpufreq/policy*"))
    for path in (*policies, *sorted(base.glob("sys/class/devfreq/*"))):
        is_cpu = path in policies
        name = path.name.replace("policy", "cpu") if is_cpu else path.name.rpartition(".")[2]
        kind, all_steps = (
            ("scaling_", "cpuinfo_max_freq") if is_cpu else ("", "available_frequencies")
        )
        now, allowed = _number(path / f"{kind}cur_freq"), _number(path / f"{kind}max_freq")
        steps = [int(word) for word in _text(path / all_steps).split() if word.isdigit()]
        if now is not None:
            frequency[name] = now / (1e3 if is_cpu else 1e6)
        if allowed is not None and steps and allowed < max(steps):
            throttled.append(name)
        if value := _text(path / f"{kind}governor"):
            governor[name] = value
    for zone in sorted(base.glob("sys/class/thermal/thermal_zone*")):
        degrees = _number(zone / "temp")
        if degrees is not None:
            temperature[_text(zone / "type") or zone.name] = degrees / 1e3
    load = _load(base)
    found = {
        "frequency_mhz": frequency,
        "governor": governor,
        "temperature_c": temperature,
        "npu_load_percent": load,
        "throttled": throttled,
    }
    return {name: value for name, value in found.items() if value}


def _load(base: Path) -> dict[str, float]:
    """Parse ``NPU load:  Core0: 12%, Core1:  0%,`` or ``NPU load: 12%``."""
    text = _text(base / "sys/kernel/debug/rknpu/load") or _text(base / "proc/rknpu/load")
    cores = re.findall(r"(Core\d+):\s*(\d+)%", text) or re.findall(r"(NPU) load:\s*(\d+)%", text)
    return {name.lower(): float(percent) for name, percent in cores}


def resident_kb(root: str = "/") -> int:
    """Return the memory of this process, kB of 1024 bytes; 0 if it is unknown."""
    for line in _text(Path(root) / "proc/self/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def _text(path: Path) -> str:
    return read_kernel_file(path).decode("utf-8", "replace").strip("\0\n ")


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else None
