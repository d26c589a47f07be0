"""Machines that public threads tell of: the first cause and the command that repairs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor import (
    cases,
    cases_fifth,
    cases_fourth,
    cases_held_out,
    cases_second,
    cases_seventh,
    cases_sixth,
    cases_third,
)
from doctor.machine import Case, build
from rknn_runtime.doctor.diagnosis import gather, judge
from rknn_runtime.doctor.rule import Observation


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
)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.thread)
def test_first_cause_and_its_cure(case: Case, tmp_path: Path) -> None:
    """The first cause is the thread's, and so is the command."""
    found = first(tmp_path, case.given)
    assert found is not None
    is_right = case.right(found.rule, found.cure)
    assert is_right == (case.thread not in cases_sixth.UNKNOWN), found


def test_threads_are_counted_once() -> None:
    """No thread stands for two of the cases."""
    threads = [case.thread for case in ALL]
    assert len(set(threads)) == len(threads) == 279
    assert set(cases_held_out.MISSED) < set(threads)
    assert all(case.address.startswith("https://") for case in ALL)


#: What a healthy kernel prints, "can't request region" included: boards of many threads have it.
HARMLESS = (
    "RKNPU fdab0000.npu: Adding to iommu group 0\n"
    "RKNPU fdab0000.npu: RKNPU: rknpu iommu is enabled, using iommu mode\n"
    "RKNPU fdab0000.npu: can't request region for resource [mem 0xfdab0000-0xfdabffff]\n"
    "[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1\n"
    "RKNPU fdab0000.npu: failed to find power_model node\n"
    "RKNPU fdab0000.npu: RKNPU: failed to initialize power model\n"
    "I RKNN: RKNN Runtime Information, librknnrt version: 2.3.2 (429f97ae6b@2025-04-09)\n"
)
STATIC_SHAPE = (
    "W Query dynamic range failed. Ret code: RKNN_ERR_MODEL_INVALID. (If it is a static shape "
    "RKNN model, please ignore the above warning message.)\n"
)
MEMORY = {"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n"}
CPU = "/sys/devices/system/cpu/cpufreq/policy0"
CLOCKS = {
    f"{CPU}/scaling_governor": "ondemand",
    f"{CPU}/scaling_cur_freq": "408000",
    f"{CPU}/scaling_max_freq": "1800000",
    f"{CPU}/cpuinfo_max_freq": "1800000",
    "/sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand",
    "/sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000",
    "/sys/class/devfreq/fdab0000.npu/max_freq": "1000000000",
    "/sys/class/devfreq/fdab0000.npu/available_frequencies": "300000000 1000000000",
    "/sys/class/thermal/thermal_zone0/type": "soc-thermal",
    "/sys/class/thermal/thermal_zone0/temp": "52000",
}
HEALTHY: dict[str, dict[str, Any]] = {
    "RK3588, DRM driver": {"log": HARMLESS, "files": {**MEMORY, **CLOCKS}, "model": "rk3588 2.3.2"},
    "RK3588S, Orange Pi, access by video alone": {"soc": "rk3588s", "groups": (44,)},
    "RK3566, driver 0.7.2, older model": {
        "soc": "rk3566", "driver": "0.7.2", "lib": "2.3.0", "model": "rk3566 1.6.0",
        "kernel": "4.19.232",
    },
    "RK3568, 8 GB, no reports of failures": {
        "soc": "rk3568", "lib": "1.6.0", "files": MEMORY, "model": "rk3568 1.6.0"
    },
    "RK3576, misc driver with its heap": {
        "soc": "rk3576", "interface": "misc", "model": "rk3576 2.3.2"
    },
    "RK3588, misc driver, old runtime without a heap": {
        "interface": "misc", "heap": False, "lib": "1.5.2"
    },
    "RV1106, Buildroot with uClibc": {
        "soc": "rv1106", "interface": "misc", "root": True, "kernel": "5.10.160", "heap": False,
        "lib": None, "libs": {"/oem/usr/lib/librknnmrt.so": "2.3.2 mini 32 uclibc"},
        "python": "32 uclibc", "model": "rv1106 2.3.2",
        "log": "RKNPU ff660000.npu: RKNPU: rknpu iommu is disabled, using non-iommu mode\n",
    },
    "RV1106, Ubuntu with a glibc build": {
        "soc": "rv1106g3", "interface": "misc", "root": True, "lib": "1.6.0 mini 32",
        "python": "32 glibc", "model": "rv1106 1.6.0",
    },
    "PC with the simulated NPU": {
        "soc": None, "driver": None, "lib": None, "python": "64 glibc x86", "sim": True,
        "model": "rk3588 2.3.2", "heap": False,
    },
    "container with its devices": {"container": True, "root": True, "model": "rk3588 2.3.2"},
    "container of the misc driver": {
        "container": True, "root": True, "interface": "misc", "soc": "rk3562"
    },
    "RK3562, whose driver speaks of what is not there (rockchip-linux/kernel#371)": {
        "soc": "rk3562", "log": "[drm] Initialized rknpu 0.9.8 for ff300000.npu on minor 1\n"
        "RKNPU ff300000.npu: RKNPU: failed to get dynamic-coefficient\n"
        "RKNPU ff300000.npu: RKNPU: nbuf region: [0xfe400000, 0xfe440000), nbuf size: 0x40000\n",
    },
    "RK3588, other devices run out of CMA (armbian/linux-rockchip#241), and of RGA's 4 GB": {
        "files": {"/var/log/kern.log": "cma: cma_alloc: cma: alloc failed, req-size: 512 pages, "
                  "ret: -12\nrga_mm: RGA_MMU unsupported memory larger than 4G!\n"},
    },
    "RK3588, a mainline kernel with the vendor's driver built for it": {
        "kernel": "6.12.20-current-rockchip64",
        "files": {"/lib/modules/6.12.20-current-rockchip64/updates/dkms/rknpu.ko.xz": ""},
    },
    "RK3588, mainline with rocket, on the simulated NPU": {
        "kernel": "6.18.2", "driver": None, "interface": "rocket", "lib": None, "heap": False,
        "sim": True, "model": "rk3588 2.3.2",
    },
    "RK3568, Android: another libc, a folder of its own, no groups": {
        "soc": "rk3568", "kernel": "4.19.232", "interface": "misc", "root": True, "lib": None,
        "libs": {"/vendor/lib64/librknnrt.so": "1.5.2 bionic"}, "python": "64 bionic",
        "files": {"/etc/group": ""}, "heap": False, "model": "rk3568 1.5.2",
    },
    "RK3576, Yocto: /usr/lib64, no debugfs, root": {
        "soc": "rk3576", "root": True, "lib": None, "libs": {"/usr/lib64/librknnrt.so": "2.3.2"},
        "files": {"/sys/kernel/debug/rknpu/version": ""}, "model": "rk3576 2.3.2",
    },
    "RK3566, 32-bit system on a 64-bit chip": {
        "soc": "rk3566", "python": "32 glibc", "lib": "2.3.2 32", "model": "rk3566 2.3.2",
    },
    "RV1126B, misc driver": {"soc": "rv1126b", "interface": "misc", "root": True},
    "RV1103, Buildroot, the linker's own folder": {
        "soc": "rv1103", "interface": "misc", "root": True, "heap": False, "python": "32 uclibc",
        "lib": "1.6.0 32 uclibc", "model": "rv1103 1.6.0",
    },
    "LXC container of a server, access by a group of its number": {
        "container": True, "groups": (44,), "owners": {"/dev/dri/renderD129": (0, 993, 0o660)},
        "files": {"/run/systemd/container": "lxc"},
    },
    "Radxa Rock 5T: what RKNNLite says of a static model": {
        "model": "rk3588 2.3.2", "log": f"{STATIC_SHAPE}I RKNN: RKNN Driver Information, version: "
        "0.9.8\nI RKNN: RKNN Model Information, version: 6, toolkit version: 2.3.2\n",
    },
    "LubanCat-3, RK3576, the same": {
        "soc": "rk3576", "model": "rk3576 2.3.2", "log": STATIC_SHAPE,
    },
    "RK3588 of a maker, with rknn_server, all of one version": {
        "driver": "0.9.8", "files": {
            "/proc/412/comm": "rknn_server", "/proc/device-tree/npu@fdab0000/status": "okay",
            "/proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknpu"},
        "model": "rk3588 2.3.2",
    },
    "RK3588, what librknnrt warns of while all is well": {
        "model": "rk3588 2.3.2", "log":
        "W RKNN: query RKNN_QUERY_INPUT_DYNAMIC_RANGE error, rknn model is static shape type, "
        "please export rknn with dynamic_shapes\n"
        "W RKNN: Output(0): size_with_stride larger than model origin size, if need run "
        "OutputOperator in NPU, please call rknn_create_memory using size_with_stride.\n"
        "W RKNN: NHWC output tensor alloc size 21 < npu run need size 32, current output run in "
        "cpu, please alloc enough memory to make it run in npu\n"
        "W RKNN: rknn_set_input_shape is deprecated next version! please call "
        "rknn_set_input_shapes()\nW RKNN: Failed to get NPU freq, take 1000MHz as default\n",
    },
    "RK3576, what OpenCV, GTK and pip warn of": {
        "soc": "rk3576", "model": "rk3576 2.3.2", "log":
        "W The input[0] need NHWC data format, but NCHW set, the data format and data buffer will "
        "be changed to NHWC.\nQStandardPaths: XDG_RUNTIME_DIR not set\n"
        "Gtk-Message: Failed to load module \"canberra-gtk-module\"\n"
        "GStreamer warning: Cannot query video position: status=0\n"
        "WARNING: The script f2py is installed in '/home/a/.local/bin' which is not on PATH.\n"
        "/usr/lib/python3/dist-packages/numpy/core/getlimits.py:500: UserWarning: The value of "
        "the smallest subnormal is zero.\n"
        "libEGL warning: MESA-LOADER: failed to open rknpu: /usr/lib/dri/rknpu_dri.so: cannot open "
        "shared object file: No such file or directory\n",
    },
    "RK3568, a module of others that starts at the second try": {
        "soc": "rk3568", "files": {"/var/log/kern.log":
        "rknpu: loading out-of-tree module taints kernel.\n"
        "RKNPU fde40000.npu: RKNPU: failed to get vdd regulator for rknpu: -517\n"
        "RKNPU fde40000.npu: supply rknpu not found, using dummy regulator\n"
        "RKNPU fde40000.npu: RKNPU: could not find sram resource!\n"
        "[drm] Initialized rknpu 0.9.8 20240828 for fde40000.npu on minor 1\n"
        "systemd[1]: nginx.service: open() failed: Permission denied\n"
        "sh: adb: command not found\nbrcmfmac: firmware not found\n"
        "usb 1-1: device descriptor read/64, error -71\n"},
    },
    "root's board with a second library for 32 bits": {
        "root": True, "libs": {"/usr/lib/arm-linux-gnueabihf/librknnrt.so": "2.3.2 32"}
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_no_false_alarm(name: str, tmp_path: Path) -> None:
    """On a healthy machine there is neither problem nor warning."""
    assert first(tmp_path, HEALTHY[name]) is None


#: What the threads do not have: a machine for every other rule.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "no-board": ("--sim", {"soc": None, "driver": None, "lib": None, "python": "64 glibc x86"}),
    "rknn3-chip": ("--sim", {"soc": "rk3572", "driver": None, "lib": None}),
    "probe-failed": ("vendor", {"nodes": False, "log": "rknpu: probe of npu failed with error"}),
    "driver-not-loaded": ("modprobe rknpu", {
        "driver": None, "files": {"/lib/modules/6.1.75-rockchip/kernel/drivers/rknpu.ko": ""}}),
    "no-node": ("udevadm", {"nodes": False}),
    "unknown-hardware": ("--privileged", {
        "container": True, "root": True, "log": "E RKNN: not supported, hw_version = -1"}),
    "no-heap": ("v1.6.0", {"interface": "misc", "heap": False}),
    "forbidden-heap": ("udev", {
        "interface": "misc", "owners": {"/dev/dma_heap/system": (0, 0, 0o600)}}),
    "library-cut": ("wget", {"lib": "2.3.2 cut"}),
    "library-libc": ("bookworm", {"python": "64 musl"}),
    "library-chip": ("wheel-static", {
        "soc": "rv1106", "interface": "misc", "lib": None, "python": "32 glibc",
        "libs": {"/usr/lib/librknnrt.so": "2.3.2 32"}}),
    "log-no-elf": ("wget", {"log": "librknnrt.so: wrong ELF class: ELFCLASS32"}),
    "model-rknn1": ("target_platform", {"model": "rknn1"}),
    "model-rknn3": ("target_platform", {"model": "rknn3"}),
    "model-foreign": ("target_platform", {"model": "onnx"}),
    "model-container": ("target_platform", {"model": "rv1106 2.3.2", "soc": None}),
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
        ("program-library", "libgl1",
         "ImportError: libGL.so.1: cannot open shared object file: No such file"),
        ("illegal-instruction", "ARMV8", "Illegal instruction (core dumped)"),
        ("simulator-refuses", "--sim", "E RKNN model that loaded by 'load_rknn' not support "
         "inference on the simulator, please set 'target' first!"),
        ("static-tls", "LD_PRELOAD=/lib/libgomp.so.1",
         "ImportError: /lib/libgomp.so.1: cannot allocate memory in static TLS block"),
        ("no-rknnlite", "rknn-toolkit-lite2", "ModuleNotFoundError: No module named 'rknnlite'"),
        ("log-no-model", "sha256sum", "E RKNN: parseRKNN: invalid RKNN_MAGIC!"),
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
        ("android-policy", "setenforce", "avc:  denied  { open } for  path=\"/dev/dri/card1\""),
        ("android-namespace", "jniLibs",
         "java.lang.UnsatisfiedLinkError: dlopen failed: library \"librknnrt.so\" not found"),
        ("managed-python", "venv", "error: externally-managed-environment"),
        ("python-symbols", "LD_PRELOAD", "ImportError: rknn.so: undefined symbol: PyFloat_Type"),
        ("no-pkg-resources", "setuptools", "ModuleNotFoundError: No module named 'pkg_resources'"),
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
        ("wrong-wheel", "pip", "ERROR: x-1.0-cp38-cp38-linux_x86_64.whl is not a supported wheel"),
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
    "little-memory": ("free", {
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
    ("log-no-library", "export LD_LIBRARY_PATH=/opt", {
        "lib": None, "libs": {"/opt/librknnrt.so": "2.3.2"},
        "variables": {"LD_LIBRARY_PATH": "/opt"},
        "log": "./demo: librknnrt.so: cannot open shared object file"}),
    ("log-no-library", "ln -s /opt/librknnrt.so /usr/lib/librknnrt.so", {
        "lib": None, "libs": {"/opt/librknnrt.so": "2.3.2"},
        "variables": {"LD_LIBRARY_PATH": "/opt"}, "log": "Can not find dynamic library on RK3588"}),
    ("log-no-library", "ln -s /usr/lib/librknnrt.so /usr/lib/librknn_api.so", {
        "log": "./demo: librknn_api.so: cannot open shared object file: No such file"}),
    ("model-pointer", "git lfs", {"model": "html"}),
    ("log-open", "wget", {"lib": "1.1.0", "log": "E RKNN: failed to open rknn device!"}),
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
