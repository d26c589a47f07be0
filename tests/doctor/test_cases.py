"""Machines that public threads tell of: the first cause and the command that repairs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor import (
    cases,
    cases_eighth,
    cases_eleventh,
    cases_fifth,
    cases_fourth,
    cases_held_out,
    cases_ninth,
    cases_second,
    cases_seventh,
    cases_sixth,
    cases_tenth,
    cases_third,
)
from doctor.healthy import CLOCKS, CPU, HEALTHY
from doctor.machine import Case, build
from rknn_runtime.tools.doctor.diagnosis import gather, judge
from rknn_runtime.tools.doctor.rule import Observation


def first(folder: Path, given: dict[str, Any]) -> Observation | None:
    found = judge(gather(**build(folder, **given)))
    return found[0] if found else None


ALL = (
    *cases.CASES,
    *cases_held_out.CASES,
    *cases_second.CASES,
    *cases_third.CASES,
    *cases_fourth.CASES,
    *cases_fifth.CASES,
    *cases_sixth.CASES,
    *cases_seventh.CASES,
    *cases_eighth.CASES,
    *cases_ninth.CASES,
    *cases_tenth.CASES,
    *cases_eleventh.CASES,
)

#: What the facts do not tell apart stays wrong.
UNKNOWN = {*cases_sixth.UNKNOWN, *cases_tenth.UNKNOWN, *cases_eleventh.UNKNOWN}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.thread)
def test_first_cause_and_its_cure(case: Case, tmp_path: Path) -> None:
    """The first cause is the thread's, and so is the command."""
    found = first(tmp_path, case.given)
    is_right = found is not None and case.right(found.rule, found.cure)
    assert is_right == (case.thread not in UNKNOWN), found


def test_threads_are_counted_once() -> None:
    """No thread stands for two of the cases."""
    threads = [case.thread for case in ALL]
    assert len(set(threads)) == len(threads) == 394
    assert set(cases_held_out.MISSED) < set(threads)
    assert all(case.address.startswith("https://") for case in ALL)


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(name: str, tmp_path: Path) -> None:
    """On a healthy machine there is neither problem nor warning."""
    assert first(tmp_path, HEALTHY[name]) is None


