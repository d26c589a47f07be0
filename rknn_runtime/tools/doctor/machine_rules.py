"""Rules about the board, its driver, the device nodes."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME
from rknn_runtime.npu.device import LAST_WITHOUT_HEAP
from rknn_runtime.tools.doctor.cures import (
    NEWER_KERNEL,
    RUN_DRM,
    RUN_MISC,
    SIMULATED,
    VENDOR_KERNEL,
    fetch,
    permit,
    wanted_library,
)  # fmt: skip
from rknn_runtime.tools.doctor.facts import Facts, NodeFacts
from rknn_runtime.tools.doctor.log import line_with
from rknn_runtime.tools.doctor.rule import PROBLEM, WARNING, Rule, When, logged, matched

__all__ = ["RULES"]

_BUILD_MODULE = (
    "sudo apt install linux-headers-$(uname -r) && sudo dkms autoinstall && sudo depmod -a && "
    "sudo reboot"
)
_SIGN_MODULE = (
    "sudo /usr/src/linux-headers-$(uname -r)/scripts/sign-file sha256 MOK.priv MOK.der rknpu.ko && "
    "sudo mokutil --import MOK.der && sudo reboot"
)
_POWER = f"{VENDOR_KERNEL}\nsudo armbian-install  # updates the bootloader, U-Boot"
_SHOW_TREE = (
    "docker run --security-opt systempaths=unconfined ...  # Kubernetes: procMount: Unmasked"
)
_LXC = (
    "lxc.cgroup2.devices.allow: c 226:* rwm\n"
    "lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir"
)
_RKNN1 = ("rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126")
_RKNN3 = ("rk1820", "rk1828", "rk3572")
#: Chips of which some are sold with a working NPU.
_PERHAPS = ("rk3582", "rk3583")


def _no_board(facts: Facts) -> bool:
    known = facts.chip or facts.nodes or facts.driver or facts.container
    if facts.told and facts.signs:  # a log of another machine
        return False
    return facts.is_pc or not known


def _of_generation(chips: Sequence[str], driver: str) -> When:
    """Look by chip or driver for an NPU of another generation than those served here."""

    def found(facts: Facts) -> str:
        if facts.soc is not None or (facts.chip not in chips and facts.driver != driver):
            return ""
        return facts.chip or "this chip"

    return found


def _chip_without_npu(facts: Facts) -> bool:
    if not facts.chip or facts.soc is not None or facts.driver == "rknpu":
        return False
    return not (facts.chip in (*_RKNN1, *_RKNN3) or facts.chip.startswith(_PERHAPS))


def _driver_not_loaded(facts: Facts) -> str:
    missing = not facts.driver and not facts.container and facts.soc is not None
    return facts.module if missing else ""


def _load(facts: Facts) -> str:
    known = facts.kernel and f"/{facts.kernel}/" in facts.module  # else modprobe does not find it
    return "sudo modprobe rknpu" if known else f"sudo insmod {facts.module}"


def _other_module(facts: Facts) -> str:
    missing = not facts.driver and not facts.container and facts.soc is not None
    return facts.other_module if missing and not facts.module else ""


def _said_of_driver(sign: str, facts: Facts) -> str:
    """The line with a sign that does not name its device, which may be another where the NPU is."""
    return line_with(sign, facts.log) if facts.told or not facts.nodes else ""


def _blacklisted(facts: Facts) -> str:
    return facts.blacklist if not facts.driver and not facts.container else ""


def _take_off_blacklist(facts: Facts) -> str:
    if facts.blacklist.startswith("/etc/"):
        return f"sudo sed -i '/rknpu/d' {facts.blacklist} && sudo modprobe rknpu"
    return "grep -rl 'blacklist=.*rknpu' /boot  # take the option away there, and restart"


def _no_driver(facts: Facts) -> bool:
    missing = not facts.driver and not facts.container
    return missing and not facts.nodes and bool(facts.chip)


def _container_without_node(facts: Facts) -> bool:
    return bool(facts.container) and not facts.nodes and not facts.is_pc


def _run_with_node(facts: Facts) -> str:
    known = {"drm": RUN_DRM, "misc": RUN_MISC}
    return known.get(facts.interface, f"{RUN_DRM}\n{RUN_MISC}")


def _linked_node(facts: Facts) -> NodeFacts | None:
    return next((node for node in facts.nodes if node.kind == "rknpu" and node.link), None)


def _disabled(facts: Facts) -> str:
    return "" if facts.nodes else ", ".join(facts.disabled)


def _other_device_tree(facts: Facts) -> str:
    """What the device tree calls the NPU, where the vendor's driver finds none in it."""
    has_driver = facts.driver == "rknpu" or facts.module
    if facts.container or facts.nodes or not (has_driver and facts.compatible and facts.soc):
        return ""
    if any("rknpu" in text for text in facts.described):
        return ""
    return ", ".join(facts.described) or "no NPU"


