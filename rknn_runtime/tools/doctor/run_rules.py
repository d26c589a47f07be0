"""Rules about what happens while models run: memory, time, clocks."""

from __future__ import annotations

from rknn_runtime.tools.doctor.cures import NEWER_KERNEL, VENDOR_KERNEL, fetch
from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import unknown_error
from rknn_runtime.tools.doctor.rule import PROBLEM, WARNING, Rule, logged

__all__ = ["RULES"]

#: The driver that most reports of "failed to submit" were solved with; 0.9.3 is known to fail.
_GOOD_DRIVER = (0, 9, 6)
#: The first with several address spaces, which large language models ask for.
_LARGE_MEMORY_DRIVER = (0, 9, 8)
_STOP_DEMO = "/oem/usr/bin/RkLunch-stop.sh"
_RESERVE_CMA = (
    "sudo sed -i 's/$/ cma=256M/' /boot/cmdline.txt  # or extraargs=cma=256M in armbianEnv.txt"
)
#: The chip's own devices lie below 4 GB, too: of 4 GB of memory some is above.
_LESS_MEMORY = (
    "sudo sed -i 's/$/ mem=3840M/' /boot/cmdline.txt  # or extraargs=mem=3840M in armbianEnv.txt"
)
_LARGE_MEMORY_KB = 3_700_000
_ADD_SWAP = (
    "sudo fallocate -l 2G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && "
    "sudo swapon /swapfile"
)
_SHOW_LIMITS = (
    "grep -H . /sys/class/devfreq/*/max_freq "
    "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq"
)
_FULL_SPEED = (
    "echo performance | sudo tee /sys/class/devfreq/*.npu/governor "
    "/sys/class/devfreq/dmc/governor /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
)
_NEWER_SERVER = (
    "adb push rknn_server /usr/bin/ && adb push librknnrt.so /usr/lib/ && "
    "adb shell restart_rknn.sh  # files of rknpu2/runtime of the toolkit's release"
)
_HOT_C = 85
_LEAST_VERSIONS = {"numpy": (1, 19), "cffi": (1, 14)}
#: Releases of the vendor's library by the toolkit's version.
_RELEASES: dict[tuple[int, ...], str] = {
    (1, 6, 0): "v1.6.0", (2, 0, 0): "v2.0.0-beta0", (2, 1, 0): "v2.1.0", (2, 2, 0): "v2.2.0",
    (2, 3, 0): "v2.3.0", (2, 3, 2): "v2.3.2",
}  # fmt: skip
#: librknnrt before it does not open the DRM node of drivers from 0.8 on.
_OPENS_DRM, _DRM_DRIVER = (1, 4, 0), (0, 8, 0)


def _is_mini(facts: Facts) -> bool:
    return facts.soc is not None and facts.soc.mini


def _not_emulated(facts: Facts) -> str:
    """What the emulator does not understand."""
    text = "" if facts.trial is None else facts.trial.text
    return text.partition("the emulated NPU does not run this model: ")[2]


def _no_iommu(facts: Facts) -> bool:
    signs = facts.signs
    refused = "allocation" in signs and not signs.isdisjoint({"no iommu", "cma"})
    return ("bounce" in signs or refused) and not _is_mini(facts)


def _mini_memory(facts: Facts) -> str:
    held = facts.has_demo and "model refused" in facts.signs
    if not (held or facts.signs & {"allocation", "cma"}) or not _is_mini(facts):
        return ""
    free = facts.memory_kb.get("CmaFree")
    return "CMA" if free is None else f"CMA, {free} kB are free"


def _old_driver(facts: Facts) -> bool:
    if "language run" in facts.signs:
        return facts.driver_is_before(_LARGE_MEMORY_DRIVER)
    return "submit" in facts.signs and facts.driver_is_before(_GOOD_DRIVER)


def _old_driver_memory(facts: Facts) -> bool:
    return "bad address" in facts.signs and facts.driver_is_before(_LARGE_MEMORY_DRIVER)


