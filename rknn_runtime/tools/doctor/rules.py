"""The rules of the doctor: a table of conditions, causes and repairs."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.signs import first_match, line_with

PROBLEM, WARNING = "problem", "warning"
#: On the simulated NPU only these count.
_SIMULATED_TOPICS = ("model", "python", "test")
_SIM = "rknn-runtime doctor --sim"
_VENDOR_KERNEL = (  # on Armbian
    "sudo apt install linux-image-vendor-rk35xx linux-dtb-vendor-rk35xx && sudo reboot"
)
_NEWER_KERNEL = "sudo apt update && sudo apt full-upgrade && sudo reboot"
_PRIVILEGED = "docker run --device /dev/dri --security-opt systempaths=unconfined --privileged ..."
_SHOW_TREE = (
    "docker run --security-opt systempaths=unconfined ...  # Kubernetes: procMount: Unmasked"
)
_BUILD_MODULE = (
    "sudo apt install linux-headers-$(uname -r) && sudo dkms autoinstall && sudo depmod -a && "
    "sudo reboot"
)
_GLIBC = "docker run ... python:3.12-slim-bookworm"
_LATER = 'export LD_LIBRARY_PATH="$PWD/lib:$LD_LIBRARY_PATH"'
_CONVERT = (
    "rknn.config(..., target_platform='{facts.chip_name}')  # of rknn-toolkit2, and convert again"
)
_SUMS = "sha256sum {facts.model_name}  # on both machines; then copy it again in binary mode"
_STOP_DEMO = "/oem/usr/bin/RkLunch-stop.sh"
_ADD_SWAP = (
    "sudo fallocate -l 2G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && "
    "sudo swapon /swapfile"
)
_BOOT_OPTION = "sudo sed -i 's/$/ {0}/' /boot/cmdline.txt  # or extraargs={0} in armbianEnv.txt"


class Observation(NamedTuple):
    """A line of the report."""

    #: ``"ok"``, ``"warning"`` or ``"problem"``.
    severity: str
    #: ``"board"``, ``"driver"``, ``"device"``, ``"library"``, ``"model"``, ``"memory"``,
    #: ``"clocks"``, ``"log"``, ``"python"`` or ``"test"``.
    topic: str
    text: str
    #: Commands that repair it, a line each; may be empty.
    cure: str = ""
    #: Name of the rule; empty if all is well.
    rule: str = ""


class Rule(NamedTuple):
    """A row of the table. Of several rows of one name the first that applies counts."""

    name: str
    topic: str
    #: Words that must all apply: ``log:NAME`` for a sign of the log, ``NAME`` for a fact with a
    #: value, ``NAME=A|B`` for one of these values, with ``!`` in front for the contrary.
    when: str
    #: Shows ``{found}``, which is the line of the log or the fact of the last such word, and
    #: ``{facts.NAME}``.
    text: str
    #: Commands, a line each. Empty if none helps.
    cure: str = ""
    severity: str = PROBLEM
    #: A pattern that the log must have as well; ``{found}`` is its match.
    log: str = ""

    def judge(self, facts: Facts) -> Observation | None:
        """Return a line of the report, or None if the rule does not apply."""
        found: Any = None
        for word in self.when.split():
            name, _, values = word.lstrip("!").partition("=")
            is_sign = name.startswith("log:")
            value = line_with(name[4:], facts.log) if is_sign else attrgetter(name)(facts)
            applies = value in values.split("|") if values else bool(value)
            if applies == word.startswith("!"):
                return None
            if applies and not values:
                found = value
        if self.log:
            found = first_match(self.log, facts.log)
            if found is None:
                return None
        text = " ".join(self.text.split()).format(facts=facts, found=found)
        cure = self.cure.format(facts=facts, found=found)
        if facts.surroundings.uid == 0:
            cure = cure.replace("sudo ", "")
        return Observation(self.severity, self.topic, text, cure, self.name)


def judge(facts: Facts) -> tuple[Observation, ...]:
    """Apply every rule; return problems, then warnings, each in the order of the table."""
    found: dict[str, Observation] = {}
    for rule in RULES:
        if facts.simulated and (
            rule.topic not in _SIMULATED_TOPICS
            # The log is not of the simulated runtime.
            or (rule.name in ("model-target", "model-too-new", "model-damaged") and not facts.model)
        ):
            continue
        observed = None if rule.name in found else rule.judge(facts)
        if observed is not None:
            found[rule.name] = observed
    return tuple(sorted(found.values(), key=lambda each: each.severity != PROBLEM))


#: Sorted by cause: an earlier rule explains the later ones.
RULES: tuple[Rule, ...] = (
    # The board and its driver.
    Rule("no-board", "board", "no_board", """
        this machine shows no Rockchip NPU: no device tree that names one, no driver, no node""",
        _SIM),
    Rule("no-board", "board", "log:other-platform", """
        only boards have an NPU, and this was another machine or an emulated one ({found})""",
        _SIM),
    Rule("chip-not-served", "board", "not_served", """
        {found}. This package does not serve it; the simulated NPU works here""", _SIM),
    Rule("no-driver", "driver", "driver=rocket !open_runtime", """
        the kernel has the mainline driver rocket (/dev/accel), and the vendor's runtime needs the
        driver rknpu; links between nodes do not help. On RK3588, library="open" drives this NPU
        without the vendor's runtime, but no board has confirmed it yet: RKNN_RUNTIME_LIBRARY=open
        shows what that needs here. Or boot the board maker's image with the vendor's kernel (5.10
        or 6.1). On Armbian:""", _VENDOR_KERNEL),
    Rule("container-without-node", "device", "container=lxc !nodes !is_pc", """
        this container was given no node of the NPU. Allow it /dev/dri, or /dev/rknpu and
        /dev/dma_heap/system, in its configuration""",
        "lxc.cgroup2.devices.allow: c 226:* rwm\n"
        "lxc.mount.entry: /dev/dri dev/dri none bind,optional,create=dir"),
    Rule("container-without-node", "device", "log:no-device", """
        the container should get a node that this machine does not have ({found}). The number of
        the NPU's node depends on the other devices""", "{facts.run_with_node}"),
    Rule("container-without-node", "device", "driver=rocket container !nodes !is_pc", """
        this container was given no node of the NPU. Pass in /dev/accel""",
        "{facts.run_with_node}"),
    Rule("container-without-node", "device", "container !nodes !is_pc", """
        this container was given no node of the NPU. Pass in /dev/dri, or /dev/rknpu and
        /dev/dma_heap/system""", "{facts.run_with_node}"),
    Rule("container-without-node", "device", "container_without_card", """
        this container was given the render node alone, and the runtime also opens the card, such
        as /dev/dri/card1. Pass in all of /dev/dri""", "{facts.run_with_node}"),
    Rule("npu-disabled", "driver", "is_mini disabled_npu", """
        the device tree has the NPU switched off ({found}). Enable it in the board's source and
        build the device tree again""",
        "echo '&rknpu {{ status = \"okay\"; }};' >> BOARD.dts  # then build the kernel"),
    Rule("npu-disabled", "driver", "disabled_npu", """
        the device tree has the NPU switched off ({found}). Enable it in the board's configuration
        (Radxa: Overlays, Enable NPU; others list overlays in /boot/armbianEnv.txt,
        /boot/uEnv/uEnv.txt or /etc/default/u-boot) and restart""",
        "sudo rsetup || sudo armbian-config || sudo orangepi-config"),
    Rule("module-unsigned", "driver", "unsaid_device log:unsigned", """
        this kernel loads signed modules only, as with secure boot ({found}). Sign the driver with
        a key that the kernel knows, or use the driver that came with the kernel""",
        "sudo /usr/src/linux-headers-$(uname -r)/scripts/sign-file sha256 MOK.priv MOK.der "
        "rknpu.ko && sudo mokutil --import MOK.der && sudo reboot"),
    Rule("module-of-other-kernel", "driver", "log:other-kernel", """
        the driver's module is for another kernel than the running one ({found}). Start the kernel
        that it came with, or build it for this one""", _BUILD_MODULE),
    Rule("module-of-other-kernel", "driver", "soc !driver !container !module other_module", """
        the driver's module is for another kernel than {facts.kernel}, which runs: {found}. Start
        the kernel that it came with, or build it for this one""", _BUILD_MODULE),
    Rule("other-device-tree", "driver", "!nodes log:probe", """
        the driver gave up on this NPU ({found}): device tree and driver do not match. Use both
        from one image of the board's maker. On Armbian:""", _VENDOR_KERNEL),
    Rule("no-power", "driver", "log:power", """
        the NPU gets no power: its power domain did not answer ({found}). Its supply (npu-supply)
        is wrong in the device tree, or an old U-Boot left the regulator off. Use kernel and
        device tree of the board's maker, or a newer U-Boot. On Armbian:""",
        f"{_VENDOR_KERNEL}\nsudo armbian-install  # updates U-Boot"),
    Rule("other-device-tree", "driver", "wrong_tree", """
        the vendor's driver is here, but the device tree describes {found}: it is of a mainline
        kernel or another board. Use kernel and device tree of one image. On Armbian:""",
        _VENDOR_KERNEL),
    Rule("other-device-tree", "driver", "unsaid_device log:overlay", """
        an overlay was not applied to the device tree ({found}): it is for another kernel or
        board, or conflicts with another overlay""",
        "dtc -I fs /proc/device-tree | grep -A 9 npu@  # then the overlay of this kernel"),
    Rule("driver-not-loaded", "driver", "!driver !container blacklist", """
        {found} keeps the driver from being loaded""", "{facts.leave_blacklist}"),
    Rule("driver-not-loaded", "driver", "soc !driver !container module", """
        the driver is here as a module, but not loaded: {found}""", "{facts.load_module}"),
    Rule("no-driver", "driver", "chip !driver !container !nodes", """
        the kernel {facts.kernel} has no driver for the NPU; mainline kernels do not have rknpu.
        Boot the board maker's image with the vendor's kernel (5.10 or 6.1). On Armbian:""",
        _VENDOR_KERNEL),
    Rule("no-driver", "driver", "log:no-module-file", """
        the kernel has no module of the driver ({found}). Boot the board maker's image with the
        vendor's kernel (5.10 or 6.1). On Armbian:""", _VENDOR_KERNEL),
    Rule("driver-refused", "driver", "log:driver-refused", """
        the runtime needs a newer driver ({found}). The driver is a part of the kernel: update
        that, or use the runtime of the image""", _NEWER_KERNEL),
    Rule("driver-crashed", "driver", "!ported log:kernel-crash", """
        the driver crashed in the kernel ({found}). The NPU does not work until the next start;
        update the kernel""", _NEWER_KERNEL),
    Rule("driver-crashed", "driver", "!ported log:spinlock", """
        the kernel waits for a lock that it holds itself, as driver 0.9.2 does with several
        threads ({found}). Update the kernel""", _NEWER_KERNEL),
    Rule("linked-node", "device", "linked_node", """
        {found.path} is a link to {found.link}. The library tries it first and speaks the other
        driver's language to it; without the link it finds the DRM nodes""",
        "sudo rm {found.path}"),
    Rule("no-node", "device", "interface driver=rknpu !nodes !container", """
        the driver is loaded, but its node is missing in /dev. Let udev or mdev make it""",
        "sudo udevadm trigger || sudo mdev -s"),
    Rule("no-node", "device", "driver=rknpu !nodes !container", """
        the driver is loaded, but shows neither a DRM node nor /dev/rknpu. Build the kernel with
        CONFIG_ROCKCHIP_RKNPU_DRM_GEM=y and CONFIG_DRM=y, or use the maker's image. On
        Armbian:""", _VENDOR_KERNEL),
    Rule("no-node", "device", "open_runtime driver=rocket !nodes !container", """
        the driver rocket is loaded, but shows no /dev/accel/accel0: the device tree lacks
        mainline's nodes of the NPU (rockchip,rk3588-rknn-core), or has them switched off""",
        "dtc -I fs /proc/device-tree | grep -A 9 npu@  # then an overlay with status = \"okay\""),
    Rule("forbidden-node", "device", "forbidden", """
        this user may not open the NPU's nodes: {found}""",
        "{facts.permit_nodes}"),
    Rule("forbidden-node", "device", "container log:hardware-version", """
        the runtime could not ask the driver for the hardware: the container sees the node, but
        may not use it""", _PRIVILEGED),
    Rule("forbidden-node", "device", "log:not-permitted", """
        the program sees the node, but may not use it ({found}). A container needs --device, not
        -v; a service may use the devices of its DeviceAllow only""",
        f"{_PRIVILEGED}\nsudo systemctl edit SERVICE  # DeviceAllow=char-drm rw"),
    Rule("no-heap", "device", "!heap container lacking_heap", """
        {found} allocates from /dev/dma_heap/system, which this container does not have""",
        "docker run --device /dev/rknpu --device /dev/dma_heap/system "
        "--security-opt systempaths=unconfined ..."),
    Rule("no-heap", "device", "!heap lacking_heap", """
        {found} allocates from /dev/dma_heap/system, which is not here. Build the kernel with
        CONFIG_DMABUF_HEAPS_SYSTEM=y, or use librknnrt 1.6.0 with models of toolkits up to 1.6""",
        "{facts.fetch_without_heap}"),
    Rule("no-heap", "device", "log:other-heap", """
        the program needs {found[0]}, which this kernel does not have. Uncached heaps such as
        system-uncached-dma32 are in the vendor's kernels 5.10 only""",
        "ls /dev/dma_heap  # and give the program another heap, one of these",
        log=r"/dev/dma_heap/[\w-]+"),
    Rule("forbidden-heap", "device", "heap lacking_heap", """
        this user may not read {facts.heap.path} (group {facts.heap.group}, mode
        {facts.heap.mode:04o}), and {found} ends the process then""", "{facts.permit_heap}"),
    Rule("forbidden-heap", "device", "log:heap-denied", """
        the program may not read /dev/dma_heap/system, from which the runtime allocates""",
        "{facts.permit_heap}"),
    Rule("hidden-device-tree", "board", "container !compatible !is_pc", """
        this container does not show /proc/device-tree, so the chip is unknown: no model can be
        checked against it, and the vendor's RKNNLite fails""", _SHOW_TREE, WARNING),
    Rule("hidden-device-tree", "board", "!container log:chip-of-ultralytics", """
        ultralytics found no chip in /proc/device-tree that it takes for one with an NPU; older
        versions know few ({found})""",
        "pip install --upgrade ultralytics  # or run the model with rknn-runtime", WARNING),
    Rule("hidden-device-tree", "board", "log:containers-tree", """
        the program did not find the chip's name in /proc/device-tree: its container does not show
        it, or the machine has no such chip""", _SHOW_TREE, WARNING),
    Rule("hidden-device-tree", "board", "log:chip-of-ultralytics", """
        ultralytics did not find the chip's name in /proc/device-tree, which this container does
        not show""", _SHOW_TREE, WARNING),
    # The libraries.
    Rule("no-library", "library", "container no_library", """
        this container has no {found}. Mount the board's""",
        "docker run -v /usr/lib/{found}:/usr/lib/{found}:ro ..."),
    Rule("no-library", "library", "no_library", """
        there is no {found} where it is looked for. Fetch it, or name the file in
        RKNN_RUNTIME_LIBRARY""", "{facts.fetch}"),
    Rule("library-damaged", "library", "damage", "{facts.unfit.path} {found}", "{facts.refetch}"),
    Rule("library-damaged", "library", "log:not-elf", """
        the library is not an ELF file of this machine ({found}). Fetch the raw file""",
        "{facts.fetch}"),
    Rule("library-folder", "library", "misfit=folder", """
        {facts.unfit.path} is a folder: Docker makes one if the host has no file of a name that -v
        gives. Remove it on the host, and put the library in its place""",
        "sudo rmdir {facts.unfit.path}\n{facts.refetch}"),
    Rule("library-folder", "library", "log:mounted-folder", """
        the host has no file of a name that -v gives, or a folder ({found}). Put the library
        there""", "{facts.refetch}"),
    Rule("library-unreadable", "library", "misfit=unreadable", """
        this user may not read {facts.unfit.path}""", "sudo chmod 755 {facts.unfit.path}"),
    Rule("library-machine", "library", "misfit=machine", """
        {facts.unfit.path} is for {facts.unfit.elf.target}, and this Python is for
        {facts.surroundings.interpreter.target}""", "{facts.refetch}"),
    Rule("library-libc", "library", "misfit=uClibc", """
        {facts.unfit.path} is for uClibc, and this Python is not. Link the vendor's static archive
        into this package on a PC (docs/boards-rv1106.md), or use a glibc build of it""",
        "make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a "
        'TARGETS="--target manylinux-armv7l"'),
    Rule("library-libc", "library", "misfit=glibc|musl", """
        {facts.unfit.path} is for {facts.unfit.elf.libc}, and this Python is not. The vendor has no
        library for musl: use a container or a system with glibc, such as Debian""", _GLIBC),
    Rule("library-libc", "library", "log:glibcs-symbols", """
        a program for musl, as on Alpine, loaded a library for glibc ({found}). Use a container or
        a system with glibc, such as Debian""", _GLIBC),
    Rule("library-chip", "library", "library_of_other_chip", "{found}", "{facts.fetch}"),
    Rule("log-no-library", "library", "unfound_library", """
        the program did not find the library, although it is here: {found}""",
        "{facts.let_it_be_found}"),
    Rule("missing-dependency", "library", "log:dependency", """
        the vendor's library needs {facts.lacking.file}, which this system does not have""",
        "sudo apt install {facts.lacking.package}"),
    Rule("missing-dependency", "library", "log:programs-library lacking.package", """
        the system lacks {facts.lacking.file}, or the program has it in a folder that is not
        searched""", f"sudo apt install {{found}}\n{_LATER}"),
    Rule("missing-dependency", "library", "log:programs-library", """
        the program did not find {facts.lacking.file}, which is probably in a folder of its
        own""", _LATER),
    Rule("missing-symbol", "library", "log:symbol", """
        the library that was loaded lacks a function ({found}): it is older than the program, or
        another file of that name comes first. Use the newest""", "{facts.fetch}"),
    Rule("old-header", "library", "log:old-header", """
        the program was built with an older header than the library that was loaded. Build it with
        the library's header"""),
    # The program and its Python.
    Rule("system-too-old", "library", "log:system-libraries", """
        conda's own C++ library is older than another library needs, and comes before the
        system's ({found[1]})""", "conda install -c conda-forge libstdcxx-ng",
        log=r"(\S*(?:conda|mamba|miniforge|/envs/)\S*): version"),
    Rule("system-too-old", "library", "log:system-libraries", """
        a library needs newer system libraries ({found}). Use a newer system, such a container, or
        a program that was built on this system""", _GLIBC),
    Rule("program-libc", "library", "log:images-format", """
        the container's image is for another processor""",
        "docker run --platform linux/arm64 ..."),
    Rule("program-libc", "library", "log:programs-format", """
        the system cannot start the program, although its file may be here: it was built for
        another C library, processor or word size. RV1103 and RV1106 have uClibc with Buildroot
        and glibc with Ubuntu""",
        "readelf -l PROGRAM | grep interpreter  # and use the build for it, such as uclibc's"),
    Rule("program-symbol", "library", "log:other-symbol", """
        a library lacks a function ({found}): it is older or newer than the program, or another of
        its name comes first""", "ldd PROGRAM  # then use program and libraries of one release"),
    Rule("security-policy", "device", "log:apparmor", """
        AppArmor forbids the program the NPU ({found}). Allow its profile /dev/dri, /dev/rknpu and
        /dev/dma_heap, or use a program that is not from a snap""",
        "sudo aa-complain PROFILE  # or docker run --security-opt apparmor=unconfined ..."),
    Rule("security-policy", "device", "log:policy", """
        SELinux forbids the program the NPU or its memory ({found}), as on Android. Elsewhere try
        sudo setenforce 0, in a container --security-opt label=disable""",
        "adb root && adb shell setenforce 0  # to try; then allow it in the policy"),
    Rule("security-policy", "device", "log:system-call", """
        a system call of the program is forbidden ({found}) by the container's engine, or the
        sandbox of its service""",
        "docker run --security-opt seccomp=unconfined ...  # of a service: SystemCallFilter="),
    Rule("not-linked", "library", "log:not-linked", """
        the program was not linked with the vendor's library""", "g++ ... -L/usr/lib -lrknnrt"),
    Rule("static-tls", "library", "log:static-tls", """
        a library came too late to get its thread-local memory. Load it first""",
        "export LD_PRELOAD={facts.preload}"),
    Rule("numpy-abi", "python", "log:numpy", """
        a package was built for NumPy 1 (often OpenCV), and NumPy 2 is installed. Use a newer
        version of it, or the older NumPy""", "pip install 'numpy<2'"),
    Rule("numpy-abi", "python", "log:numpy-too-old", """
        a package was built for a newer NumPy than the installed one, or there are two""",
        "pip install --upgrade numpy"),
    Rule("numpy-abi", "python", "log:numpys-names", """
        a program uses names that newer versions of NumPy do not have ({found})""",
        "pip install 'numpy<1.24'"),
    Rule("managed-python", "python", "log:managed", """
        pip may not change the system's Python. Install into an environment""",
        "python3 -m venv ~/rknn && . ~/rknn/bin/activate"),
    Rule("python-symbols", "python", "log:python-symbols", """
        a package does not find functions of Python: it is for another version, or the program
        that embeds Python does not share it""",
        "export LD_PRELOAD=libpython3.X.so.1.0  # of this Python's version"),
    Rule("no-pkg-resources", "python", "log:packaging", """
        the vendor's package needs pkg_resources or distutils, which new versions of setuptools
        and Python do not have""", "pip install 'setuptools<81'"),
    Rule("no-rknnlite", "python", "is_pc log:no-rknnlite", """
        the vendor's toolkit is not installed in this Python. `rknn-runtime convert` makes an
        environment with it""", "pip install rknn-toolkit2"),
    Rule("no-rknnlite", "python", "log:no-rknnlite", """
        the vendor's rknnlite is not installed in this Python. This package has the same class:
        write `from rknn_runtime.rknnlite import RKNNLite`, or install the vendor's wheel of this
        Python's version""", "pip install rknn-toolkit-lite2"),
    Rule("target-argument", "python", "log:other-target", """
        the target of init_runtime is not the board on the cable ({found[1]})""",
        "rknn.init_runtime(target='{found[1]}')", log=r"while required target_platform = (\w+)"),
    Rule("target-argument", "python", "target_argument", """
        init_runtime was given a target, which is for a PC with a board on a cable. Leave it out on
        the board""", "rknn.init_runtime()"),
    Rule("first-toolkit", "python", "log:first-toolkit", """
        rknn-toolkit 1.x is for the first generation of chips (RK1808, RK3399Pro, RV1126). Use
        rknn-toolkit2 on a PC""", "pip install rknn-toolkit2"),
    # The model.
    Rule("model-foreign", "model", "model model.kind=rknn1|rknn3", """
        {facts.model.path}: {facts.model.message}""", _CONVERT),
    Rule("model-damaged", "model", "model model.kind=damaged", """
        {facts.model.path}: {facts.model.message}""", _SUMS),
    Rule("model-damaged", "model", "model model.kind=pointer", """
        {facts.model.path} is a pointer of Git LFS or a web page, not the model""",
        "git lfs pull  # or fetch the raw file"),
    Rule("model-damaged", "model", "!model log:magic", """
        the runtime says that the file is not an RKNN model ({found}): it was damaged, or is of
        another kind""", _SUMS),
    Rule("model-foreign", "model", "model model.kind=other", """
        {facts.model.path}: {facts.model.message}""", _CONVERT),
    Rule("model-not-found", "model", "log:no-model-file", """
        the program did not find the model's file, or may not read it. A relative path starts at
        the folder in which the program is started""", 'ls -l "$(realpath model.rknn)"'),
    Rule("model-encrypted-refused", "model", "log:encrypted-magic", """
        the runtime does not know encrypted models, and takes the mark CYPTRKNN for damage. Use
        the model as it was before encryption, or a newer runtime""", "{facts.fetch}"),
    Rule("model-language", "model", "log:language-chip", """
        the vendor's runtime for language models, RKLLM, does not serve this chip. RKLLM is not a
        part of this package"""),
    Rule("model-language", "model", "log:language-model", """
        the file is not a model of the RKLLM runtime that loaded it. Convert it with that
        runtime's rkllm-toolkit; RKLLM is not a part of this package"""),
    Rule("model-target", "model", "wrong_target", "{found}", _CONVERT),
    Rule("older-library-loaded", "library", "older_loaded", """
        the log is not of {facts.library.path} ({facts.runtime}): {found} was loaded. Look for it
        (find / -name 'librknn*rt.so'), or name the right one""",
        "export RKNN_RUNTIME_LIBRARY={facts.library.path} "
        "LD_LIBRARY_PATH=$(dirname {facts.library.path})"),
    Rule("model-too-new", "model", "too_new", "{found}", "{facts.fetch}"),
    Rule("model-too-new", "model", "is_mini log:model-version", """
        the runtime refuses the version of the model's container. Convert the model for this chip
        with the toolkit of the runtime""", _CONVERT),
    Rule("model-too-new", "model", "refusing_runtime", """
        the runtime {found} cannot read the model's container: it is older than the toolkit that
        made it. Install the newest, or convert the model with the toolkit of the runtime""",
        "{facts.fetch}"),
    Rule("model-too-new", "model", "newer_toolkit_fails", "{facts.model.path}: {found}",
         "{facts.fetch}"),
    Rule("model-too-new", "model", "known_failure", "{facts.runtime} {found}", "{facts.fetch}"),
    Rule("operator-unknown", "model", "log:operator", """
        the runtime cannot run an operator of the model ({found}). Try a newer runtime, cut the
        operator off and compute it on the CPU, or register a custom operator""",
        "{facts.fetch}"),
    Rule("model-refused", "model", "refused !model", """
        the runtime refused the model: it is for another chip, made by a newer toolkit, or
        damaged. This command tells which, given the model""", "rknn-runtime doctor model.rknn"),
    Rule("model-refused", "model", "refused", """
        the runtime refused the model, and nothing is known against it. Use the newest runtime and
        its toolkit""", "{facts.fetch}"),
    Rule("call-refused", "model", "log:call", """
        the model needs an input of four dimensions, the first of which is the batch, and got an
        image of three""",
        "rknn-runtime info model.rknn  # an image with its batch: numpy.expand_dims(image, 0)",
        log="need 4dims input, but 3dims"),
    Rule("call-refused", "model", "log:int8-only", """
        the program takes int8 models only ({found}). Convert with quantization""",
        "rknn-runtime convert NETWORK.onnx --for {facts.chip_name} --calibrate IMAGES  # int8"),
    Rule("call-refused", "model", "log:call", """
        the runtime refuses what the program gives it ({found}): a size, type or shape that is not
        the model's, or a call that this chip's runtime does not have""",
        "rknn-runtime info model.rknn"),
    Rule("versions-differ", "model", "newer_toolkit", "{facts.model.path}: {found}",
         "{facts.fetch}", WARNING),
    Rule("versions-differ", "model", "log:versions", """
        the model is of another version than the runtime ({found}). Use the runtime of the model's
        toolkit, or a newer one""", "{facts.fetch}", WARNING),
    Rule("toolkit-fault", "model", "toolkit_fault", """
        {facts.model.path}: {found}""", "", WARNING),
    Rule("model-encrypted", "model", "model model.kind=encrypted", """
        {facts.model.path} is encrypted. The vendor's runtime may load it, but it cannot be checked
        here; if it is refused, try the model as it was before encryption""", "", WARNING),
    # What happens while it runs.
    Rule("no-iommu", "memory", "no_iommu", """
        the driver works without the IOMMU, so the NPU's memory must be in one piece, of which
        there are a few MB. Use an image whose device tree enables the NPU's IOMMU (rknpu_mmu,
        status okay), or reserve CMA on the kernel's command line""",
        _BOOT_OPTION.format("cma=256M")),
    Rule("descriptors", "memory", "log:descriptors", """
        the process ran out of file descriptors; each piece of NPU memory is one. Close models, or
        raise the limit""", "ulimit -n 65536  # of a service: LimitNOFILE=65536"),
    Rule("mini-memory", "memory", "mini_memory", """
        the NPU's memory is used up ({found}). Stop the vendor's demo, which holds the camera's
        memory; else enlarge rk_dma_heap_cma on the kernel's command line, or use a smaller
        model""", _STOP_DEMO),
    Rule("high-memory", "log", "high_memory log:submit", """
        the NPU did not finish a task. On RK3566 and RK3568 with 4 GB or more some kernels put the
        IOMMU's tables above 4 GB, where it cannot read them. Use a newer kernel, or try less
        memory""", _BOOT_OPTION.format("mem=3840M")),
    Rule("ported-driver", "driver", "ported_and_failed", """
        the vendor's driver was built for the kernel {found} by others, and the NPU does not work
        there: mostly its IOMMU, its power or its memory. Boot the vendor's kernel (5.10 or 6.1),
        or switch the NPU's IOMMU off in the device tree. On Armbian:""", _VENDOR_KERNEL),
    Rule("old-driver", "driver", "driver_short_of_memory", """
        the driver {facts.driver_version} could not give the NPU that much memory; 0.9.8 has
        several address spaces of 4 GB. It is a part of the kernel: update that and the
        library""", _NEWER_KERNEL),
    Rule("no-memory", "memory", "log:allocation", """
        the NPU got no memory. Close other models and processes that use it, use fewer contexts (a
        Pool shares the weights) or a smaller model; an NPU's context has 4 GB of addresses""",
        "free -m; sudo fuser -v /dev/dri/* /dev/rknpu"),
    Rule("out-of-memory", "memory", "log:shared-memory", """
        /dev/shm of the container is too small ({found})""", "docker run --shm-size 512m ...",
        WARNING),
    Rule("out-of-memory", "memory", "log:killed", """
        the system ran out of memory and ended a process. Use a smaller model or fewer processes,
        or add swap""", _ADD_SWAP, WARNING),
    Rule("out-of-memory", "memory", "log:memory", """
        the system refused a process memory, or ended it ({found}). Use a smaller model or fewer
        processes, or add swap""", _ADD_SWAP, WARNING),
    Rule("out-of-memory", "memory", "little_memory", """
        {found}: the system may end the process""", "free -m", WARNING),
    Rule("iommu-fault", "memory", "log:page-fault", """
        the NPU read or wrote memory that it does not have: a buffer of the program is too small,
        or was released while the NPU ran. Sizes are size_with_stride, not size""",
        "rknn-runtime info model.rknn"),
    Rule("camera-contends", "log", "is_mini log:submit", """
        the NPU did not finish a task. On this chip camera and NPU mostly contend for the memory:
        stop the vendor's demo and try without the camera""", _STOP_DEMO),
    Rule("old-driver", "driver", "driver_that_fails", """
        the NPU did not finish a task, and the driver {facts.driver_version} is old: 0.9.6 mends
        that, and 0.9.8 for language models. It is a part of the kernel: update that and the
        library""", _NEWER_KERNEL),
    Rule("submit-failed", "log", "log:submit", """
        the NPU did not finish a task. Use library, driver and toolkit of one version; then try
        one core (CoreMask.CORE_0), one thread, and another power supply""", "{facts.fetch}"),
    Rule("connection", "log", "log:connection log:model-refused", """
        the board refused the model that the vendor's toolkit on a PC sent it: its rknn_server and
        its library are older than the toolkit. Use both of the toolkit's release""",
        "adb push rknn_server /usr/bin/ && adb push librknnrt.so /usr/lib/ && "
        "adb shell restart_rknn.sh  # files of rknpu2/runtime of the toolkit's release"),
    Rule("connection", "log", "log:connection", """
        the vendor's toolkit on a PC does not reach rknn_server on the board. Start the server of
        the toolkit's version there; on small chips it starts from /oem/usr/bin only""",
        "adb shell restart_rknn.sh  # starts rknn_server; on small chips of /oem/usr"),
    Rule("log-open", "log", "too_old_to_open", """
        the library {found} is too old for the driver {facts.driver_version} and finds no NPU""",
        "{facts.fetch}"),
    Rule("log-open", "log", "log_open", """
        the log says that no NPU could be opened, and nothing here forbids it: the program ran as
        another user, in a container, or in the sandbox of a service or a snap""",
        "sudo usermod -a -G video,render USER  # or docker run --device /dev/dri ...\n"
        "sudo systemctl edit SERVICE  # SupplementaryGroups=video render, PrivateDevices=no"),
    Rule("crash", "log", "!log:rga !log:memory log:crash", """
        a process crashed ({found}). Model, library and driver are mostly of different versions
        then: install the library of the model's toolkit""", "{facts.fetch_of_toolkit}"),
    Rule("trial-failed", "test", "not_emulated", """
        the emulated NPU does not know everything that this model does, which says nothing about a
        board: {found}""", "rknn-runtime info --emulate {facts.model.path}"),
    Rule("trial-failed", "test", "trial !trial.passed", "the test failed: {facts.trial.text}",
        "RKNN_LOG_LEVEL=4 rknn-runtime doctor {facts.model.path}"),
    Rule("core-mask", "log", "log:cores", """
        a core mask was refused ({found}). RK3588 has three cores and RK3576 two; models of
        toolkit 1.3 and older and matrix multiplications run on one, and RKNN3 needs the number
        that the model was made for. Leave core_mask out""",
        "Model(..., core_mask=CoreMask.AUTO)  # which is the default", WARNING),
    Rule("image-scaler", "log", "told log:rga log:rga-forbidden", """
        the chip's image scaler RGA failed, which is not the NPU: this user may not use
        /dev/rga""", 'sudo usermod -a -G video "$USER"  # then log in again', WARNING),
    Rule("image-scaler", "log", "told log:rga", """
        the chip's image scaler RGA failed, which is not the NPU: it reaches no memory above 4 GB,
        needs widths that are multiples of 16, or has no driver in this kernel. Build the vendor's
        demo without it""",
        "./build-linux.sh -t {facts.chip_name} -a aarch64 -d DEMO -r", WARNING),
    Rule("slow-npu", "clocks", "driver=rocket open_runtime", """
        mainline kernels start the NPU at 200 MHz, a fifth of the vendor's clock. With the clock
        patch of gregordinary/rocket-userspace the driver takes another""",
        "sudo modprobe -r rocket && sudo modprobe rocket rocket_npu_clk_hz=600000000  "
        "# a kernel with that patch", WARNING),
    Rule("hot", "clocks", "hot", """
        the chip is hot, and the kernel slows it down: {found}. Cool it""", "", WARNING),
    Rule("hot", "clocks", "log:heat", """
        the kernel switched the chip off because it was too hot ({found}). Cool it""", "",
        WARNING),
    Rule("held-clock", "clocks", "held_clocks", """
        a clock is held below its maximum by heat or by a limit: {found}""",
        "grep -H . /sys/class/devfreq/*/max_freq "
        "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", WARNING),
    Rule("powersave", "clocks", "slow_governors", """
        the governor keeps a clock where it was set, mostly low: {found}""",
        "echo performance | sudo tee /sys/class/devfreq/*.npu/governor "
        "/sys/class/devfreq/dmc/governor /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        WARNING),
    Rule("log-unknown", "log", "unknown_error", """
        the runtime reports an error that has no rule ({found}). Try the newest runtime""",
        "{facts.fetch}", WARNING),
    Rule("log-unknown", "log", "log:failed", """
        the program failed and does not say why ({found}). The runtime prints it""",
        "RKNN_LOG_LEVEL=4 PROGRAM 2>&1 | tee output.txt; rknn-runtime doctor --log output.txt",
        WARNING),
    Rule("old-packages", "python", "old_package", "{found} is too old",
        "pip install --upgrade numpy cffi", WARNING),
    # Around it. They come last: an error of the NPU in the same log explains it.
    Rule("no-command", "library", "log:no-command", """
        a command is not installed ({found})""", "sudo apt install {facts.command_package}"),
    Rule("program-without-rknn", "library", "log:built-without", """
        the program was built without the NPU, and names the option ({found[0]})""",
        "cmake {found[0]} ...  # or install its wheel that was built with RKNN",
        log=r"-D\w*RKNN\w*=ON"),
    Rule("program-without-rknn", "library", "log:built-without", """
        the program was built without the NPU ({found}). Use its build for RKNN""",
        "cmake -L | grep -i rknn  # and build with it, or install the build for RKNN"),
    Rule("no-module", "python", "log:no-module", """
        a package is not installed in the Python that ran ({found})""",
        "python3 -m pip install {facts.distribution}"),
    Rule("wrong-wheel", "python", "foreign_wheel", """
        the wheel is for another machine ({found}). The vendor's toolkits that convert models run
        on a PC, and a board uses their models""",
        "uname -m  # and use the wheel for that; one for x86_64 only is for a PC"),
    Rule("wrong-wheel", "python", "log:no-wheel", """
        the package has no wheel for this Python and processor ({found}). Its name must end in
        this Python's cp number and this machine, such as aarch64""",
        "python3 -m pip install --upgrade pip && python3 -m pip debug --verbose"),
)  # fmt: skip