def _no_node(facts: Facts) -> bool:
    return not facts.nodes and facts.driver == "rknpu" and not facts.container


def _forbidden_node(facts: Facts) -> str:
    if any(node.usable for node in facts.nodes):
        return ""
    return "; ".join(
        f"{node.path} is of group {node.group}, mode {node.mode:04o}" for node in facts.nodes
    )


def _forbidden_card(facts: Facts) -> list[NodeFacts]:
    """The NPU's cards, where a runtime failed and only the render nodes are usable."""
    if "open" not in facts.signs or any(
        "/card" in node.path for node in facts.nodes if node.usable
    ):
        return []
    usable = any(node.usable for node in facts.nodes if node.kind == "drm")
    return [node for node in facts.nodes if "/card" in node.path] if usable else []


def _container_without_card(facts: Facts) -> bool:
    drm = [node.path for node in facts.nodes if node.kind == "drm"]
    missing = bool(drm) and not any("/card" in path for path in drm)
    return bool(facts.container) and missing and "open" in facts.signs


def _needs_heap(facts: Facts) -> bool:
    """On /dev/rknpu newer librknnrt allocate from the heap: `rknn_runtime.npu.device`.

    So they do with DRM drivers that others built for mainline kernels, and say that none opens.
    """
    runtime = facts.runtime
    if runtime is not None and (
        runtime.name != FULL_RUNTIME or runtime.version <= LAST_WITHOUT_HEAP
    ):
        return False
    if runtime is None and "heap" not in facts.signs:
        return False
    kinds = ("rknpu", "drm") if "open" in facts.signs else ("rknpu",)
    return any(node.kind in kinds and node.usable and not node.link for node in facts.nodes)


def _no_heap(facts: Facts) -> object:
    if facts.heap is not None or not _needs_heap(facts):
        return None
    return facts.runtime or "the runtime"


def _forbidden_heap(facts: Facts) -> object:
    if facts.heap is None or facts.heap.usable or not _needs_heap(facts):
        return None
    return facts.runtime or "the runtime"