def _image_scaler(facts: Facts) -> bool:
    return "rga" in facts.signs and facts.told  # the kernel's log has it of other programs


def _demo_without_scaler(facts: Facts) -> str:
    name = facts.soc.name if facts.soc else "rk3588"
    return f"./build-linux.sh -t {name} -a aarch64 -d DEMO -r"


def _high_memory(facts: Facts) -> bool:
    large = facts.memory_kb.get("MemTotal", 0) >= _LARGE_MEMORY_KB
    concerned = facts.soc is not None and facts.soc.name in ("rk3566", "rk3568")
    return "submit" in facts.signs and large and concerned


def _ported_driver(facts: Facts) -> str:
    failed = facts.signs & {"submit", "no system call", "kernel crash", "page fault"}
    return facts.kernel if facts.ported and failed else ""


def _log_open(facts: Facts) -> bool:
    on_board = facts.soc is not None or facts.container
    forbidden = on_board and not any(node.usable for node in facts.nodes)  # they say it themselves
    return "open" in facts.signs and not forbidden


def _too_old_to_open(facts: Facts) -> str:
    version = facts.logged_runtime or (facts.runtime.version if facts.runtime else ())
    newer = facts.driver_version and not facts.driver_is_before(_DRM_DRIVER)
    if not (_log_open(facts) and newer and () < version < _OPENS_DRM):
        return ""
    return ".".join(map(str, version))


def _crash(facts: Facts) -> bool:
    return "crash" in facts.signs and not facts.signs & {"rga", "memory"}  # which are not the NPU's


def _library_of_toolkit(facts: Facts) -> str:
    header = facts.model.header if facts.model is not None else None
    made = facts.number(header.toolkit_version) if header is not None else ()
    # Older models crash newer libraries, too: then the library of the model's toolkit.
    older = facts.runtime is not None and made < facts.runtime.version
    return fetch(facts, release=_RELEASES.get(made, "master") if older else "master")


def _little_memory(facts: Facts) -> tuple[int, int] | None:
    """Return what is free and what the file takes, in MB."""
    available = facts.memory_kb.get("MemAvailable")
    if available is None or facts.model is None or available << 10 > 2 * facts.model.file_bytes:
        return None
    return available >> 10, facts.model.file_bytes >> 20


def _hot(facts: Facts) -> str:
    return ", ".join(
        f"{name} {degrees:.0f} C"
        for name, degrees in facts.clocks.get("temperature_c", {}).items()
        if degrees >= _HOT_C
    )


def _powersave(facts: Facts) -> str:
    slow = ("powersave", "userspace")
    return ", ".join(
        f"{name} ({governor})" for name, governor in facts.clocks.get("governor", {}).items()
        if governor in slow and (name.startswith("cpu") or name in ("npu", "dmc"))
    )  # fmt: skip


def _old_package(facts: Facts) -> tuple[str, str] | None:
    """Return its name and version."""
    versions = facts.surroundings.versions
    for name, least in _LEAST_VERSIONS.items():
        if () < facts.number(versions.get(name, ""))[:2] < least:
            return name, versions[name]
    return None


