"""What a line of a log says, by the name that the rules use.

Each is the general form of what a source prints, whatever the function, file or number is that it
prints it about.
"""

from __future__ import annotations

__all__ = ["KERNEL", "SIGNS"]


#: Of the vendor's API, by the ends of their names.
_STATUSES = {
    "fail": 1, "timeout": 2, "device_unavailable": 3, "malloc_fail": 4, "param_invalid": 5,
    "model_invalid": 6, "ctx_invalid": 7, "input_invalid": 8, "output_invalid": 9,
    "device_unmatch": 10, "incompatile_pre_compile_model": 11,
    "incompatile_optimization_level_version": 12, "target_platform_unmatch": 13,
    "key_invalid": 14, "decrypt_failed": 15, "soc_bind_failed": 16,
}  # fmt: skip


def _status(*names: str) -> str:
    """How programs print one: ``rknn_init fail! ret=-6``, ``RKNN_ERR_MODEL_INVALID``.

    The toolkit's own numbers, ``-9(ERROR_PIPE)``, are others.
    """
    numbers = "|".join(str(_STATUSES[name]) for name in names)
    call = r"rknn(?!_set_core_mask)\w*\b.*(\bret|code|error|failed|model|runtime|错误码)"
    return rf"rknn_err_({'|'.join(names)})\b|{call}\W{{0,4}}-({numbers})\b(?!\(error_)"


#: A line of the vendor's runtime, and none of a function of its API, which has a sign of its own.
_ERROR = r"\be rknn\b(?!.*(rknn_\w|target|core))"
#: They warn of what is slow or was left out, in words that errors have, too.
_NO_WARNING = r"^(?!.*\b[wid] rknn\b|[wid] )"
_NPU_IOMMU = r"(fda[bcd]|fde4|2770|ff30|ff66)\w+\.iommu"
#: How shells name what they could not start.
_SHELL = r"(\b|/)(ba|z|da|a)?sh: (line \d+: |\d+: )?"
_MISSING = r"(not found|no such file)"
#: Of the dynamic linkers of glibc, musl, uClibc and Android.
_UNDEFINED = (
    r"(undefined symbol:?|can't resolve symbol|cannot locate symbol|cannot find symbol"
    r"|error relocating \S+:|symbol not found:?)\W*"
)

#: Of the driver, of others that concern it, and of the kernel's memory.
KERNEL = {
    "submit": r"failed to submit|rknpu: (failed to wait job|job (timeout|abort))|"
    + _status("timeout"),
    "cma": r"cma_alloc: (.*: )?alloc failed",
    "killed": r"out of memory: kill|oom[- ]kill|invoked oom-killer",
    "power": r"failed to (get ack|set idle) on domain 'npu|\bvdd_npu\b\W*disabled"
    r"|npu.*(failed to (enable|set voltage|get pm runtime)|deferred probe pending)",
    "bounce": r"swiotlb.*(buffer is full|allocation failed)",
    "no iommu": r"iommu is disabled, using non-iommu mode",
    "page fault": r"(npu|fda[bcd]\w+|fde4\w+)\.?\w* ?(rk_)?iommu.*page fault|rknpu.*page fault"
    rf"|rk_iommu {_NPU_IOMMU}: (page fault|.*(timed out|raw reset))",
    "policy": r"avc: +denied .*(rknpu|/dev/dri|dri/|dma_heap|librknn)",
    "unsigned": r"rknpu.*(key was rejected|required key not available)|loading of .*module.* is "
    r"rejected|lockdown: \S+: unsigned module",
    "overlay": r"failed on fdt_overlay_apply|failed to apply .*overlay|overlay.*(fixup failed|"
    r"fdt_err|failed to apply)|create_overlay: failed",
    "other kernel": r"rknpu\S* (disagrees about version|version magic|unknown symbol)"
    r"|rknpu.*(exec|invalid module) format",
    "kernel crash": r"\b(pc|lr) : \w*rknpu|\brknpu_\w+\+0x"
    r"|\b(bug: |unable to handle kernel|internal error|kernel panic).*rknpu",
    "probe": r"rknpu.*probe.*(failed|error)|rknpu: probe of|rknpu.*(in dts$|request \w+ failed"
    r"|failed to (get (clk|vdd|mem|memory) |remap reg|probe|find cma heap|register)"
    r"|device-tree \w+ is missing|cannot register|core invalid)",
    "rga": r"\brga(_\w+)?\b.*(unsupport(ed)? memory larger than 4g|mmu.*4g|bad parameters|fail)"
    r"|failed to open rga|open /dev/rga|rga2? is not found|fail\w* to call rockchiprga|rga_?blit",
    "heat": r"critical temperature reached|thermal.*shutting down|hardware protection shutdown",
}

