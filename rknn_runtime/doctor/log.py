"""What the kernel and the vendor's runtime print, and what it means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rknn_runtime.doctor.tree import Tree

__all__ = ["SIGNS", "log_lines", "logged_driver", "logged_runtime", "signs_in"]

#: What a line says, by the name that the rules use.
SIGNS = {
    "open": r"failed to open rknpu module|failed to open rknn device",
    "submit": r"failed to submit|rknpu: failed to wait job|rknpu: job timeout",
    "allocation": r"failed to allocate handle|failed to malloc npu memory|rknn_err_malloc_fail"
    r"|failed to convert fd.*cannot allocate|cma_alloc: alloc failed|rknpu.*failed to allocate"
    r"|rknn_create_mem.*fail",
    "descriptors": r"too many open files",
    "bounce": r"swiotlb.*(buffer is full|allocation failed)",
    "no iommu": r"iommu is disabled, using non-iommu mode",
    "model version": r"invalid rknn model version|incompatible model version"
    r"|failed to decode config data",
    "target": r"does not match the rknpu hardware|model target platform.*current platform"
    r"|rknn model is for rk\w+, but current platform",
    "unknown target": r"meet unsupported target type",
    "magic": r"invalid rknn_magic|invalid rknn fo?r?m?a?r?mat",
    "encrypted magic": r"invalid rknn model magic: 4e4e4b5254505943",
    "language model": r"invalid rknn llm model magic",
    "heap": r"failed to open dma heap|dma_heap/system.*(no such|denied|failed)",
    "hardware version": r"hw_version = -1|driver version is unknown",
    "old header": r"info_len\([0-9]+\) < sizeof",
    "symbol": r"undefined symbol: rknn_|cannot find symbol.*rknn_",
    "cores": r"not support core mask|rknn_set_core_mask fail",
    "probe": r"rknpu.*probe.*(failed|error)|rknpu: probe of",
    "crash": r"segmentation fault|sigsegv|core dumped",
    "not elf": r"librknn.*(invalid elf header|wrong elf class|file too short)",
    "no library": r"librknn\w*\.so.*cannot open shared object|can ?not find dynamic library",
    "rknn1": r"\bE RKNNAPI:|galcore",
}
_SIGNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in SIGNS.items()}
#: Lines that speak of the NPU.
_TOPIC = re.compile(
    r"rknpu|rknn|rocket|\bnpu\b|galcore|dma.heap|swiotlb|segmentation fault|\bcma\b|cma_alloc"
    r"|too many open",
    re.IGNORECASE,
)
_RUNTIME = re.compile(r"rknnm?rt version: ([0-9]+)\.([0-9]+)\.([0-9]+)")
_DRIVER = re.compile(r"(?:driver version|Driver Information,? version|Initialized rknpu):? v?"
                     r"([0-9]+\.[0-9]+\.[0-9]+)")  # fmt: skip
_MOST_LINES = 2000
_MOST_BYTES = 1 << 24
_FILES = ("/var/log/dmesg", "/var/log/kern.log")


def log_lines(tree: Tree, live: bool, log: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """Read the lines of the kernel's log, and of a file, that speak of the NPU.

    Args:
        tree: Where ``/dev/kmsg`` or ``/var/log`` lie.
        live: It is this machine's own.
        log: A file of what the kernel or a program printed; None: the kernel alone is asked.

    Raises:
        OSError: ``log`` cannot be read.
    """
    texts = []
    if log is not None:
        with Path(log).open("rb") as file:
            texts.append(file.read(_MOST_BYTES).decode("utf-8", "replace"))
    kernel = _kernel_messages(tree.path("/dev/kmsg")) if live else ""
    texts += [kernel] if kernel else map(tree.text, _FILES)
    lines = [line.strip() for text in texts for line in text.splitlines() if _TOPIC.search(line)]
    return tuple(lines[-_MOST_LINES:])


def _kernel_messages(path: Path) -> str:
    """Read what the kernel keeps of its log: a message a call, until it would wait."""
    found: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # for root only, on most systems
        return ""
    try:
        while len(found) < 100_000:
            try:
                message = os.read(descriptor, 8192)
            except BrokenPipeError:  # overwritten meanwhile: the next one is there
                continue
            if not message:
                break
            found.append(message.partition(b";")[2].partition(b"\n")[0].decode("utf-8", "replace"))
    except OSError:  # the end, for now
        pass
    finally:
        os.close(descriptor)
    return "\n".join(found)


def signs_in(lines: Sequence[str]) -> frozenset[str]:
    """Tell what lines mean."""
    return frozenset(
        name for name, pattern in _SIGNS.items() if any(pattern.search(line) for line in lines)
    )


def logged_runtime(lines: Sequence[str]) -> tuple[int, ...]:
    """Version of the runtime that the log names last; empty: none."""
    for line in reversed(lines):
        match = _RUNTIME.search(line)
        if match:
            return tuple(map(int, match.groups()))
    return ()


def logged_driver(lines: Sequence[str]) -> str:
    """Version of the driver that the log names last; empty: none."""
    for line in reversed(lines):
        match = _DRIVER.search(line)
        if match:
            return match[1]
    return ""
