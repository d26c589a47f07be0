"""Rules about the board, its driver, the device nodes."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime.doctor.cures import (
    NEWER_KERNEL,
    RUN_DRM,
    RUN_MISC,
    SIMULATED,
    VENDOR_KERNEL,
    fetch,
    permit,
)  # fmt: skip
from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Cause, Judge, Rule, logged
from rknn_runtime.modelfile.soc import FULL_RUNTIME
from rknn_runtime.npu.device import HEAP, LAST_WITHOUT_HEAP, RKNPU

__all__ = ["RULES"]

_RKNN1 = ("rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126")
_RKNN3 = ("rk1820", "rk1828", "rk3572")
#: Chips of which some are sold with a working NPU.
_PERHAPS = ("rk3582", "rk3583")
_BOOT_VENDORS = "boot the board maker's image with the vendor's kernel (5.10 or 6.1); on Armbian:"


def _no_board(facts: Facts) -> Cause | None:
    known = facts.chip or facts.nodes or facts.driver or facts.container
    if (known and not facts.is_pc) or (facts.told and facts.signs):  # a log of another machine
        return None
    return Cause(
        "this machine shows no Rockchip NPU (no device tree that names one, no driver, no node)",
        SIMULATED,
    )


def _of_generation(chips: Sequence[str], driver: str, words: str) -> Judge:
    """Judge by chip or driver: its NPU is of another generation than those served here."""

    def judge(facts: Facts) -> Cause | None:
        if facts.soc is not None or (facts.chip not in chips and facts.driver != driver):
            return None
        return Cause(
            f"the NPU of {facts.chip or 'this chip'} is of the {words}, which this package does "
            "not serve; here is only the simulated NPU",
            SIMULATED,
        )

    return judge


def _chip_without_npu(facts: Facts) -> Cause | None:
    if not facts.chip or facts.soc is not None or facts.driver == "rknpu":
        return None
    if facts.chip in (*_RKNN1, *_RKNN3) or facts.chip.startswith(_PERHAPS):
        return None
    return Cause(f"{facts.chip} has no NPU that RKNN models run on", SIMULATED)


def _rocket(facts: Facts) -> Cause | None:
    if facts.driver != "rocket":
        return None
    return Cause(
        "the kernel has the mainline driver rocket (/dev/accel): the vendor's runtime speaks to "
        f"its own driver rknpu alone, and no link between the nodes helps; {_BOOT_VENDORS}",
        VENDOR_KERNEL,
    )


def _npu_disabled(facts: Facts) -> Cause | None:
    if not facts.disabled or facts.nodes:
        return None
    return Cause(
        f"the device tree has the NPU switched off ({', '.join(facts.disabled)}): enable it in "
        "the board's configuration (Radxa: Overlays, Enable NPU), then restart",
        "sudo rsetup || sudo armbian-config",
    )


def _probe_failed(facts: Facts) -> Cause | None:
    if "probe" not in facts.signs or facts.nodes:
        return None
    return Cause(
        "the driver gave up on this NPU (see the log): the device tree and the driver of this "
        "kernel do not go together; take both from one image of the board's maker. On Armbian:",
        VENDOR_KERNEL,
    )


def _driver_not_loaded(facts: Facts) -> Cause | None:
    if facts.driver or facts.container or not facts.has_module or not facts.soc:
        return None
    return Cause("the driver is there as a module, but not loaded", "sudo modprobe rknpu")


def _no_driver(facts: Facts) -> Cause | None:
    if facts.driver or facts.container or facts.nodes or not facts.chip:
        return None
    return Cause(
        f"the kernel {facts.kernel or ''} has no driver for the NPU: mainline kernels do not have "
        f"rknpu; {_BOOT_VENDORS}",
        VENDOR_KERNEL,
    )


def _container_without_node(facts: Facts) -> Cause | None:
    if not facts.container or facts.nodes or facts.is_pc:
        return None
    cure = RUN_MISC if facts.interface == "misc" else RUN_DRM
    if not facts.interface:
        cure = f"{RUN_DRM}\n{RUN_MISC}"
    return Cause(
        "this container was given no node of the NPU: pass in /dev/dri, or "
        f"{RKNPU} and {HEAP}, whichever the board has",
        cure,
    )


def _linked_node(facts: Facts) -> Cause | None:
    link = next((node for node in facts.nodes if node.kind == "rknpu" and node.link), None)
    if link is None:
        return None
    return Cause(
        f"{RKNPU} is a link to {link.link}: the library tries it first and speaks the other "
        "driver's language to it; it finds the DRM nodes without it",
        f"sudo rm {RKNPU}",
    )


def _no_node(facts: Facts) -> Cause | None:
    if facts.nodes or facts.driver != "rknpu" or facts.container:
        return None
    if facts.interface:
        return Cause(
            "the driver is loaded, but the node is missing in /dev: let udev or mdev make it",
            "sudo udevadm trigger || sudo mdev -s",
        )
    return Cause(
        "the driver is loaded, but shows neither a DRM node nor /dev/rknpu: build the kernel with "
        "CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y, and CONFIG_DRM=y, or take the maker's image. On Armbian:",
        VENDOR_KERNEL,
    )


def _forbidden_node(facts: Facts) -> Cause | None:
    if not facts.nodes or any(node.usable for node in facts.nodes):
        return None
    listed = "; ".join(f"{node.path} is of group {node.group}, mode {node.mode:04o}"
                       for node in facts.nodes)  # fmt: skip
    return Cause(f"this user may not use the NPU: {listed}", permit(facts, facts.nodes))


def _needs_heap(facts: Facts) -> bool:
    """On /dev/rknpu newer librknnrt allocate from the heap: `rknn_runtime.npu.device`."""
    runtime = facts.runtime
    if runtime is not None and (
        runtime.name != FULL_RUNTIME or runtime.version <= LAST_WITHOUT_HEAP
    ):
        return False
    if runtime is None and "heap" not in facts.signs:
        return False
    return any(node.kind == "rknpu" and node.usable and not node.link for node in facts.nodes)


def _no_heap(facts: Facts) -> Cause | None:
    if facts.heap is not None or not _needs_heap(facts):
        return None
    text = f"{facts.runtime or 'the runtime'} allocates from {HEAP}, which is not there"
    if facts.container:
        return Cause(f"{text}: pass it into the container", RUN_MISC)
    return Cause(
        f"{text}: build the kernel with CONFIG_DMABUF_HEAPS_SYSTEM=y; or take librknnrt 1.6.0, "
        "which does without, for models of toolkits up to that",
        fetch(facts, release="v1.6.0"),
    )


def _forbidden_heap(facts: Facts) -> Cause | None:
    if facts.heap is None or facts.heap.usable or not _needs_heap(facts):
        return None
    return Cause(
        f"this user may not read {HEAP} (group {facts.heap.group}, mode {facts.heap.mode:04o}), "
        f"and {facts.runtime or 'the runtime'} ends the process then",
        permit(facts, [facts.heap]),
    )


def _hidden_tree(facts: Facts) -> Cause | None:
    if not facts.container or facts.compatible or facts.is_pc:
        return None
    return Cause(
        "this container does not show /proc/device-tree, so the chip is unknown here: nobody can "
        "check that a model is for it, and the vendor's RKNNLite fails",
        "docker run --security-opt systempaths=unconfined ...",
    )


def _unknown_hardware(facts: Facts) -> Cause | None:
    if "hardware version" not in facts.signs or not facts.container:
        return None
    return Cause(
        "the runtime could not ask the driver for the hardware (hw_version -1): the container may "
        "see the node, but not use it",
        RUN_DRM.replace("...", "--privileged ..."),
    )


RULES = (
    Rule("no-board", PROBLEM, "board", _no_board),
    Rule("rknn1-chip", PROBLEM, "board", _of_generation(
        _RKNN1, "galcore",
        "first generation (RKNN1, driver galcore): it runs models of rknn-toolkit 1.x with that "
        "toolkit's librknn_api.so")),
    Rule("rknn3-chip", PROBLEM, "board", _of_generation(
        _RKNN3, "rknpu3",
        "third generation (driver RKNPU3): it wants the vendor's RKNN3 runtime and models of "
        "rknn3-toolkit")),
    Rule("chip-without-npu", PROBLEM, "board", _chip_without_npu),
    Rule("rocket-driver", PROBLEM, "driver", _rocket),
    Rule("container-without-node", PROBLEM, "device", _container_without_node),
    Rule("npu-disabled", PROBLEM, "driver", _npu_disabled),
    Rule("module-of-other-kernel", PROBLEM, "driver", logged(
        "other kernel",
        "the driver's module is of another kernel than the one that runs: start the kernel that "
        "it came with, or build it for this one",
        "sudo depmod -a && sudo reboot")),
    Rule("probe-failed", PROBLEM, "driver", _probe_failed),
    Rule("driver-not-loaded", PROBLEM, "driver", _driver_not_loaded),
    Rule("no-driver", PROBLEM, "driver", _no_driver),
    Rule("driver-refused", PROBLEM, "driver", logged(
        "driver refused",
        "the runtime wants a newer driver than this kernel has: the driver is a part of the "
        "kernel, so update that, or take the runtime of the image",
        NEWER_KERNEL)),
    Rule("driver-crashed", PROBLEM, "driver", logged(
        "kernel crash",
        "the driver itself crashed in the kernel (see dmesg); nothing of the NPU works until the "
        "next start: update the kernel",
        NEWER_KERNEL)),
    Rule("linked-node", PROBLEM, "device", _linked_node),
    Rule("no-node", PROBLEM, "device", _no_node),
    Rule("forbidden-node", PROBLEM, "device", _forbidden_node),
    Rule("unknown-hardware", PROBLEM, "device", _unknown_hardware),
    Rule("no-heap", PROBLEM, "device", _no_heap),
    Rule("forbidden-heap", PROBLEM, "device", _forbidden_heap),
    Rule("hidden-device-tree", WARNING, "board", _hidden_tree),
    Rule("driver-older", WARNING, "driver", logged(
        "driver older",
        "the runtime recommends a newer driver, which is a part of the kernel",
        NEWER_KERNEL)),
)  # fmt: skip
