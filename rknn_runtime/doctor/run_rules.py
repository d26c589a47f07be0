"""Rules about what happens while models run: memory, time, clocks."""

from __future__ import annotations

from rknn_runtime.doctor.cures import NEWER_KERNEL, fetch
from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.log import unknown_error
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Cause, Rule, logged

__all__ = ["RULES"]

#: The driver that most reports of "failed to submit" were solved with; 0.9.3 is known to fail.
_GOOD_DRIVER = (0, 9, 6)
#: The first with several address spaces, which large language models ask for.
_LARGE_MEMORY_DRIVER = (0, 9, 8)
_STOP_DEMO = "/oem/usr/bin/RkLunch-stop.sh"
_HOT_C = 85
_NUMPY, _CFFI = (1, 19), (1, 14)
#: Releases of the vendor's library by the toolkit's version.
_RELEASES: dict[tuple[int, ...], str] = {
    (1, 6, 0): "v1.6.0", (2, 0, 0): "v2.0.0-beta0", (2, 1, 0): "v2.1.0", (2, 2, 0): "v2.2.0",
    (2, 3, 0): "v2.3.0", (2, 3, 2): "v2.3.2",
}  # fmt: skip
#: librknnrt before it does not open the DRM node of drivers from 0.8 on.
_OPENS_DRM, _DRM_DRIVER = (1, 4, 0), (0, 8, 0)


def _no_iommu(facts: Facts) -> Cause | None:
    mini = facts.soc is not None and facts.soc.mini
    if mini or not ("bounce" in facts.signs or facts.signs >= {"allocation", "no iommu"}):
        return None
    return Cause(
        "the driver works without the IOMMU, so the NPU's memory has to be in one piece, of which "
        "there are a few MB: take an image whose device tree enables the NPU's IOMMU "
        "(rknpu_mmu, status okay), or reserve CMA on the kernel's command line",
        "sudo sed -i 's/$/ cma=256M/' /boot/cmdline.txt  # or extraargs=cma=256M in armbianEnv.txt",
    )


def _mini_memory(facts: Facts) -> Cause | None:
    if not facts.signs & {"allocation", "cma"} or facts.soc is None or not facts.soc.mini:
        return None
    free = facts.memory_kb.get("CmaFree")
    return Cause(
        "the NPU's memory is used up (CMA"
        + (f", {free} kB are free" if free is not None else "")
        + "): stop the vendor's demo, which holds the camera's; else enlarge rk_dma_heap_cma in "
        "the kernel's command line, or take a smaller model",
        _STOP_DEMO,
    )


def _old_driver(facts: Facts) -> Cause | None:
    if "submit" not in facts.signs or not facts.driver_is_before(_GOOD_DRIVER):
        return None
    return Cause(
        f"the NPU did not finish a task, and the driver {facts.driver_version} is old: "
        f"{'.'.join(map(str, _GOOD_DRIVER))} and newer repaired that; it is a part of the kernel, "
        "so update that, and the library with it",
        NEWER_KERNEL,
    )


def _old_driver_memory(facts: Facts) -> Cause | None:
    if "bad address" not in facts.signs or not facts.driver_is_before(_LARGE_MEMORY_DRIVER):
        return None
    return Cause(
        f"the driver {facts.driver_version} could not give the NPU that much memory: "
        f"{'.'.join(map(str, _LARGE_MEMORY_DRIVER))} has several address spaces of 4 GB; it is a "
        "part of the kernel, so update that, and the library with it",
        NEWER_KERNEL,
    )


def _image_scaler(facts: Facts) -> Cause | None:
    if "rga" not in facts.signs or not facts.told:  # the kernel's log has it of other programs
        return None
    text = "the chip's image scaler RGA failed, which is not the NPU: "
    if "rga forbidden" in facts.signs:
        return Cause(
            f"{text}this user may not use /dev/rga",
            'sudo usermod -a -G video "$USER"  # then log in again',
        )
    return Cause(
        f"{text}it reaches no memory above 4 GB and wants widths that are multiples of 16, or the "
        "kernel has no driver for it; build the vendor's demo without it",
        f"./build-linux.sh -t {facts.soc.name if facts.soc else 'rk3588'} -a aarch64 -d DEMO -r",
    )