RULES = (
    Rule("no-board", PROBLEM, "board", _no_board, SIMULATED, """
        this machine shows no Rockchip NPU (no device tree that names one, no driver, no node)"""),
    Rule("no-board", PROBLEM, "board", logged("other platform"), SIMULATED, """
        only boards have an NPU, and this was another machine, or an emulated one ({found})"""),
    Rule("chip-generation", PROBLEM, "board", _of_generation(_RKNN1, "galcore"), SIMULATED, """
        the NPU of {found} is of the first generation (RKNN1, driver galcore): it runs models of
        rknn-toolkit 1.x with that toolkit's librknn_api.so, which this package does not serve;
        here is only the simulated NPU"""),
    Rule("chip-generation", PROBLEM, "board", _of_generation(_RKNN3, "rknpu3"), SIMULATED, """
        the NPU of {found} is of the third generation (driver RKNPU3): it wants the vendor's RKNN3
        runtime and models of rknn3-toolkit, which this package does not serve; here is only the
        simulated NPU"""),
    Rule("chip-without-npu", PROBLEM, "board", _chip_without_npu, SIMULATED, """
        {facts.chip} has no NPU that RKNN models run on"""),
    Rule("rocket-driver", PROBLEM, "driver",
         lambda facts: facts.driver == "rocket", VENDOR_KERNEL, """
        the kernel has the mainline driver rocket (/dev/accel): the vendor's runtime speaks to its
        own driver rknpu alone, and no link between the nodes helps; boot the board maker's image
        with the vendor's kernel (5.10 or 6.1). With rocket only Mesa's Teflon works, on .tflite
        models. On Armbian:"""),
    Rule("container-without-node", PROBLEM, "device",
         lambda facts: facts.container == "lxc" and _container_without_node(facts), _LXC, """
        this container was given no node of the NPU: allow it /dev/dri, or /dev/rknpu and
        /dev/dma_heap/system, whichever the board has, in its configuration"""),
    Rule("container-without-node", PROBLEM, "device", logged("no device"), _run_with_node, """
        the container was to get a node that this machine does not have ({found}): pass in what it
        has; the number of the NPU's node depends on what else is there"""),
    Rule("container-without-node", PROBLEM, "device", _container_without_node, _run_with_node, """
        this container was given no node of the NPU: pass in /dev/dri, or /dev/rknpu and
        /dev/dma_heap/system, whichever the board has"""),
    Rule("container-without-node", PROBLEM, "device", _container_without_card, RUN_DRM, """
        this container was given the render node alone, and the runtime also opens the card
        (/dev/dri/card1, for example): pass in all of /dev/dri"""),
    Rule("npu-disabled", PROBLEM, "driver",
         lambda facts: _disabled(facts) if wanted_library(facts) == MINI_RUNTIME else "",
         "echo '&rknpu {{ status = \"okay\"; }};' >> BOARD.dts  # then build the kernel", """
        the device tree has the NPU switched off ({found}): enable it in the board's source, and
        build its device tree (dtb) anew"""),
    Rule("npu-disabled", PROBLEM, "driver", _disabled,
         "sudo rsetup || sudo armbian-config || sudo orangepi-config", """
        the device tree has the NPU switched off ({found}): enable it in the board's configuration
        (Radxa: Overlays, Enable NPU; others list overlays in /boot/armbianEnv.txt,
        /boot/uEnv/uEnv.txt or /etc/default/u-boot), then restart"""),
    Rule("module-unsigned", PROBLEM, "driver",
         lambda facts: _said_of_driver("unsigned", facts), _SIGN_MODULE, """
        this kernel takes signed modules alone ({found}), as with secure boot: sign the driver's
        with a key that the kernel knows, or take the one that came with the kernel (Talos: its
        system extension of the same release)"""),
    Rule("module-of-other-kernel", PROBLEM, "driver", logged("other kernel"), _BUILD_MODULE, """
        the driver's module is of another kernel than the one that runs ({found}): start the kernel
        that it came with, or build it for this one, from its headers and configuration"""),
    Rule("module-of-other-kernel", PROBLEM, "driver", _other_module, _BUILD_MODULE, """
        the driver's module is of another kernel than {facts.kernel}, which runs: {found}; start
        the kernel that it came with, or build it for this one"""),
    Rule("probe-failed", PROBLEM, "driver",
         lambda facts: "probe" in facts.signs and not facts.nodes, VENDOR_KERNEL, """
        the driver gave up on this NPU (see the log): the device tree and the driver of this kernel
        do not go together; take both from one image of the board's maker. On Armbian:"""),
    Rule("no-power", PROBLEM, "driver", logged("power"), _POWER, """
        the NPU gets no power: its power domain did not answer ({found}). Either its supply
        (npu-supply) is missing in the device tree, or another one: take kernel and device tree of
        the board's maker; or the bootloader left its regulator off, as mainline U-Boot did: take a
        newer one. On Armbian:"""),
    Rule("other-device-tree", PROBLEM, "driver", _other_device_tree, VENDOR_KERNEL, """
        the vendor's driver is there, but the device tree does not have what it looks for: it
        describes {found}, and is of a mainline kernel or another board; take kernel and device
        tree (dtb) from one image. On Armbian:"""),
    Rule("other-device-tree", PROBLEM, "driver",
         lambda facts: _said_of_driver("overlay", facts),
         "dtc -I fs /proc/device-tree | grep -A 9 npu@  # then the overlay of this kernel", """
        an overlay was not applied to the device tree ({found}): it is of another kernel or
        board, or a second one changes the same"""),
    Rule("driver-not-loaded", PROBLEM, "driver", _blacklisted, _take_off_blacklist, """
        the driver is kept from being loaded by {found}"""),
    Rule("driver-not-loaded", PROBLEM, "driver", _driver_not_loaded, _load, """
        the driver is there as a module, but not loaded: {found}"""),
    Rule("no-driver", PROBLEM, "driver", _no_driver, VENDOR_KERNEL, """
        the kernel {facts.kernel} has no driver for the NPU: mainline kernels do not have rknpu;
        boot the board maker's image with the vendor's kernel (5.10 or 6.1); on Armbian:"""),
    Rule("no-driver", PROBLEM, "driver", logged("no module file"), VENDOR_KERNEL, """
        the kernel has no module of the driver ({found}): boot the board maker's image with the
        vendor's kernel (5.10 or 6.1); on Armbian:"""),
    Rule("driver-refused", PROBLEM, "driver", logged("driver refused"), NEWER_KERNEL, """
        the runtime wants a newer driver than this kernel has: the driver is a part of the kernel,
        so update that, or take the runtime of the image"""),
    Rule("driver-crashed", PROBLEM, "driver",
         lambda facts: "kernel crash" in facts.signs and not facts.ported, NEWER_KERNEL, """
        the driver itself crashed in the kernel (see dmesg); nothing of the NPU works until the
        next start: update the kernel"""),
    Rule("driver-crashed", PROBLEM, "driver",
         lambda facts: "spinlock" in facts.signs and not facts.ported, NEWER_KERNEL, """
        the kernel waits for a lock that it holds itself, in the driver {facts.driver_version} if
        the NPU was at work, as with several threads on 0.9.2: update the kernel"""),
    Rule("linked-node", PROBLEM, "device", _linked_node, "sudo rm {found.path}", """
        {found.path} is a link to {found.link}: the library tries it first and speaks the other
        driver's language to it; it finds the DRM nodes without it"""),
    Rule("no-node", PROBLEM, "device", lambda facts: _no_node(facts) and facts.interface,
         "sudo udevadm trigger || sudo mdev -s", """
        the driver is loaded, but the node is missing in /dev: let udev or mdev make it"""),
    Rule("no-node", PROBLEM, "device", _no_node, VENDOR_KERNEL, """
        the driver is loaded, but shows neither a DRM node nor /dev/rknpu: build the kernel with
        CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y, and CONFIG_DRM=y, or take the maker's image. On
        Armbian:"""),
    Rule("forbidden-node", PROBLEM, "device", _forbidden_node,
         lambda facts: permit(facts, facts.nodes), """
        this user may not use the NPU: {found}"""),
    Rule("forbidden-node", PROBLEM, "device", _forbidden_card,
         lambda facts: permit(facts, _forbidden_card(facts)), """
        this user may use the render node alone, and the runtime also opens the card
        ({found[0].path}, of group {found[0].group})"""),
    Rule("forbidden-node", PROBLEM, "device",
         lambda facts: "hardware version" in facts.signs and facts.container,
         RUN_DRM.replace("...", "--privileged ..."), """
        the runtime could not ask the driver for the hardware (hw_version -1): the container may
        see the node, but not use it"""),
    Rule("forbidden-node", PROBLEM, "device", logged("not permitted"),
         f"{RUN_DRM.replace('...', '--privileged ...')}\n"
         "sudo systemctl edit SERVICE  # DeviceAllow=char-drm rw", """
        the program sees the node, but may not use it: in a container it came in by -v in place of
        --device, or the engine forbids it; a service may use the devices of its DeviceAllow alone
        ({found})"""),
    Rule("no-heap", PROBLEM, "device", lambda facts: facts.container and _no_heap(facts),
         RUN_MISC, """
        {found} allocates from /dev/dma_heap/system, which is not there: pass it into the
        container"""),
    Rule("no-heap", PROBLEM, "device", _no_heap, lambda facts: fetch(facts, release="v1.6.0"), """
        {found} allocates from /dev/dma_heap/system, which is not there: build the kernel with
        CONFIG_DMABUF_HEAPS_SYSTEM=y; or take librknnrt 1.6.0, which does without, for models of
        toolkits up to that"""),
    Rule("no-heap", PROBLEM, "device", matched("other heap", r"/dev/dma_heap/[\w-]+"),
         "ls /dev/dma_heap  # and give the program another heap, one of these", """
        the program wants {found[0]}, which this kernel does not have: the vendor's kernels 5.10
        have uncached heaps (system-uncached-dma32, for example), newer ones do not"""),
    Rule("forbidden-heap", PROBLEM, "device", _forbidden_heap,
         lambda facts: permit(facts, [facts.heap] if facts.heap else []), """
        this user may not read {facts.heap.path} (group {facts.heap.group}, mode
        {facts.heap.mode:04o}), and {found} ends the process then"""),
    Rule("forbidden-heap", PROBLEM, "device", logged("heap denied"),
         lambda facts: permit(facts, [facts.heap] if facts.heap else facts.nodes), """
        the program may not read /dev/dma_heap/system, from which the runtime allocates"""),
    Rule("hidden-device-tree", WARNING, "board",
         lambda facts: facts.container and not facts.compatible and not facts.is_pc,
         _SHOW_TREE, """
        this container does not show /proc/device-tree, so the chip is unknown here: nobody can
        check that a model is for it, and the vendor's RKNNLite fails"""),
    Rule("hidden-device-tree", WARNING, "board",
         lambda facts: facts.container and "chip of ultralytics" in facts.signs, _SHOW_TREE, """
        ultralytics did not find the chip's name in /proc/device-tree, which this container does
        not show"""),
    Rule("hidden-device-tree", WARNING, "board", logged("chip of ultralytics"),
         "pip install --upgrade ultralytics  # or copy the model, and run it with rknn-runtime", """
        ultralytics did not find a name in /proc/device-tree that it takes for a chip with an NPU:
        older ones know few ({found})"""),
    Rule("hidden-device-tree", WARNING, "board", logged("container's tree"),
         _SHOW_TREE, """
        the program did not find the chip's name in /proc/device-tree: it ran in a container that
        does not show it, or on a machine without such a chip"""),
    Rule("driver-older", WARNING, "driver", logged("driver older"), NEWER_KERNEL, """
        the runtime recommends a newer driver, which is a part of the kernel"""),
)  # fmt: skip