#: What the threads do not have: a machine for every other rule.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "no-board": ("--sim", {"soc": None, "driver": None, "lib": None, "python": "64 glibc x86"}),
    "chip-generation": ("--sim", {"soc": "rk3572", "driver": None, "lib": None}),
    "probe-failed": ("vendor", {"nodes": False, "log": "rknpu: probe of npu failed with error"}),
    "driver-not-loaded": ("modprobe rknpu", {
        "driver": None, "files": {"/lib/modules/6.1.75-rockchip/kernel/drivers/rknpu.ko": ""}}),
    "no-node": ("udevadm", {"nodes": False}),
    "forbidden-node": ("--privileged", {
        "container": True, "root": True, "log": "E RKNN: not supported, hw_version = -1"}),
    "no-heap": ("v1.6.0", {"interface": "misc", "heap": False}),
    "forbidden-heap": ("udev", {
        "interface": "misc", "owners": {"/dev/dma_heap/system": (0, 0, 0o600)}}),
    "library-damaged": ("wget", {"lib": "2.3.2 cut"}),
    "library-libc": ("bookworm", {"python": "64 musl"}),
    "library-chip": ("wheel-static", {
        "soc": "rv1106", "interface": "misc", "lib": None, "python": "32 glibc",
        "libs": {"/usr/lib/librknnrt.so": "2.3.2 32"}}),
    "model-generation": ("target_platform", {"model": "rknn1"}),
    "model-foreign": ("target_platform", {"model": "onnx"}),
    "model-target": ("target_platform", {"model": "rv1106 2.3.2", "soc": None}),
    "no-core-mask": ("wget", {"lib": "1.1.0 nomask"}),
    "model-encrypted": ("", {"model": "encrypted"}),
    "several-libraries": ("RKNN_RUNTIME_LIBRARY=/usr/lib/", {
        "libs": {"/usr/local/lib/librknnrt.so": "1.4.0"}}),
    "descriptors": ("ulimit", {"log": "E RKNN: failed to convert handle, Too many open files"}),
    "mini-memory": ("RkLunch-stop", {
        "soc": "rv1106", "interface": "misc", "root": True, "lib": "2.3.2 32",
        "python": "32 glibc", "log": "E RKNN: failed to allocate handle"}),
    "log-open": ("usermod", {"log": "E RKNN: failed to open rknn device!"}),
    "crash": ("wget", {"log": "Segmentation fault"}),
    **{rule: (cure, {"log": line}) for rule, cure, line in (
        ("module-of-other-kernel", "depmod", "rknpu: disagrees about version of symbol"),
        ("driver-refused", "full-upgrade", "E RKNN: Mismatch driver version, librknnrt 2.3.2 "
         "requires driver version >= 0.9.0, but you have driver version: 0.8.2"),
        ("driver-crashed", "full-upgrade", "pc : rknpu_job_done+0x40/0x128 [rknpu]"),
        ("driver-older", "full-upgrade", "W RKNN: Current driver version: 0.8.2, recommend to "
         "upgrade the driver to the new version: >= 0.9.2"),
        ("system-too-old", "bookworm", "python3: /lib/libc.so.6: version `GLIBC_2.34' not found"),
        ("missing-dependency", "libgl1",
         "ImportError: libGL.so.1: cannot open shared object file: No such file"),
        ("illegal-instruction", "ARMV8", "Illegal instruction (core dumped)"),
        ("simulator-refuses", "--sim", "E RKNN model that loaded by 'load_rknn' not support "
         "inference on the simulator, please set 'target' first!"),
        ("static-tls", "LD_PRELOAD=/lib/libgomp.so.1",
         "ImportError: /lib/libgomp.so.1: cannot allocate memory in static TLS block"),
        ("no-rknnlite", "rknn-toolkit-lite2", "ModuleNotFoundError: No module named 'rknnlite'"),
        ("model-damaged", "sha256sum", "E RKNN: parseRKNN: invalid RKNN_MAGIC!"),
        ("model-not-found", "realpath", "E RKNN: failed to open model: yolo.rknn"),
        ("operator-unknown", "wget", "E RKNN: Unsupport CPU op: GridSample in this librknnrt.so"),
        ("model-refused", "doctor model.rknn", "rknn_init fail! ret=-6"),
        ("call-refused", "info", "E RKNN: rknn_inputs_set, param input size(1) < model's(2)"),
        ("versions-differ", "wget",
         "W RKNN: RKNN Model version: 1.5.0 not match with rknn runtime version: 1.4.0"),
        ("out-of-memory", "swapon", "Out of memory: Killed process 7 (python3)"),
        ("iommu-fault", "info", "rk_iommu fdab9000.iommu: Page fault at 0x00000000ffff0000"),
        ("connection", "restart_rknn", "E NPUTransfer: Could not connect to rknn_server"),
        ("image-scaler", "-r", "rga_mm: RGA_MMU unsupported Memory larger than 4G!"),
        ("log-unknown", "", "E RKNN: something that nobody has seen"),
        ("no-power", "dtb", "rockchip-pm-domain: failed to get ack on domain 'npu', val=0x1ee"),
        ("not-executable", "chmod", "sh: ./rknn_yolov8_demo: Permission denied"),
        ("disk-full", "df", "cp: error writing 'model.rknn': No space left on device"),
        ("security-policy", "setenforce", "avc:  denied  { open } for  path=\"/dev/dri/card1\""),
        ("android-namespace", "jniLibs",
         "java.lang.UnsatisfiedLinkError: dlopen failed: library \"librknnrt.so\" not found"),
        ("managed-python", "venv", "error: externally-managed-environment"),
        ("python-symbols", "LD_PRELOAD", "ImportError: rknn.so: undefined symbol: PyFloat_Type"),
        ("no-pkg-resources", "setuptools", "ModuleNotFoundError: No module named 'pkg_resources'"),
        ("python-incomplete", "libffi-dev", "ModuleNotFoundError: No module named '_ctypes'"),
        ("page-size", "PAGESIZE", "ImportError: librga.so: ELF load command alignment not "
         "page-aligned"),
        ("executable-stack", "patchelf", "ImportError: x.so: cannot enable executable stack as "
         "shared object requires: Invalid argument"),
        ("no-threads", "seccomp", "RuntimeError: can't start new thread"),
        ("no-network", "date", "Temporary failure in name resolution"),
    )},
    **{rule: (cure, {"log": line}) for rule, cure, line in (
        ("program-symbol", "ldd", "symbol lookup error: ./demo: undefined symbol: _ZN2cv3MatC1Ev"),
        ("read-only", "remount", "cp: cannot create 'model.rknn': Read-only file system"),
        ("no-header", "-I", "main.cc:1:10: fatal error: rknn_api.h: No such file or directory"),
        ("no-command", "apt install adb", "bash: adb: command not found"),
        ("no-display", "DISPLAY", "qt.qpa.xcb: could not connect to display"),
        ("no-camera", "v4l2-ctl", "VIDEOIO(V4L2:/dev/video0): can't open camera by index"),
        ("no-picture", "realpath", "error: (-215:Assertion failed) !_src.empty() in function 'x'"),
        ("no-opencl", "opencl", "W RKNN: Failed to initialize the OpenCL runtime."),
        ("no-module", "pip install opencv", "ModuleNotFoundError: No module named 'cv2'"),
        ("wrong-wheel", "pip", "ERROR: x-1.0-cp38-cp38-linux_aarch64.whl is not a supported wheel"),
        ("program-without-rknn", "cmake", "Please compile with -DSHERPA_ONNX_ENABLE_RKNN=ON"),
        ("program-chip", "info", "Exception: Your SoC is not supported. Your SoC is: rk3567."),
        ("forbidden-file", "ls", "docker: permission denied while trying to connect to the daemon"),
        ("own-module", "mv", "ImportError: cannot import name 'x' from partially initialized "
         "module 'y' (most likely due to a circular import)"),
        ("package-version", "onnx<1.19", "AttributeError: module 'onnx' has no attribute "
         "'mapping'"),
    )},
    "library-folder": ("rmdir /usr/lib/librknnrt.so", {
        "lib": None, "files": {"/usr/lib/librknnrt.so/made-by-docker": ""}}),
    "library-older-than-chip": ("wget", {"soc": "rk3576", "lib": "1.6.0"}),
    "out-of-memory": ("free", {
        "model": "rk3588 2.3.2", "files": {"/proc/meminfo": "MemAvailable: 100 kB\n"}}),
    "hot": ("", {"files": {**CLOCKS, "/sys/class/thermal/thermal_zone0/temp": "95000"}}),
    "held-clock": ("grep", {"files": {**CLOCKS, f"{CPU}/scaling_max_freq": "816000"}}),
    "powersave": ("performance", {
        "files": {**CLOCKS, "/sys/class/devfreq/fdab0000.npu/governor": "powersave"}}),
}  # fmt: skip