#: Of the vendor's runtimes 1.0 to 2.3.2, of its toolkits, and of programs that print a status.
_RUNTIME = {
    "open": r"failed to open \S+ (module|node), need to insmod|failed to open rknn device"
    r"|failed to open device, fd|invalid device fd|(/dev/(dri|rknpu)\S*\W.*(permission denied|"
    r"errno:? 13)|permission denied.*/dev/(dri|rknpu))|" + _status("device_unavailable"),
    "not permitted": r"do you run docker in privileged"
    r"|/dev/(dri|rknpu|dma_heap)\S*\W.*operation not permitted"
    r"|operation not permitted.*/dev/(dri|rknpu|dma_heap)|(failed to open rknn device|ioctl_rknpu)"
    r".*operation not permitted",
    # Not of the kernel by itself: desktops keep other programs, such as browsers, from /dev/dri.
    "apparmor": r"apparmor=\W?denied\W.*(rknpu|/dev/dri|dma_heap|librknn)",
    "allocation": r"failed to (allocate (handle|fd|(model|task|weight|device) mem)|map memory|"
    r"malloc (npu|cpu) memory|import device mem|get map offset|convert (fd|handle))|"
    r"rknpu.*(failed to allocate|dma map \d+ fail)|rknn_create_mem.*fail|ioctl\(.*= -1 enomem|"
    r"dma heap allocation failed|can ?not create weight memory|" + _status("malloc_fail"),
    "bad address": r"failed to allocate handle.*bad address|ioctl\(.*= -1 enomem",
    "descriptors": r"too many open files",
    "no system call": r"errno: 38\b|rknn.*function not implemented",
    "model version": r"invalid rknn model version|incompatible model version"
    r"|failed to (decode|parse) .*\bconfig\b|support model version <=|"
    + _status("incompatile_optimization_level_version", "incompatile_pre_compile_model"),
    "versions": r"rknn model version: .* not match with rknn runtime|rknn model is too old",
    "target": r"does not match the rknpu hardware|model target platform.*current platform"
    r"|rknn model is for r[kv]\w+, but current platform"
    r"|(model|target)\b.*\br[kv]\d{4}\w*\b.*\b(but|current|current_platform|not match|mismatch)\b"
    r".*\br[kv]\d{4}|" + _status("target_platform_unmatch"),
    "unknown target": r"meet (unsupported|unknown) (rknn |rknpu )?target|unknown target type"
    r"|illegal target \w+",
    "magic": r"invalid rknn_magic|invalid rknn fo?r?m?a?r?mat|rknn model is too small"
    r"|invalid rknn model (size|magic(?!: 4e4e4b5254505943))|(rknn model|modelbuffer) verify fail"
    r"|verify modelbuffer fail|failed to read model|read size: \d+ != \d+",
    "model refused": r"load model failed|import rknn model failed|create model buffer failed"
    r"|^(?!.*dynamic range).*(" + _status("model_invalid") + ")",
    "no model file": r"failed to open model|invalid model path|(fopen|open|load|read)\b.*"
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
    "int8 only": r"(only|just) (supports?|takes?) \S*int8",
    "encrypted magic": r"invalid rknn model magic: 4e4e4b5254505943|"
    + _status("key_invalid", "decrypt_failed", "soc_bind_failed"),
    "language model": r"invalid rknn llm model magic|invalid rkllm model"
    r"|rkllm.*(\bversion\b.*(too (old|new)|mismatch|not (match|support))|fail\w* to load"
    r"|load\w* .*fail)",
    "language run": r"\be rkllm: .*\brun failed",
    "language chip": r"platform error: must be either",
    "heap": r"failed to open dma heap|dma_heap/system(?!-).*(no such|denied|failed)",
    "other heap": r"dma_heap/(?!system\b(?!-)|\S*\W.*denied)\S+.*(no such|fail)",
    "heap denied": r"permission denied.*/dev/dma_heap|/dev/dma_heap\S*\W.*permission denied",
    "hardware version": r"hw_version = |driver version is unknown"
    r"|failed to check rknpu hardware version",
    "driver refused": r"mismatch driver version|\bdriver\b.*\btoo (low|old)|"
    r"driver version\b.*\b(must|require|not match|mismatch)|" + _status("device_unmatch"),
    "driver older": r"recommend to upgrade the driver",
    "old header": r"info_len\([0-9]+\) < sizeof",
    "cores": r"not support core mask|unavailable core mask|rknn_set_core_mask\W.*(fail|error)"
    r"|fail\w* to set.* core[_ ]?mask|setcoremask interface is only|has not multicore config"
    r"|core[_ ]mask\b.*(is invalid|not match)"
    r"|illegal (core num|core_mask|job core_mask)|set core mask failed|core_mask is only supported"
    r"|core mode \w+ is not supported",
    "no opencl": r"failed to (find and )?initialize the? ?opencl|opencl.*(cannot|can't|failed) "
    r"(load|find)|libopencl|libmali.*(cannot open|not found)",
    "simulator": r"not support inference on the simulator",
    "target argument": r"unsupported run platform: linux a(arch64|rm\w*)",
    "no cable": r"none devices? connected",
    "other target": r"target_platform is \w+, while required",
    "other platform": r"unsupported run platform: (?!linux a(arch64|rm))"
    r"|qemu: (uncaught target signal|unsupported (ioctl|syscall))",
    "first toolkit": r"unsupport platforms: r[kv]|\bw rknn-toolkit version: 1\.",
    "connection": r"npu_?transfer|rknn_server|transfer (service|interface)"
    r"|rknnapi: rknn_\w+, +(server|msg_|recv|send)|error_pipe|connect to device failure"
    r"|adb: (error|no |device)|no devices/emulators found"
    r"|device (unauthorized|offline)|none devices? connected|more than (one|1) device",
    "container's tree": r"sure to run docker in privileged mode"
    r"|/proc/device-tree\S*\W.*no such file"
    r"|no such file\b.*/proc/device-tree",
    "chip of ultralytics": r"only supported on rockchip",
    "rga forbidden": r"failed to open rga: ?permission denied",
    "crash": r"segmentation fault|sigsegv|core dumped|\bbus error\b|exit code 1(34|39)|\bsigabrt\b"
    r"|double free|(free|malloc|realloc)\(\): |corrupted (size|double)|stack smashing detected"
    r"|floating point exception",
}

