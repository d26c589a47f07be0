"""What the kernel and the vendor's runtime print, and what it means."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rknn_runtime._files import opened_file
from rknn_runtime.doctor.tree import Tree

__all__ = [
    "SIGNS", "first_match", "line_with", "log_lines", "logged_driver", "logged_runtime", "signs_in",
    "unknown_error",
]  # fmt: skip


def _status(number: int, name: str) -> str:
    """How programs print a status: ``rknn_init fail! ret=-6``, ``RKNN_ERR_MODEL_INVALID``."""
    return rf"rknn_err_{name}|rknn_(?!set_core_mask)\w+\b.*\b(ret|code|error)\W{{0,4}}-{number}\b"


#: What a line says, by the name that the rules use: words of the runtimes 1.0 to 2.3.2, of the
#: driver, of the dynamic linker, and of programs that print a status.
SIGNS = {
    "open": r"failed to open \S+ (module|node), need to insmod|failed to open rknn device"
    r"|failed to open device, fd|" + _status(3, "device_unavailable"),
    "submit": r"failed to submit|rknpu: failed to wait job|rknpu: job timeout|"
    + _status(2, "timeout"),
    "allocation": r"failed to (allocate (handle|fd|(model|task|weight|device) mem)|map memory|"
    r"malloc (npu|cpu) memory|import device mem)|failed to convert fd.*cannot allocate|"
    r"rknpu.*(failed to allocate|dma map \d+ fail)|rknn_create_mem.*fail|"
    r"dma heap allocation failed|" + _status(4, "malloc_fail"),
    "bad address": r"failed to allocate handle.*bad address",
    "cma": r"cma_alloc: (.*: )?alloc failed",
    "killed": r"out of memory: kill|oom-kill|invoked oom-killer",
    "descriptors": r"too many open files",
    "no system call": r"errno: 38\b|rknn.*function not implemented",
    "power": r"failed to get ack on domain 'npu'|npu.*failed to enable (power|supply|regulator)",
    "bounce": r"swiotlb.*(buffer is full|allocation failed)",
    "no iommu": r"iommu is disabled, using non-iommu mode",
    "page fault": r"(npu|fda[bcd]\w+|fde4\w+)\.?\w* ?(rk_)?iommu.*page fault|rk_iommu "
    r"(fda[bcd]|fde4)\w+\.iommu: page fault|rknpu.*page fault",
    "model version": r"invalid rknn model version|incompatible model version"
    r"|failed to decode config data|support model version <=|"
    + _status(12, "incompatile_optimization_level_version"),
    "versions": r"rknn model version: .* not match with rknn runtime",
    "target": r"does not match the rknpu hardware|model target platform.*current platform"
    r"|rknn model is for rk\w+, but current platform|" + _status(13, "target_platform_unmatch"),
    "unknown target": r"meet (unsupported|unknown) (rknn |rknpu )?target",
    "magic": r"invalid rknn_magic|invalid rknn fo?r?m?a?r?mat"
    r"|invalid rknn model (size|magic(?!: 4e4e4b5254505943))|rknn model verify failed",
    "model refused": r"load model failed|import rknn model failed"
    r"|^(?!.*dynamic range).*(" + _status(6, "model_invalid") + ")",
    "no model file": r"failed to open model|invalid model path|(fopen|open|load|read)\b.*"
    r"\.rknn\b.*(fail|no such file)|\.rknn\b.*(no such file|not found|does ?n.t exist)",
    "operator": r"unsupport(ed)? \w+( \w+)? (op|layer)\b|meet unsupported (?!(rknn |rknpu )?target)"
    r"|fallback cpu failed|op type: .* is not regist|contains custom op type"
    r"|unsupport layernormalization",
    "call": r"\bsize\W*\d+\W*(<|!=)|buf size error|inputoperator: not support|"
    r"rknn_(?!init|run|create_mem|query|set_core_mask)\w+(:| error)?,? .*(error|invalid|required|"
    r"out of range|not support|unsupport|is null|!= model)|not supported in mini runtime|"
    r"exception when setting inputs|the input\[\d+\] need|"
    + _status(5, "param_invalid")
    + "|"
    + _status(8, "input_invalid"),
    "encrypted magic": r"invalid rknn model magic: 4e4e4b5254505943",
    "language model": r"invalid rknn llm model magic|invalid rkllm model",
    "language chip": r"platform error: must be either",
    "heap": r"failed to open dma heap|dma_heap/system.*(no such|denied|failed)",
    "hardware version": r"hw_version = |driver version is unknown"
    r"|failed to check rknpu hardware version",
    "driver refused": r"mismatch driver version|driver version is too low|"
    + _status(10, "device_unmatch"),
    "driver older": r"recommend to upgrade the driver",
    "other kernel": r"rknpu\S* (disagrees about version|version magic|unknown symbol)"
    r"|rknpu.*((exec|invalid module) format|key was rejected|required key not available)",
    "kernel crash": r"\b(pc|lr) : \w*rknpu|\bbug: .*rknpu",
    "old header": r"info_len\([0-9]+\) < sizeof",
    "symbol": r"undefined symbol: rknn_|cannot find symbol.*rknn_",
    "not linked": r"undefined reference to .rknn_",
    "program's library": r"loading shared libraries: (?!librknn)|importerror: lib(?!rknn)",
    "program's format": r"\bsh: \S*/\S+: (not found|no such file)|cannot execute binary file",
    "numpy": r"_array_api not found|compiled using numpy 1\.x",
    "instruction": r"illegal instruction",
    "simulator": r"not support inference on the simulator",
    "system libraries": r"version [`'\"]?(glibc|glibcxx|cxxabi)_[0-9.]+[`'\"]? not found",
    "static tls": r"cannot allocate memory in static tls",
    "no rknnlite": r"no module named '?rknn(lite)?\b|cannot import name 'rknnlite'"
    r"|no matching distribution found for rknn"
    r"|rknn\S*\.whl\W.*(not a supported wheel|is invalid)",
    "target argument": r"unsupported run platform: linux aarch64",
    "first toolkit": r"unsupport platforms: r[kv]|\bw rknn-toolkit version: 1\.",
    "cores": r"not support core mask|rknn_set_core_mask fail|setcoremask interface is only"
    r"|core mask = \w+ is invalid|has not multicore config|illegal core num",
    "android policy": r"avc: +denied .*(rknpu|/dev/dri|dri/|dma_heap|librknn)",
    "android namespace": r"librknn\w*\.so\W.*(not accessible for the namespace|not found: needed)"
    r"|dlopen failed: library .\S*librknn",
    "managed": r"externally-managed-environment",
    "python symbols": r"(symbol not found|undefined symbol):? .?_?Py[A-Z]",
    "packaging": r"no module named '?pkg_resources",
    "disk": r"no space left on device",
    "not executable": r"\bsh: \S+: permission denied",
    "connection": r"npu ?transfer|rknn_server|transfer (service|interface)"
    r"|rknn_init, +(server connect|msg_\w+_ack) fail",
    "probe": r"rknpu.*probe.*(failed|error)|rknpu: probe of",
    "crash": r"segmentation fault|sigsegv|core dumped|\bbus error\b",
    "not elf": r"librknn.*(invalid elf header|wrong elf class|file too short)",
    "no library": r"librknn\w*\.so\S* cannot open shared object|can ?not find dynamic library",
    "dependency": r"librknn\w*\.so\S* lib(?!rknn)\S+ cannot open shared object",
    "rga": r"\brga(_\w+)?\b.*(unsupport(ed)? memory larger than 4g|mmu.*4g|bad parameters|fail)"
    r"|failed to open rga|fail\w* to call rockchiprga|rga_?blit",
    "rga forbidden": r"failed to open rga: ?permission denied",
}
_SIGNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in SIGNS.items()}
#: Lines that speak of the NPU, or mean something.
_TOPIC = re.compile(
    "|".join([r"rknpu|rknn|rocket|\bnpu\b|galcore", *SIGNS.values()]), re.IGNORECASE
)
_ERROR = re.compile(r"\bE RKNN(API)?\b")
_RUNTIME = re.compile(r"rknnm?rt version: ([0-9]+)\.([0-9]+)\.([0-9]+)")
_DRIVER = re.compile(r"(?:driver version|Driver Information,? version|Initialized rknpu):? v?"
                     r"([0-9]+\.[0-9]+\.[0-9]+)")  # fmt: skip
_MOST_LINES = 2000
#: Of a file that is read, of one that may be given, and of a line.
_MOST_BYTES = 1 << 24
_MOST_FILE_BYTES = 1 << 40
_MOST_CHARACTERS = 2000
_SHOWN_CHARACTERS = 200
_FILES = ("/var/log/dmesg", "/var/log/kern.log")


def log_lines(tree: Tree, live: bool, log: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """Read the lines of the kernel's log, and of a file, that speak of the NPU.

    Args:
        tree: Where ``/dev/kmsg`` or ``/var/log`` lie.
        live: It is this machine's own.
        log: A file of what the kernel or a program printed; None: the kernel alone is asked.

    Raises:
        OSError: ``log`` cannot be read.
        ValueError: It is empty, or no regular file.
    """
    texts = []
    if log is not None:
        with opened_file(log, _MOST_FILE_BYTES) as data:
            texts.append(bytes(data[:_MOST_BYTES]).decode("utf-8", "replace"))
    kernel = _kernel_messages(tree.path("/dev/kmsg")) if live else ""
    texts += [kernel] if kernel else map(tree.text, _FILES)
    lines = [line[:_MOST_CHARACTERS].strip() for text in texts for line in text.splitlines()]
    lines = [line for line in lines if _TOPIC.search(line)]
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


def line_with(sign: str, lines: Sequence[str]) -> str:
    """The first line that means something, as far as a report shows it; empty: none."""
    found = first_match(_SIGNS[sign], lines)
    return found.string[:_SHOWN_CHARACTERS] if found else ""


def unknown_error(lines: Sequence[str]) -> str:
    """The first line in which a runtime reports an error that no sign knows; empty: none."""
    return next(
        (
            line for line in lines
            if _ERROR.search(line) and not any(sign.search(line) for sign in _SIGNS.values())
        ),
        "",
    )  # fmt: skip


def first_match(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    """Find a pattern in the first line that has it."""
    return next(filter(None, map(pattern.search, lines)), None)


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
