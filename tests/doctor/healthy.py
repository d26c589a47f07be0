"""Machines on which nothing is wrong, whatever they print."""

from __future__ import annotations

from typing import Any

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
    "RK3566, 6.1.115: what its kernel always says": {
        "soc": "rk3566", "kernel": "6.1.115-vendor-rk35xx", "log":
        "RKNPU fde40000.npu: can't request region for resource [mem 0xfde40000-0xfde4ffff]\n"
        "RKNPU fde40000.npu: error -ENXIO: IRQ npu_irq not found\n"
        "RKNPU fde40000.npu: IRQ npu_irq not found\n"
        "vdd_npu: could not add device link fde40000.npu: -EEXIST\n"
        "vdd_npu: Failed to create debugfs directory\n"
        "[drm] Initialized rknpu 0.9.8 20240828 for fde40000.npu on minor 1\n",
    },
    "RK3588, modules of others, signed by nobody, and overlays of other devices": {
        "files": {"/var/log/kern.log":
        "rknpu: module verification failed: signature and/or required key missing - tainting "
        "kernel\nLoading of unsigned module is rejected\nOF: overlay: WARNING: memory leak will "
        "occur if overlay removed, property: /soc/status\ncreate_overlay: Failed to create "
        "overlay (err=-22)\naudit: apparmor=\"DENIED\" operation=\"open\" profile=\"snap.x\" "
        "name=\"/dev/dri/renderD128\"\n", "/etc/modprobe.d/other.conf": "blacklist panfrost\n",
        "/proc/cmdline": "module_blacklist=panfrost rknpu.bypass_irq_handler=0"},
    },
    "RK3588 that idles: the NPU at its lowest frequency": {
        "files": {**CLOCKS, "/sys/class/devfreq/fdab0000.npu/cur_freq": "300000000"},
    },
    "RK3588 with a driver that brought one such system down, and runs on many": {
        "kernel": "6.1.43-rockchip-rk3588", "driver": "0.9.3",
    },
    "RK3588, what pip and a compiler say of things that are no matter of ours": {
        "log": "error: command 'gcc' failed with exit status 1\nioctl(3, TCGETS, 0x7ff) = -1 "
        "ENOTTY\nI target set by user is: rk3588\n",
    },
    "RK3588, what TensorFlow and ONNX Runtime say of missing GPUs": {
        "log": "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: "
        "cannot open shared object file: No such file or directory\n"
        "Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.12: "
        "cannot open shared object file: No such file or directory\n",
    },
    "root's board with a second library for 32 bits": {
        "root": True, "libs": {"/usr/lib/arm-linux-gnueabihf/librknnrt.so": "2.3.2 32"}
    },
}  # fmt: skip