#: A row each: the rule, a part of its command, the machine.
ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *((rule, *row) for rule, row in OTHERS.items()),
    ("forbidden-node", "--group-add 44", {"container": True, "groups": ()}),
    ("container-without-node", "--device /dev/dri", {"log": "docker: Error response from daemon: "
     "error gathering device information while adding custom device \"/dev/rknpu\": no such file"}),
    ("container-without-node", "lxc.mount.entry", {
        "nodes": False, "root": True, "files": {"/run/systemd/container": "lxc"}}),
    ("driver-not-loaded", "insmod /oem/usr/ko/rknpu.ko", {
        "soc": "rv1106", "driver": None, "interface": "misc", "python": "32 uclibc",
        "lib": "2.3.2 32 uclibc", "files": {"/oem/usr/ko/rknpu.ko": ""}}),
    ("module-of-other-kernel", "dkms", {
        "driver": None, "files": {"/lib/modules/6.1.43-old/kernel/rknpu.ko": ""}}),
    ("npu-disabled", "BOARD.dts", {
        "soc": "rv1106", "driver": None, "interface": "misc", "python": "32 uclibc",
        "lib": "2.3.2 32 uclibc", "files": {"/proc/device-tree/npu@ff660000/status": "disabled"}}),
    ("ported-driver", "vendor", {
        "kernel": "6.19.3", "log": "rknpu_iommu_dma_map_sg+0x18c/0x330 [rknpu]"}),
    ("powersave", "performance", {"files": {
        **CLOCKS, "/sys/class/devfreq/fdab0000.npu/governor": "userspace"}}),
    ("no-heap", "--device /dev/rknpu --device /dev/dma_heap", {
        "interface": "misc", "heap": False, "container": True, "root": True}),
    ("library-machine", "armhf", {"python": "32 glibc"}),
    ("library-damaged", "wget", {"log": "librknnrt.so: wrong ELF class: ELFCLASS32"}),
    ("model-generation", "target_platform", {"model": "rknn3"}),
    ("log-no-library", "export LD_LIBRARY_PATH=/opt", {
        "lib": None, "libs": {"/opt/librknnrt.so": "2.3.2"},
        "variables": {"LD_LIBRARY_PATH": "/opt"},
        "log": "./demo: librknnrt.so: cannot open shared object file"}),
    ("log-no-library", "ln -s /opt/librknnrt.so /usr/lib/librknnrt.so", {
        "lib": None, "libs": {"/opt/librknnrt.so": "2.3.2"},
        "variables": {"LD_LIBRARY_PATH": "/opt"}, "log": "Can not find dynamic library on RK3588"}),
    ("log-no-library", "ln -s /usr/lib/librknnrt.so /usr/lib/librknn_api.so", {
        "log": "./demo: librknn_api.so: cannot open shared object file: No such file"}),
    ("model-damaged", "git lfs", {"model": "html"}),
    ("log-open", "wget", {"lib": "1.1.0", "log": "E RKNN: failed to open rknn device!"}),
    ("driver-not-loaded", "sed -i '/rknpu/d' /etc/modprobe.d/npu.conf", {
        "driver": None, "files": {"/etc/modprobe.d/npu.conf": "# off\nblacklist rknpu\n"}}),
    ("driver-not-loaded", "/boot", {
        "driver": None, "files": {"/proc/cmdline": "quiet initcall_blacklist=rknpu_init"}}),
    ("module-unsigned", "sign-file", {
        "driver": None, "log": "Lockdown: modprobe: unsigned module loading is restricted"}),
    ("other-device-tree", "dtc", {
        "driver": None, "log": "failed on fdt_overlay_apply(): FDT_ERR_NOTFOUND"}),
    ("no-driver", "vendor", {
        "log": "modprobe: FATAL: Module rknpu not found in directory /lib/modules/6.12.1"}),
    ("forbidden-node", "keep-groups", {
        "container": True, "groups": (), "owners": {
            f"/dev/dri/{name}": (65534, 65534, 0o660) for name in ("card1", "renderD129")}}),
    ("forbidden-node", "DeviceAllow", {
        "log": "E RKNN: failed to open rknn device! errno: 1, errstr: Operation not permitted"}),
    ("forbidden-node", "DeviceAllow", {"log": "open /dev/dri/card1: Operation not permitted"}),
    ("no-board", "--sim", {
        "soc": None, "driver": None, "lib": None, "container": True, "kernel": "6.6.31-linuxkit"}),
    ("no-board", "--sim", {
        "soc": None, "driver": None, "lib": None, "container": True,
        "files": {"/proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"}}),
    *((rule, cure, {"log": line}) for rule, cure, line in (
        ("no-board", "--sim", "qemu: uncaught target signal 11 (Segmentation fault) - core dumped"),
        ("missing-dependency", "libusb-1.0-0-dev",
         "dlopen error libusb-1.0.so: cannot open shared object file: No such file or directory"),
        ("not-executable", "noexec",
         "ImportError: /tmp/x.so: failed to map segment from shared object"),
        ("not-executable", "sed", "-bash: ./run.sh: /bin/bash^M: bad interpreter: No such file"),
        ("not-executable", "venv", "-bash: ./pip: /old/bin/python3: bad interpreter: No such file"),
        ("security-policy", "unconfined", 'audit: apparmor="DENIED" operation="open" '
         'profile="docker-default" name="/dev/dri/card1" requested_mask="rw"'),
        ("security-policy", "seccomp", "Bad system call (core dumped)"),
        ("system-too-old", "libstdcxx-ng", "ImportError: /opt/miniconda3/lib/libstdc++.so.6: "
         "version `GLIBCXX_3.4.30' not found (required by cv2.so)"),
        ("connection", "adb push", "E RKNNAPI: rknn_init, msg_load_ack fail, ack = 1(ACK_FAIL)!\n"
         "E init_runtime: RKNN_ERR_MODEL_INVALID"),
        ("out-of-memory", "--shm-size", "RuntimeError: unable to allocate shared memory: "
         "insufficient shared memory (shm)"),
        ("numpy-abi", "upgrade numpy", "Importing the numpy C-extensions failed. Original error "
         "was: No module named 'numpy.core._multiarray_umath'"),
        ("no-module", "install cffi", "ModuleNotFoundError: No module named '_cffi_backend'"),
        ("no-power", "vendor", "RKNPU fdab0000.npu: failed to set voltage: -22"),
        ("hot", "", "reboot: HARDWARE PROTECTION shutdown (Temperature too high)"),
    )),
    *((rule, cure, {"log": line}) for rule, cure, line in (
        ("no-command", "install cmake", "CMake must be installed to build dlib"),
        ("no-command", "install gcc", "error: command 'gcc' failed: No such file or directory"),
        ("no-command", "install swig", "unable to execute 'swig': No such file or directory"),
        ("no-command", "install git", "Command 'git' not found, but can be installed with:"),
        ("wrong-wheel", "uname -m", "ERROR: onnx-1.1-cp310-cp310-win_amd64.whl is not a supported "
         "wheel on this platform."),
        ("wrong-wheel", "uname -m", "ERROR: lap-1-cp39-cp39-manylinux2014_armv7l.whl is not a "
         "supported wheel on this platform."),
        ("program-without-rknn", "cmake -DWITH_RKNN=ON", "rebuild the library with -DWITH_RKNN=ON"),
        ("core-mask", "AUTO", "E RKNN: core_mask 3 does not match the number of cores"),
    )),
    ("old-driver", "upgrade", {"driver": "0.9.6", "log": "E rkllm: attention run failed"}),
    ("old-driver-memory", "upgrade", {
        "driver": "0.9.6", "log": "ioctl(4, DRM_IOCTL_RKNPU_MEM_CREATE, 0x7f) = -1 ENOMEM"}),
    ("no-memory", "fuser", {"log": "ioctl(4, DRM_IOCTL_RKNPU_MEM_CREATE, 0x7f) = -1 ENOMEM"}),
    ("target-argument", "target='rk3566'", {
        "log": "E init_runtime: get target_platform is rk3588, while required target_platform = "
        "rk3566"}),
    ("connection", "rknn_server", {
        "soc": None, "driver": None, "lib": None, "python": "64 glibc x86",
        "log": "None devices connected."}),
    ("wrong-wheel", "pip debug", {
        "soc": None, "driver": None, "lib": None, "python": "64 glibc x86",
        "log": "ERROR: x-1.0-cp38-cp38-manylinux_2_17_x86_64.manylinux2014_x86_64.whl is not a "
        "supported wheel on this platform."}),
    ("no-library", "armhf-uclibc/librknnmrt.so", {
        "soc": "rv1106", "interface": "misc", "root": True, "lib": None, "python": "32 uclibc"}),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "cure", "given"), ROWS, ids=[row[0] for row in ROWS])
def test_rules_without_a_thread(
    rule: str, cure: str, given: dict[str, Any], tmp_path: Path
) -> None:
    """Each speaks first on a machine that has nothing else."""
    found = first(tmp_path, given)
    assert found is not None
    assert found.rule == rule
    assert cure in found.cure