def _unknown_error(facts: Facts) -> Cause | None:
    line = unknown_error(facts.log)
    return Cause(f"the log has an error that is not known here: {line}") if line else None


def _camera(facts: Facts) -> Cause | None:
    if "submit" not in facts.signs or facts.soc is None or not facts.soc.mini:
        return None
    return Cause(
        "the NPU did not finish a task: on this chip mostly since camera and NPU contend for the "
        "memory; stop the vendor's demo and try without the camera",
        _STOP_DEMO,
    )


def _high_memory(facts: Facts) -> Cause | None:
    total = facts.memory_kb.get("MemTotal", 0)
    if "submit" not in facts.signs or total < 4 << 20 or facts.soc is None:
        return None
    if facts.soc.name not in ("rk3566", "rk3568"):
        return None
    return Cause(
        "the NPU did not finish a task: on RK3566 and RK3568 with more than 4 GB some kernels put "
        "the IOMMU's tables where it cannot read; take a newer kernel, or try with 4 GB",
        "sudo sed -i 's/$/ mem=4G/' /boot/cmdline.txt  # or extraargs=mem=4G in armbianEnv.txt",
    )


def _log_open(facts: Facts) -> Cause | None:
    on_board = facts.soc is not None or facts.container
    if "open" not in facts.signs or (on_board and not any(node.usable for node in facts.nodes)):
        return None  # the nodes themselves say it
    version = facts.logged_runtime or (facts.runtime.version if facts.runtime else ())
    newer = facts.driver_version and not facts.driver_is_before(_DRM_DRIVER)
    if newer and () < version < _OPENS_DRM:
        return Cause(
            f"the library {'.'.join(map(str, version))} is too old for the driver "
            f"{facts.driver_version}, and finds no NPU",
            fetch(facts),
        )
    return Cause(
        "the log says that no NPU could be opened, though nothing here forbids it: the "
        "program ran as another user, or in a container; let that user in, or pass the nodes in",
        "sudo usermod -a -G video,render USER  # or docker run --device /dev/dri ...",
    )


def _crash(facts: Facts) -> Cause | None:
    if "crash" not in facts.signs or "rga" in facts.signs:  # then it is not the NPU's
        return None
    header = facts.model.header if facts.model is not None else None
    made = facts.number(header.toolkit_version) if header is not None else ()
    # Older models crash newer libraries, too: then the library of the model's toolkit.
    older = facts.runtime is not None and made < facts.runtime.version
    return Cause(
        "a process ended by a segmentation fault: most often model, library and driver are of "
        "different versions; install the library of the model's toolkit",
        fetch(facts, release=_RELEASES.get(made, "master") if older else "master"),
    )


def _trial(facts: Facts) -> Cause | None:
    if facts.trial is None or facts.trial.passed:
        return None
    return Cause(f"the test failed: {facts.trial.text}", "RKNN_LOG_LEVEL=4 rknn-runtime doctor "
                 + (facts.model.path if facts.model else "MODEL"))  # fmt: skip


def _little_memory(facts: Facts) -> Cause | None:
    available = facts.memory_kb.get("MemAvailable")
    if available is None or facts.model is None or available << 10 > 2 * facts.model.file_bytes:
        return None
    return Cause(
        f"{available >> 10} MB are free, and the model's file has "
        f"{facts.model.file_bytes >> 20} MB: the system may end the process",
        "free -m",
    )


def _hot(facts: Facts) -> Cause | None:
    hot = {
        name: degrees
        for name, degrees in facts.clocks.get("temperature_c", {}).items()
        if degrees >= _HOT_C
    }
    if not hot:
        return None
    listed = ", ".join(f"{name} {degrees:.0f} C" for name, degrees in hot.items())
    return Cause(f"the chip is hot, and the kernel slows it down: {listed}; cool it")