RULES = (
    Rule("no-iommu", PROBLEM, "memory", _no_iommu, _RESERVE_CMA, """
        the driver works without the IOMMU, so the NPU's memory has to be in one piece, of which
        there are a few MB: take an image whose device tree enables the NPU's IOMMU (rknpu_mmu,
        status okay), or reserve CMA on the kernel's command line"""),
    Rule("descriptors", PROBLEM, "memory", logged("descriptors"),
         "ulimit -n 65536  # of a service: LimitNOFILE=65536", """
        the process ran out of file descriptors: every piece of NPU memory is one. Close models, or
        raise the limit"""),
    Rule("no-threads", PROBLEM, "memory", logged("threads"),
         "ulimit -u unlimited  # of a service: TasksMax=infinity\n"
         "docker run --security-opt seccomp=unconfined --pids-limit -1 ...", """
        the process may not start another thread ({found}): a limit of processes, or Docker before
        20.10.10, which does not know how newer systems start one"""),
    Rule("mini-memory", PROBLEM, "memory", _mini_memory, _STOP_DEMO, """
        the NPU's memory is used up ({found}): stop the vendor's demo, which holds the camera's;
        else enlarge rk_dma_heap_cma in the kernel's command line, or take a smaller model"""),
    Rule("high-memory", PROBLEM, "log", _high_memory, _LESS_MEMORY, """
        the NPU did not finish a task: on RK3566 and RK3568 with 4 GB or more some kernels put the
        IOMMU's tables above 4 GB, where it cannot read; take a newer kernel, or try with less"""),
    Rule("ported-driver", PROBLEM, "driver", _ported_driver, VENDOR_KERNEL, """
        the NPU does not work with the vendor's driver in the kernel {found}, for which others
        built it: mostly its IOMMU, its power or its memory; boot the vendor's kernel (5.10 or
        6.1), or switch the NPU's IOMMU off in the device tree. On Armbian:"""),
    Rule("old-driver-memory", PROBLEM, "driver", _old_driver_memory, NEWER_KERNEL, """
        the driver {facts.driver_version} could not give the NPU that much memory: 0.9.8 has
        several address spaces of 4 GB; it is a part of the kernel, so update that, and the library
        with it"""),
    Rule("no-memory", PROBLEM, "memory", logged("allocation"),
         "free -m; sudo fuser -v /dev/dri/* /dev/rknpu", """
        the NPU got no memory: close other models and processes that use it, take fewer contexts
        (a Pool shares the weights) or a smaller model; an NPU's context has 4 GB of addresses"""),
    Rule("out-of-memory", WARNING, "memory", logged("shared memory"),
         "docker run --shm-size 512m ...", """
        /dev/shm of the container is too small ({found}): give it more"""),
    Rule("out-of-memory", WARNING, "memory", logged("killed"), _ADD_SWAP, """
        the system ran out of memory and ended a process: take a smaller model or fewer processes,
        or add swap"""),
    Rule("out-of-memory", WARNING, "memory", logged("memory"), _ADD_SWAP, """
        a process got no memory of the system, or was ended for taking too much ({found}): take a
        smaller model or fewer processes, or add swap"""),
    Rule("out-of-memory", WARNING, "memory", _little_memory, "free -m", """
        {found[0]} MB are free, and the model's file has {found[1]} MB: the system may end the
        process"""),
    Rule("iommu-fault", PROBLEM, "memory", logged("page fault"), "rknn-runtime info model.rknn", """
        the NPU read or wrote memory that it does not have: a buffer of the program is too small,
        or was released while the NPU ran; sizes are size_with_stride, not size"""),
    Rule("camera-contends", PROBLEM, "log",
         lambda facts: "submit" in facts.signs and _is_mini(facts), _STOP_DEMO, """
        the NPU did not finish a task: on this chip mostly since camera and NPU contend for the
        memory; stop the vendor's demo and try without the camera"""),
    Rule("old-driver", PROBLEM, "driver", _old_driver, NEWER_KERNEL, """
        the NPU did not finish a task, and the driver {facts.driver_version} is old: 0.9.6 and
        newer repaired that, for language models 0.9.8; it is a part of the kernel, so update that,
        and the library with it"""),
    Rule("submit-failed", PROBLEM, "log", logged("submit"), fetch, """
        the NPU did not finish a task: bring library, driver and the model's toolkit to one
        version; then try one core (CoreMask.CORE_0), one thread, and the power supply"""),
    Rule("connection", PROBLEM, "log",
         lambda facts: {"connection", "model refused"} <= facts.signs, _NEWER_SERVER, """
        the board refused the model that the vendor's toolkit on a PC sent it: its rknn_server and
        its library are older than the toolkit; take both of the toolkit's release"""),
    Rule("connection", PROBLEM, "log", logged("connection"),
         "adb shell restart_rknn.sh  # starts rknn_server; on small chips of /oem/usr", """
        the vendor's toolkit on a PC does not reach rknn_server on the board: start it there, and
        take the one of the toolkit's version; on small chips it starts from /oem/usr/bin alone"""),
    Rule("log-open", PROBLEM, "log", _too_old_to_open, fetch, """
        the library {found} is too old for the driver {facts.driver_version}, and finds no NPU"""),
    Rule("log-open", PROBLEM, "log", _log_open,
         "sudo usermod -a -G video,render USER  # or docker run --device /dev/dri ...\n"
         "sudo systemctl edit SERVICE  # SupplementaryGroups=video render, PrivateDevices=no", """
        the log says that no NPU could be opened, though nothing here forbids it: the program ran
        as another user, in a container, or in the sandbox of a service or a snap; let that user
        in, or pass the nodes in"""),
    Rule("crash", PROBLEM, "log", _crash, _library_of_toolkit, """
        a process ended by a segmentation fault, or the like: most often model, library and driver
        are of different versions; install the library of the model's toolkit"""),
    Rule("trial-failed", PROBLEM, "test", _not_emulated,
         "rknn-runtime info --emulate {facts.model.path}", """
        the emulated NPU does not know all that this model does, which says nothing of a board:
        {found}"""),
    Rule("trial-failed", PROBLEM, "test",
         lambda facts: facts.trial is not None and not facts.trial.passed,
         "RKNN_LOG_LEVEL=4 rknn-runtime doctor {facts.model.path}", """
        the test failed: {facts.trial.text}"""),
    Rule("core-mask", WARNING, "log", logged("cores"),
         "Model(..., core_mask=CoreMask.AUTO)  # which is the default", """
        a core mask was refused: only RK3588 (three) and RK3576 (two cores) have one, and models of
        toolkit 1.3 and older run on one core, as a multiplication of matrices does; RKNN3 wants
        the number that the model was made for; leave core_mask out"""),
    Rule("image-scaler", WARNING, "log",
         lambda facts: _image_scaler(facts) and "rga forbidden" in facts.signs,
         'sudo usermod -a -G video "$USER"  # then log in again', """
        the chip's image scaler RGA failed, which is not the NPU: this user may not use
        /dev/rga"""),
    Rule("image-scaler", WARNING, "log", _image_scaler, _demo_without_scaler, """
        the chip's image scaler RGA failed, which is not the NPU: it reaches no memory above 4 GB
        and wants widths that are multiples of 16, or the kernel has no driver for it; build the
        vendor's demo without it"""),
    Rule("hot", WARNING, "clocks", _hot, "", """
        the chip is hot, and the kernel slows it down: {found}; cool it"""),
    Rule("hot", WARNING, "clocks", logged("heat"), "", """
        the chip got so hot that the kernel switched it off ({found}); cool it"""),
    Rule("held-clock", WARNING, "clocks",
         lambda facts: ", ".join(facts.clocks.get("throttled", ())), _SHOW_LIMITS, """
        the clock is held below its full one: {found} (heat, or a limit that was set)"""),
    Rule("powersave", WARNING, "clocks", _powersave, _FULL_SPEED, """
        the governor keeps a clock where it was set, mostly low: {found}"""),
    Rule("log-unknown", WARNING, "log", lambda facts: unknown_error(facts.log), fetch, """
        the runtime reports an error that is not known here ({found}): it is worth to try the
        newest one"""),
    Rule("log-unknown", WARNING, "log", logged("failed"),
         "RKNN_LOG_LEVEL=4 PROGRAM 2>&1 | tee output.txt; rknn-runtime doctor --log output.txt", """
        the program failed and does not say why ({found}): the runtime prints it"""),
    Rule("old-packages", WARNING, "python", _old_package, "pip install --upgrade {found[0]}", """
        {found[0]} {found[1]} is too old"""),
)  # fmt: skip