#: Of dynamic linkers, shells, compilers, Python, pip, Docker, OpenCV.
_PROGRAM = {
    "not elf": r"librknn.*(invalid elf header|wrong elf class|file too short|bad elf magic|is a "
    r"directory|cannot read file data|exec format error|phentsize not|is (32|64)-bit instead)",
    "no library": r"(?<![\w/.])(\S+/)?librknn\S*: (cannot open shared|no such file)"
    r"|(loading shared library:?|can't load library) \W?librknn"
    r"|can ?not find dynamic library|librknn\w*\.so => not found",
    "dependency": r"librknn\w*\.so\S* lib(?!rknn)\S+ cannot open shared object",
    "program's library": r"^(?!.*(warning|mesa-loader|dlerror)).*(?<![\w+.-])(?!librknn|ld-|libcu|"
    r"libnv)[\w+.-]+\.so[\d.]*: cannot open shared|"
    r"(loading shared library:?|can't load library) \W?"
    r"(?!librknn)|(?<!\S)(?!librknn)\S+\.so\S* => not found",
    "symbol": _UNDEFINED + "rknn_",
    "python symbols": _UNDEFINED + r"_?py[a-z]+_",
    "glibc's symbols": r"error relocating \S+: (__\w+|gnu_\w+|\w+64|backtrace\w*|qsort_r): "
    r"symbol not found|error loading shared library ld-linux",
    "other symbol": _UNDEFINED + r"(?!rknn_|_?py[a-z]+_)\w",
    "system libraries": r"version [`'\"]?\w+_[0-9.]+\w*[`'\"]? not found",
    "static tls": r"cannot allocate memory in static tls",
    "program's format": rf"{_SHELL}\S*/\S+: ({_MISSING}|cannot execute)|cannot execute binary file"
    r"|exec format error|cannot execute: required file|(?<!librknnrt\.so: )wrong elf class"
    rf"|/lib\S*/ld-\S+: {_MISSING}|open '/lib\S*/ld-|only position independent executables",
    "image's format": r"no matching manifest for|platform \(linux/\w+\) does not match|"
    r"exec \S+: exec format error|standard_init_linux.*exec format",
    "not executable": rf"{_SHELL}(?!/(dev|sys|proc)/)\S+: permission denied"
    r"|exec: \S+: permission denied",
    "noexec": r"failed to map segment from shared object(?!.*cannot allocate)",
    "line ends": r"'\\r': command not found|\^m: bad interpreter|env: .*\\r\W.*no such file",
    "bad interpreter": r": bad interpreter: no such file",
    "spinlock": r"\bbug: spinlock (recursion|lockup)",
    "page size": r"load command alignment not page-aligned|unsupported system page size"
    r"|load command address/offset not (page-aligned|properly aligned)",
    "executable stack": r"cannot enable executable stack",
    "system call": r"\bbad system call|\bsigsys\b",
    "threads": r"can't start new thread|pthread_create failed|fork: (retry: )?resource temporarily"
    r"|(thread|system_error).*resource temporarily unavailable",
    "shared memory": r"insufficient shared memory|no space left.*/dev/shm",
    "network": r"failure in name resolution|could not resolve host|name or service not known"
    r"|network is unreachable|certificate is not yet valid",
    "no module file": r"module '?rknpu'? not found|modprobe: (can't|cannot) \w+ .*rknpu",
    "python's part": r"no module named '?(_(ctypes|ssl|bz2|lzma|sqlite3|tkinter|curses)|tkinter|"
    r"ensurepip|venv)\b|ensurepip is not available",
    "instruction": r"illegal instruction",
    "disk": r"^(?!.*vidioc).*(no space left on device|disk quota exceeded)",
    "read only": r"read-only file system",
    "android namespace": r"librknn\w*\.so\W.*(not accessible for the namespace|not found: needed)"
    r"|dlopen failed: library .\S*librknn",
    "not linked": r"undefined reference to .rknn_|cannot find -lrknn",
    "other link": r"undefined reference to (?!.rknn_)|cannot find -l(?!rknn)",
    "no header": r"fatal error: \S+: no such file",
    "other machine's": r"skipping incompatible|file in wrong format|is incompatible with \w+",
    "no command": r": command not found|could not find cmake_\w+|no cmake_\w+ could be found"
    r"|cmake_\w+_compiler not set|command '\S+' not found"
    r"|could not find \W?[\w.+-]+\W* executable|cmake must be installed"
    r"|unable to execute '\S+': no such file|command '\S+' failed: no such file"
    rf"|{_SHELL}\b[\w.+-]+: {_MISSING}",
    "numpy": r"_array_api not found|compiled using numpy 1\.x|expected 88 .*got 96"
    r"|removed in the numpy 2",
    "numpy too old": r"multiarray failed to import|numpy c-extensions failed|expected 96 .*got 88"
    r"|compiled against (numpy )?a[bp]i version",
    "numpy's names": r"module 'numpy' has no attribute '(bool|int|float|object|str|complex|long)'"
    r"|np\.\w+. was a deprecated",
    "packaging": r"no module named '?(pkg_resources|distutils|setuptools)",
    "no rknnlite": r"no module named '?rknn(lite)?\b|cannot import name 'rknn\w*'"
    r"|no matching distribution found for rknn|satisfies the requirement rknn"
    r"|rknn\S*\.whl\W.*(not a supported wheel|is invalid)|rknn\S* requires a different python",
    "no module": r"no module named '?(?!rknn|pkg_resources|distutils|setuptools|numpy\.)\w",
    "own module": r"partially initialized module",
    "package's names": r"module '(?!numpy)\w+\S*' has no attribute|cannot import name '(?!rknn)\w+'"
    r" from|descriptors cannot (not )?be created",
    "no wheel": r"is not a supported wheel|that satisfies the requirement"
    r"|no matching distribution found|requires a different python",
    "managed": r"externally-managed-environment",
    "memory": r"\bmemoryerror\b|std::bad_alloc|unable to allocate .*array|exit(ed with)? "
    r"(code|status) 137|^killed\b|\bkilled +(python|\./|sudo)",
    "mounted folder": r"trying to mount a directory onto a file",
    "chip of a program": r"your (soc|chip|platform) is not supported"
    r"|unsupported (soc|chip|platform)\b",
    "built without": r"-d\w*rknn\w*=on|not (built|compiled) with.*rknn"
    r"|rknn\w* (is )?not (enabled|available|supported)|(unknown|unsupported|invalid) "
    r"(provider|backend|detector|device)\b.*rknn",
    "denied": r"^(?!.*(\brga|/dev/)).*permission denied",
    "failed": r"rkllm.*fail|"
    + _status("fail")
    + r"|(load|init)\w* \w*(model|runtime)\w* fail|fail\w* to (load|init)\w*"
    r" \w*(rknn|model|runtime)",
    "no device": r"adding custom device \"?/dev/(rknpu|dri|dma_heap)",
    "no picture": r"!_?src\.empty\(\)|'nonetype' object has no attribute 'shape'|"
    r"(can't open/read file|cannot identify image)|imread\b.*fail|(read|load|open) (image|video|"
    r"picture)\b.*fail",
    "no display": r"cannot open display|could not connect to display|cannot connect to x server|"
    r"can't initialize gtk|unable to init server|qt platform plugin|"
    r"function is not implemented. rebuild the library",
    "camera": r"can't open camera|camera index out of range|/dev/video\d+\W.*(busy|no such|denied|"
    r"fail|not )|(open|access)\b.*/dev/video|vidioc_\w+.*(fail|error|busy|no space)",
}

SIGNS = {**KERNEL, **_RUNTIME, **_PROGRAM}