def _held_clock(facts: Facts) -> Cause | None:
    held = facts.clocks.get("throttled", ())
    if not held:
        return None
    listed = ", ".join(held)
    return Cause(
        f"the clock is held below its full one: {listed} (heat, or a limit that was set)",
        "grep -H . /sys/class/devfreq/*/max_freq "
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq",
    )


def _powersave(facts: Facts) -> Cause | None:
    slow = [
        name for name, governor in facts.clocks.get("governor", {}).items()
        if governor == "powersave" and (name.startswith("cpu") or name in ("npu", "dmc"))
    ]  # fmt: skip
    if not slow:
        return None
    return Cause(
        f"the governor of {', '.join(slow)} is powersave, which is slow",
        "echo performance | sudo tee /sys/class/devfreq/*.npu/governor "
        "/sys/class/devfreq/dmc/governor /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    )


def _old_packages(facts: Facts) -> Cause | None:
    versions = facts.surroundings.versions
    for name, least in (("numpy", _NUMPY), ("cffi", _CFFI)):
        version = facts.number(versions.get(name, ""))[:2]
        if version and version < least:
            return Cause(f"{name} {versions[name]} is too old", f"pip install --upgrade {name}")
    return None


RULES = (
    Rule("no-iommu", PROBLEM, "memory", _no_iommu),
    Rule("descriptors", PROBLEM, "memory", logged(
        "descriptors",
        "the process ran out of file descriptors: every piece of NPU memory is one. Close models, "
        "or raise the limit",
        "ulimit -n 65536")),
    Rule("mini-memory", PROBLEM, "memory", _mini_memory),
    Rule("old-driver-memory", PROBLEM, "driver", _old_driver_memory),
    Rule("no-memory", PROBLEM, "memory", logged(
        "allocation",
        "the NPU got no memory: close other models and processes that use it, take fewer contexts "
        "(a Pool shares the weights) or a smaller model; an NPU's context has 4 GB of addresses",
        "free -m; sudo fuser -v /dev/dri/* /dev/rknpu")),
    Rule("out-of-memory", WARNING, "memory", logged(
        "killed",
        "the system ran out of memory and ended a process: take a smaller model or fewer "
        "processes, or add swap",
        "sudo fallocate -l 2G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && "
        "sudo swapon /swapfile")),
    Rule("iommu-fault", PROBLEM, "memory", logged(
        "page fault",
        "the NPU read or wrote memory that it does not have: a buffer of the program is too small, "
        "or was released while the NPU ran; sizes are size_with_stride, not size",
        "rknn-runtime info model.rknn")),
    Rule("camera-contends", PROBLEM, "log", _camera),
    Rule("high-memory", PROBLEM, "log", _high_memory),
    Rule("old-driver", PROBLEM, "driver", _old_driver),
    Rule("submit-failed", PROBLEM, "log", logged(
        "submit",
        "the NPU did not finish a task: bring library, driver and the model's toolkit to one "
        "version; then try one core (CoreMask.CORE_0), one thread, and the power supply",
        fetch)),
    Rule("connection", PROBLEM, "log", logged(
        "connection",
        "the vendor's toolkit on a PC does not reach rknn_server on the board: start it there, "
        "and take the one of the toolkit's version",
        "adb shell restart_rknn.sh")),
    Rule("log-open", PROBLEM, "log", _log_open),
    Rule("crash", PROBLEM, "log", _crash),
    Rule("trial-failed", PROBLEM, "test", _trial),
    Rule("core-mask", WARNING, "log", logged(
        "cores",
        "a core mask was refused: only RK3588 (three) and RK3576 (two cores) have one, and models "
        "of toolkit 1.3 and older run on one core; leave core_mask out")),
    Rule("image-scaler", WARNING, "log", _image_scaler),
    Rule("little-memory", WARNING, "memory", _little_memory),
    Rule("hot", WARNING, "clocks", _hot),
    Rule("held-clock", WARNING, "clocks", _held_clock),
    Rule("powersave", WARNING, "clocks", _powersave),
    Rule("log-unknown", WARNING, "log", _unknown_error),
    Rule("old-packages", WARNING, "python", _old_packages),
)  # fmt: skip
