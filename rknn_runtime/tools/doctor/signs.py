"""Patterns of lines of a log, by the names that the rules use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rknn_runtime.errors import _STATUS_CLASSES

#: The vendor's statuses, which are above ours.
_STATUSES = {
    kind.name.lower().removeprefix("rknn_err_"): -code
    for code, kind in _STATUS_CLASSES.items()
    if code > -1000
}


def _status(*names: str) -> str:
    """Match a status as ``RKNN_ERR_MODEL_INVALID`` or ``rknn_init fail! ret=-6``.

    The toolkit's own numbers, such as ``-9(ERROR_PIPE)``, mean other things.
    """
    numbers = "|".join(str(_STATUSES[name]) for name in names)
    call = r"rknn(?!_set_core_mask)\w*\b.*(\bret|code|error|failed|model|runtime|错误码)"
    return rf"rknn_err_({'|'.join(names)})\b|{call}\W{{0,4}}-({numbers})\b(?!\(error_)"


#: An error of the runtime, except those about calls of its API.
_ERROR = r"\be rknn\b(?!.*(rknn_\w|target|core))"
#: Excludes warnings, which use the words of errors.
_NO_WARNING = r"^(?!.*\b[wid] rknn\b|[wid] )"
_NPU_IOMMU = r"(fda[bcd]|fde4|2770|ff30|ff66)\w+\.iommu"
#: A shell's name before a program that it could not start.
_SHELL = r"(\b|/)(ba|z|da|a)?sh: (line \d+: |\d+: )?"
_MISSING = r"(not found|no such file)"
#: The linkers of glibc, musl, uClibc and Android.
_UNDEFINED = (
    r"(undefined symbol:?|can't resolve symbol|cannot locate symbol|cannot find symbol"
    r"|error relocating \S+:|symbol not found:?)\W*"
)

#: Printed by the kernel.
KERNEL = {
    "submit": r"failed to submit|rknpu: (failed to wait job|job (timeout|abort))|"
    + _status("timeout"),
    "cma": r"cma_alloc: (.*: )?alloc failed",
    "killed": r"out of memory: kill|oom[- ]kill|invoked oom-killer",
    "power": r"failed to (get ack|set idle) on domain 'npu|\bvdd_npu\b\W*disabled"
    r"|npu.*(failed to (enable|set voltage|get pm runtime)|deferred probe pending)",
    "bounce": r"swiotlb.*(buffer is full|allocation failed)",
    "no-iommu": r"iommu is disabled, using non-iommu mode",
    "page-fault": r"(npu|fda[bcd]\w+|fde4\w+)\.?\w* ?(rk_)?iommu.*page fault|rknpu.*page fault"
    rf"|rk_iommu {_NPU_IOMMU}: (page fault|.*(timed out|raw reset))",
    "policy": r"avc: +denied .*(rknpu|/dev/dri|dri/|dma_heap|librknn)",
    "unsigned": r"rknpu.*(key was rejected|required key not available)|loading of .*module.* is "
    r"rejected|lockdown: \S+: unsigned module",
    "overlay": r"failed on fdt_overlay_apply|failed to apply .*overlay|overlay.*(fixup failed|"
    r"fdt_err|failed to apply)|create_overlay: failed",
    "other-kernel": r"rknpu\S* (disagrees about version|version magic|unknown symbol)"
    r"|rknpu.*(exec|invalid module) format",
    "kernel-crash": r"\b(pc|lr) : \w*rknpu|\brknpu_\w+\+0x"
    r"|\b(bug: |unable to handle kernel|internal error|kernel panic).*rknpu",
    "probe": r"rknpu.*probe.*(failed|error)|rknpu: probe of|rknpu.*(in dts$|request \w+ failed"
    r"|failed to (get (clk|vdd|mem|memory) |remap reg|probe|find cma heap|register)"
    r"|device-tree \w+ is missing|cannot register|core invalid)",
    "rga": r"\brga(_\w+)?\b.*(unsupport(ed)? memory larger than 4g|mmu.*4g|bad parameters|fail)"
    r"|failed to open rga|open /dev/rga|rga2? is not found|fail\w* to call rockchiprga|rga_?blit",
    "heat": r"critical temperature reached|thermal.*shutting down|hardware protection shutdown",
}

#: Printed by the vendor's runtimes 1.0 to 2.3.2 and toolkits, or with one of their statuses.
_RUNTIME = {
    "open": r"failed to open \S+ (module|node), need to insmod|failed to open rknn device"
    r"|failed to open device, fd|invalid device fd|(/dev/(dri|rknpu)\S*\W.*(permission denied|"
    r"errno:? 13)|permission denied.*/dev/(dri|rknpu))|" + _status("device_unavailable"),
    "not-permitted": r"do you run docker in privileged"
    r"|/dev/(dri|rknpu|dma_heap)\S*\W.*operation not permitted"
    r"|operation not permitted.*/dev/(dri|rknpu|dma_heap)|(failed to open rknn device|ioctl_rknpu)"
    r".*operation not permitted",
    # Not a sign of the kernel's log: desktops keep other programs from /dev/dri.
    "apparmor": r"apparmor=\W?denied\W.*(rknpu|/dev/dri|dma_heap|librknn)",
    "allocation": r"failed to (allocate (handle|fd|(model|task|weight|device) mem)|map memory|"
    r"malloc (npu|cpu) memory|import device mem|get map offset|convert (fd|handle))|"
    r"rknpu.*(failed to allocate|dma map \d+ fail)|rknn_create_mem.*fail|ioctl\(.*= -1 enomem|"
    r"dma heap allocation failed|can ?not create weight memory|" + _status("malloc_fail"),
    "bad-address": r"failed to allocate handle.*bad address|ioctl\(.*= -1 enomem",
    "descriptors": r"too many open files",
    "no-system-call": r"errno: 38\b|rknn.*function not implemented",
    "model-version": r"invalid rknn model version|incompatible model version"
    r"|failed to (decode|parse) .*\bconfig\b|support model version <=|"
    + _status("incompatile_optimization_level_version", "incompatile_pre_compile_model"),
    "versions": r"rknn model version: .* not match with rknn runtime|rknn model is too old",
    "target": r"does not match the rknpu hardware|model target platform.*current platform"
    r"|rknn model is for r[kv]\w+, but current platform"
    r"|(model|target)\b.*\br[kv]\d{4}\w*\b.*\b(but|current|current_platform|not match|mismatch)\b"
    r".*\br[kv]\d{4}|" + _status("target_platform_unmatch"),
    "unknown-target": r"meet (unsupported|unknown) (rknn |rknpu )?target|unknown target type"
    r"|illegal target \w+",
    "magic": r"invalid rknn_magic|invalid rknn fo?r?m?a?r?mat|rknn model is too small"
    r"|invalid rknn model (size|magic(?!: 4e4e4b5254505943))|(rknn model|modelbuffer) verify fail"
    r"|verify modelbuffer fail|failed to read model|read size: \d+ != \d+",
    "model-refused": r"load model failed|import rknn model failed|create model buffer failed"
    r"|^(?!.*dynamic range).*(" + _status("model_invalid") + ")",
    "no-model-file": r"failed to open model|invalid model path|(fopen|open|load|read)\b.*"
    r"\.rknn\b.*(fail|no such file)|\.rknn\b.*(no such file|not found|does ?n.t exist)"
    r"|rknn model data is none|not found\b.*\.rknn\b|no rknn (model|file)|no such file\b.*\.rknn\b",
    "operator": r"unsupport(ed)? \w+( \w+)? (op|layer)\b|meet unsupported (?!(rknn |rknpu )?target)"
    r"|fallback cpu failed|op type: .* is not regist|contains custom op type"
    r"|unsupport layernormalization|please help report this bug|bit width of field value exceeds"
    r"|failed to config layer|feature is too large|tile buffer overflow"
    rf"|{_ERROR}.*(unsupport|not support|meet invalid|illegal|init failed|custom op"
    r"|(unknown|invalid) .*(layout|type|axis|direction|kernel|dims|channel|tiling|argument))",
    "call": _NO_WARNING + r".*(\bsize\W*\d+\W*(<|!=)|buf size error|inputoperator: not support|"
    r"rknn_(?!init|run|create_mem|query|set_core_mask)\w+(:| error)?,? .*(\berror\b|invalid|"
    r"required|out of range|not support|unsupport|is null|!= model|must)|"
    r"not supported in mini runtime|exception when setting inputs|the input\[\d+\] need|"
    r"unsupport inputs?\[|inputs are invalid|"
    r"rknn_query_\w+ (error|failed)|rknn_query, (unsupport|info ==)|rknn_create_mem, invalid|"
    r"must (set rknn_flag|call rknn_)|please (use|set|call) rknn_\w+|"
    r"failed to set input, invalid|tensor (type|layout|memory size) must|"
    r"(set (inputs|input shape|shape for input\S*)|get outputs) failed|"
    + _status("param_invalid", "ctx_invalid", "input_invalid", "output_invalid")
    + ")",
    "int8-only": r"(only|just) (supports?|takes?) \S*int8",
    "encrypted-magic": r"invalid rknn model magic: 4e4e4b5254505943|"
    + _status("key_invalid", "decrypt_failed", "soc_bind_failed"),
    "language-model": r"invalid rknn llm model magic|invalid rkllm model"
    r"|rkllm.*(\bversion\b.*(too (old|new)|mismatch|not (match|support))|fail\w* to load"
    r"|load\w* .*fail)",
    "language-run": r"\be rkllm: .*\brun failed",
    "language-chip": r"platform error: must be either",
    "heap": r"failed to open dma heap|dma_heap/system(?!-).*(no such|denied|failed)",
    "other-heap": r"dma_heap/(?!system\b(?!-)|\S*\W.*denied)\S+.*(no such|fail)",
    "heap-denied": r"permission denied.*/dev/dma_heap|/dev/dma_heap\S*\W.*permission denied",
    "hardware-version": r"hw_version = |driver version is unknown"
    r"|failed to check rknpu hardware version",
    "driver-refused": r"mismatch driver version|\bdriver\b.*\btoo (low|old)|"
    r"driver version\b.*\b(must|require|not match|mismatch)|" + _status("device_unmatch"),
    "old-header": r"info_len\([0-9]+\) < sizeof",
    "cores": r"not support core mask|unavailable core mask|rknn_set_core_mask\W.*(fail|error)"
    r"|fail\w* to set.* core[_ ]?mask|setcoremask interface is only|has not multicore config"
    r"|core[_ ]mask\b.*(is invalid|not match)"
    r"|illegal (core num|core_mask|job core_mask)|set core mask failed|core_mask is only supported"
    r"|core mode \w+ is not supported",
    "target-argument": r"unsupported run platform: linux a(arch64|rm\w*)",
    "no-cable": r"none devices? connected",
    "other-target": r"target_platform is \w+, while required",
    "other-platform": r"unsupported run platform: (?!linux a(arch64|rm))"
    r"|qemu: (uncaught target signal|unsupported (ioctl|syscall))",
    "first-toolkit": r"unsupport platforms: r[kv]|\bw rknn-toolkit version: 1\.",
    "connection": r"npu_?transfer|rknn_server|transfer (service|interface)"
    r"|rknnapi: rknn_\w+, +(server|msg_|recv|send)|error_pipe|connect to device failure"
    r"|adb: (error|no |device)|no devices/emulators found"
    r"|device (unauthorized|offline)|none devices? connected|more than (one|1) device",
    "containers-tree": r"sure to run docker in privileged mode"
    r"|/proc/device-tree\S*\W.*no such file"
    r"|no such file\b.*/proc/device-tree",
    "chip-of-ultralytics": r"only supported on rockchip",
    "rga-forbidden": r"failed to open rga: ?permission denied",
    "crash": r"segmentation fault|sigsegv|core dumped|\bbus error\b|exit code 1(34|39)|\bsigabrt\b"
    r"|double free|(free|malloc|realloc)\(\): |corrupted (size|double)|stack smashing detected"
    r"|floating point exception",
}

#: Printed by linkers, shells, compilers, Python, pip and Docker.
_PROGRAM = {
    "not-elf": r"librknn.*(invalid elf header|wrong elf class|file too short|bad elf magic|is a "
    r"directory|cannot read file data|exec format error|phentsize not|is (32|64)-bit instead)",
    "no-library": r"(?<![\w/.])(\S+/)?librknn\S*: (cannot open shared|no such file)"
    r"|(loading shared library:?|can't load library) \W?librknn"
    r"|can ?not find dynamic library|librknn\w*\.so => not found",
    "dependency": r"librknn\w*\.so\S* lib(?!rknn)\S+ cannot open shared object",
    "programs-library": r"^(?!.*(warning|mesa-loader|dlerror)).*(?<![\w+.-])(?!librknn|ld-|libcu|"
    r"libnv)[\w+.-]+\.so[\d.]*: cannot open shared|"
    r"(loading shared library:?|can't load library) \W?"
    r"(?!librknn)|(?<!\S)(?!librknn)\S+\.so\S* => not found",
    "symbol": _UNDEFINED + "rknn_",
    "python-symbols": _UNDEFINED + r"_?py[a-z]+_",
    "glibcs-symbols": r"error relocating \S+: (__\w+|gnu_\w+|\w+64|backtrace\w*|qsort_r): "
    r"symbol not found|error loading shared library ld-linux",
    "other-symbol": _UNDEFINED + r"(?!rknn_|_?py[a-z]+_)\w",
    "system-libraries": r"version [`'\"]?\w+_[0-9.]+\w*[`'\"]? not found",
    "static-tls": r"cannot allocate memory in static tls",
    "programs-format": rf"{_SHELL}\S*/\S+: ({_MISSING}|cannot execute)|cannot execute binary file"
    r"|exec format error|cannot execute: required file|(?<!librknnrt\.so: )wrong elf class"
    rf"|/lib\S*/ld-\S+: {_MISSING}|open '/lib\S*/ld-|only position independent executables",
    "images-format": r"no matching manifest for|platform \(linux/\w+\) does not match|"
    r"exec \S+: exec format error|standard_init_linux.*exec format",
    "spinlock": r"\bbug: spinlock (recursion|lockup)",
    "system-call": r"\bbad system call|\bsigsys\b",
    "shared-memory": r"insufficient shared memory|no space left.*/dev/shm",
    "no-module-file": r"module '?rknpu'? not found|modprobe: (can't|cannot) \w+ .*rknpu",
    "not-linked": r"undefined reference to .rknn_|cannot find -lrknn",
    "no-command": r": command not found|could not find cmake_\w+|no cmake_\w+ could be found"
    r"|cmake_\w+_compiler not set|command '\S+' not found"
    r"|could not find \W?[\w.+-]+\W* executable|cmake must be installed"
    r"|unable to execute '\S+': no such file|command '\S+' failed: no such file"
    rf"|{_SHELL}\b[\w.+-]+: {_MISSING}",
    "numpy": r"_array_api not found|compiled using numpy 1\.x|expected 88 .*got 96"
    r"|removed in the numpy 2",
    "numpy-too-old": r"multiarray failed to import|numpy c-extensions failed|expected 96 .*got 88"
    r"|compiled against (numpy )?a[bp]i version",
    "numpys-names": r"module 'numpy' has no attribute '(bool|int|float|object|str|complex|long)'"
    r"|np\.\w+. was a deprecated",
    "packaging": r"no module named '?(pkg_resources|distutils|setuptools)",
    "no-rknnlite": r"no module named '?rknn(lite)?\b|cannot import name 'rknn\w*'"
    r"|no matching distribution found for rknn|satisfies the requirement rknn"
    r"|rknn\S*\.whl\W.*(not a supported wheel|is invalid)|rknn\S* requires a different python",
    "no-module": r"no module named '?(?!rknn|pkg_resources|distutils|setuptools|numpy\.)\w",
    "no-wheel": r"is not a supported wheel|that satisfies the requirement"
    r"|no matching distribution found|requires a different python",
    "managed": r"externally-managed-environment",
    "memory": r"\bmemoryerror\b|std::bad_alloc|unable to allocate .*array|exit(ed with)? "
    r"(code|status) 137|^killed\b|\bkilled +(python|\./|sudo)",
    "mounted-folder": r"trying to mount a directory onto a file",
    "built-without": r"-d\w*rknn\w*=on|not (built|compiled) with.*rknn"
    r"|rknn\w* (is )?not (enabled|available|supported)|(unknown|unsupported|invalid) "
    r"(provider|backend|detector|device)\b.*rknn",
    "failed": r"rkllm.*fail|"
    + _status("fail")
    + r"|(load|init)\w* \w*(model|runtime)\w* fail|fail\w* to (load|init)\w*"
    r" \w*(rknn|model|runtime)",
    "no-device": r"adding custom device \"?/dev/(rknpu|dri|dma_heap)",
}

#: Searched in lower case, which is three times as fast as ignoring case.
SIGNS = {
    name: re.compile(pattern, re.ASCII)
    for name, pattern in {**KERNEL, **_RUNTIME, **_PROGRAM}.items()
}
_REPORTED = re.compile(r"\bE RKNN(API)?\b")
_SHOWN_CHARACTERS = 200


def signs_in(lines: Sequence[str]) -> frozenset[str]:
    """Return the names of the signs that lines have."""
    return frozenset(name for name in SIGNS if line_with(name, lines))


def line_with(sign: str, lines: Sequence[str]) -> str:
    """Return the first line that has a sign, shortened for a report; empty if there is none."""
    found = (line for line in lines if SIGNS[sign].search(line.lower()))
    return next(found, "")[:_SHOWN_CHARACTERS]


def first_match(pattern: str, lines: Sequence[str]) -> re.Match[str] | None:
    """Return the match of a pattern in the first line that has it, ignoring case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return next(filter(None, map(compiled.search, lines)), None)


def unknown_error(lines: Sequence[str]) -> str:
    """Return the first error of a runtime that has no sign; empty if there is none."""
    known = SIGNS.values()
    errors = filter(_REPORTED.search, lines)
    return next(
        (line for line in errors if not any(sign.search(line.lower()) for sign in known)), ""
    )
