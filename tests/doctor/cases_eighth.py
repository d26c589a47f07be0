"""Machines of an eighth search, collected as those of the seventh, by somebody who knew no rule.

Written down, and not looked at, before the rules were frozen that had learned from the seventh set:
those had 29 of these 32 right. The misses were: a program that opens libdrm by a name which only
Debian's -dev package has, a kernel that takes signed modules alone, and a server on the board that
is older than the toolkit on the PC. Notation: see `Case`.
"""

from __future__ import annotations

from doctor.cases import OPEN, REFUSED, RL, ZOO
from doctor.cases_fifth import MINI, TIMEOUT, found
from doctor.cases_second import PC
from doctor.cases_seventh import BAD_ADDRESS, LOW, MALLOC, WHEEL
from doctor.machine import Case, case

CASES: tuple[Case, ...] = (
    case(f"{RL}#110", "Orange Pi with Python 3.10, the wheels of 1.4.0 are for 3.7 and 3.9",
         "no-rknnlite", "rknn-toolkit-lite2", kernel="5.10.110-rockchip-rk3588", driver="0.8.2",
         lib="1.4.0", log=WHEEL.format("rknn_toolkit_lite2-1.4.0-cp39-cp39-linux_aarch64.whl")),
    case("unifreq/linux-5.10.y-rk35xx#6", "OpenWrt's kernel 5.10, built without RKNPU's option",
         "no-driver", "re:CONFIG_ROCKCHIP_RKNPU|vendor|kernel", kernel="5.10.160-rk35xx-flippy",
         driver=None, log=OPEN),
    case(found(10581343932, "malloc(): unsorted double linked list corrupted"),
         "RK3576, a third worker asks for a third core, of which there are two", "core-mask", "",
         soc="rk3576", root=True,
         log="E RKNN: unavailable core mask found for current platform! max core mask = 3\n"),
    case("https://github.com/koush/scrypted/blob/main/plugins/rknn/README.md",
         "RK3588S, a container that sees no /proc/device-tree", "hidden-device-tree",
         "systempaths=unconfined", soc=None, container=True, root=True,
         log="FileNotFoundError: [Errno 2] No such file or directory: "
         "'/proc/device-tree/compatible'\n"),
    case(found(18113525386, "Unsupport CPU op: CumSum in this librknnrt.so, please try"),
         "RK3588, library 2.0.0, a transformer with CumSum of toolkit 2.3.0", "operator-unknown",
         "", driver="0.9.6", lib="2.0.0", model="rk3588 2.3.0",
         log="W RKNN: RKNN Model version: 2.3.0 not match with rknn runtime version: 2.0.0\n"
         "E RKNN: Unsupport CPU op: CumSum in this librknnrt.so, please try to register custom op "
         "by calling rknn_register_custom_ops or please try updating to the latest version\n"),
    case(found(57497596229, "yolo_fb_detect 测试记录"),
         "RV1106, inference fails while the camera streams, and works when they take turns",
         "camera-contends", "", **MINI,
         log="E RKNN: failed to submit!, op id: 21, op name: Conv:/model.6/cv2/conv/Conv\n"
         "rknn_run fail! ret=-1\nRKNPU: wait time: 6150513us\nRKNPU: job timeout\n"
         "RKNPU: soft reset\nrkisp_hw ffa00000.rkisp: isp working\n"),
    case(found(57159551275, "7.5. IOMMU 模式推理失败调试与 non-IOMMU 方案"),
         "RK3566, the same port: no task ends before the NPU's IOMMU is switched off",
         "ported-driver", "", soc="rk3566", kernel="6.19.3-edge-rockchip64", root=True,
         log="E RKNN: failed to submit, op id: 1, op name: Conv:Conv2d_0/Relu6, flags: 0x5, "
         "task start: 0, task number: 53, run task counter: 0, int status: 0\n"
         "RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = 0\n"
         "RKNPU: job timeout, flags: 0x0:\nRKNPU: core 0 irq status: 0x0, raw status: 0x10000, "
         "require mask: 0x300, task counter: 0x0\nRKNPU: soft reset, num: 2\n"),
    case(found(59130271293, "fetch-rkllm-runtime.sh --current"),
         "RK3588, the library lies in the sources of the program alone",
         "no-library|missing-dependency", "re:LD_LIBRARY_PATH|librknnrt.so", lib=None,
         libs={"/home/user/rk-llama.cpp/ggml/src/ggml-rknpu2/libs/librknnrt.so": "2.3.2"},
         log="error while loading shared libraries: librknnrt.so: cannot open shared object file: "
         "No such file or directory\n"),
    case(found(65805625131, "Adım 2'deki C kütüphanesi sisteme kopyalanmadı"),
         "Orange Pi 5, the library was not copied", "no-library", "librknnrt.so", lib=None,
         log="ImportError: librknnrt.so: cannot open shared object file: No such file\n"),
    case(found(61141291007, "sudo ln -s ~/rknn-toolkit2/rknpu2/runtime/Linux"),
         "RK3576, the library lies in a clone of the vendor's repository", "no-library",
         "librknnrt.so", soc="rk3576", lib=None,
         libs={"/home/user/rknn-toolkit2/rknpu2/runtime/Linux/librknn_api/aarch64/librknnrt.so":
               "2.3.2"}, model="rk3576 2.3.2",
         log="librknnrt.so: cannot open shared object file: No such file or directory\n"),
    case(found(56798513528, "broken platform detection"),
         "RK3588, RKNNLite with a target; a wrapper of the C functions runs", "target-argument",
         "init_runtime()", lib="2.3.2", model="rk3588 2.3.2",
         log="E Catch exception when init runtime!\n"
         "Exception: Unsupported run platform: Linux aarch64\n"),
    case(found(58760241651, "boot-backup-before-rknpu-upgrade"),
         "Orange Pi, driver 0.9.6 has no memory for 4 GB of weights, a newer kernel's 0.9.8 has",
         "old-driver-memory|driver-refused|old-driver", "upgrade",
         kernel="6.1.43-rockchip-rk3588", driver="0.9.6",
         files={"/proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 14000000 kB\n"},
         log=LOW + "I rkllm: rkllm-runtime version: 1.2.3, rknpu driver version: 0.9.6, platform: "
         "RK3588\n" + MALLOC.format(4022272000) + "E rkllm: rkllm_init failed\n"),
    case(found(56044472835, "R8 SDK 恢复与 RKNPU 0.9.8 替换"),
         "ATK-DLRK3588, driver 0.9.2 under a runtime that asks for 0.9.7",
         "driver-refused|old-driver-memory|old-driver", "upgrade", kernel="5.10.160",
         driver="0.9.2", root=True,
         log=LOW + "I rkllm: rkllm-runtime version: 1.3.0, rknpu driver version: 0.9.2, platform: "
         "RK3588\n" + BAD_ADDRESS + MALLOC.format(4022272000) + "E rkllm: rkllm_init failed\n"),
    case(found(66583701178, "Выгружать TE перед UNet"),
         "three models of a pipeline in the NPU at a time", "no-memory", "fuser", lib="2.3.2",
         log=MALLOC.format(1725956096)),
    case(f"{ZOO}#17", "RK3588, the demo loads libdrm.so by a path that the image has not",
         "missing-dependency", "libdrm",
         driver="0.8.2", lib="1.4.0",
         log="dlopen failed! libdrm.so: cannot open shared object file: No such file or directory\n"
         "libdrm open failed!\n"),
    case(found(60385908860, "仅设置 `LD_LIBRARY_PATH` 无法覆盖硬编码路径"),
         "Orange Pi 5 Ultra, RKNNLite takes /usr/lib's 1.4.0, the older program has its own 1.5.3",
         "model-too-new", "wget", kernel="5.10.160-rockchip-rk3588", driver="0.9.6", lib="1.4.0",
         libs={"/opt/rk3588-camera/releases/20260813/package/lib/librknnrt.so": "1.5.3"},
         model="rk3588 2.3.2", log=REFUSED),
    case(found(60385908860, "新版板端 Lite API 要求显式 batch 维度"),
         "Orange Pi 5 Ultra, an image without the batch's dimension", "call-refused", "info",
         kernel="5.10.160-rockchip-rk3588", driver="0.9.6", lib="2.3.2", model="rk3588 2.3.2",
         log="Exception: The input[0] need 4dims input, but 3dims input buffer feed.\n"),
    case(found(53927498625, "ImportError: cv2 找不到 _ARRAY_API"),
         "RK3588, OpenCV of NumPy 1 beside NumPy 2", "numpy-abi", "numpy<2",
         log="AttributeError: _ARRAY_API not found\n"
         "ImportError: numpy.core.multiarray failed to import\n"),
    case("https://github.com/minsea01/rk-app/search?q=RKNNLite导入失败",
         "RK3588, the package of the board was not installed", "no-rknnlite",
         "rknn-toolkit-lite2", log="ModuleNotFoundError: No module named 'rknn'\n"),
    case(found(55663748882, "blacklist-rocket.conf"),
         "Orange Pi 5 Pro, mainline's rocket took the NPU before the vendor's driver",
         "rocket-driver", "re:vendor|blacklist|rknpu", soc="rk3588s",
         kernel="6.18.9-current-rockchip64", driver=None, interface="rocket", log=OPEN),
    case(found(60913623541, "The fix that took it from probe-fail to PASS"),
         "RV1106, the driver ported to 6.18 asks for its interrupt by a name that the tree lacks",
         "probe-failed|other-device-tree|ported-driver",
         "re:interrupt-names|device tree|dtb|vendor", soc="rv1106", kernel="6.18.0", root=True,
         driver=None, lib=None, python="32 uclibc",
         libs={"/oem/usr/lib/librknnmrt.so": "2.3.0 mini 32 uclibc"},
         files={"/sys/bus/platform/drivers/RKNPU/bind": ""},
         log="RKNPU ff660000.npu: error -ENXIO: IRQ npu_irq not found\n"
         "RKNPU ff660000.npu: probe with driver RKNPU failed with error -6\n" + OPEN),
    case(found(53127417282, "key was rejected by service"),
         "Talos on RK1 (RK3588): the module is not signed with the key of the kernel",
         "module-unsigned", "re:sign|signature|key",
         kernel="6.18.18-talos", driver=None, interface="misc", root=True,
         log="Loading of module with unavailable key is rejected\n"
         "error loading module \"rknpu\": load rknpu failed: key was rejected by service\n" + OPEN),
    case(found(53127417282, "sub-cores 1/2 never fire IRQ"),
         "Talos on RK1 (RK3588), the driver without an IOMMU: core 0 alone works",
         "ported-driver|core-mask", "", kernel="6.18.22-talos", interface="misc", root=True,
         log="RKNPU fdab0000.rknpu: RKNPU: rknpu iommu device-tree entry not found!, using "
         "non-iommu mode\nRKNPU fdab0000.rknpu: RKNPU: Initialized RKNPU driver: v0.9.8\n"
         "E RKNN: failed to submit!, op id: 1, op name: Conv, flags: 0x5, task start: 0\n"
         "RKNPU: core 1 irq status: 0x0, raw status: 0x0, require mask: 0x300, task counter: 0x0, "
         "elapsed time: 6176579us\nRKNPU: job timeout, flags: 0x0\nRKNPU: soft reset, num: 1\n"),
    case(found(14133231541, "Why Patching the Vendor SDK Failed"),
         "Youyeetoo R1 (RK3588S), driver 0.8.2 of kernel 5.10; the answer was an image of 6.1",
         "driver-refused|old-driver", "upgrade", soc="rk3588s", kernel="5.10.110",
         driver="0.8.2", lib="2.3.2",
         log=LOW + "I rkllm: rkllm-runtime version: 1.2.2, rknpu driver version: 0.8.2, platform: "
         "RK3588\nE rkllm: matmul(w8a8) run failed\n"),
    case(found(62014224329, "步骤 25：确认 RKLLM Runtime 的最低驱动要求"),
         "RK3588, driver 0.8.2 under a runtime that asks for 0.9.7", "driver-refused|old-driver",
         "upgrade", driver="0.8.2", kernel="5.10.110", root=True,
         log=LOW + "I rkllm: rkllm-runtime version: 1.3.0, rknpu driver version: 0.8.2, platform: "
         "RK3588\nrkllm init success\nE rkllm: matmul(w8a8) run failed\n"),
    case("https://github.com/mack42/OrangePi5Pro/releases/tag/v1.5.1",
         "Orange Pi 5 Pro, mainline: the overlay with the vendor's node lies where u-boot does not "
         "look, so the driver is loaded and binds nothing",
         "other-device-tree", "re:dtb|overlay|device tree", soc="rk3588s",
         kernel="6.18.20-current-rockchip64", nodes=False, interface="", described=False,
         driver=None, log=OPEN, files={
             "/sys/bus/platform/drivers/RKNPU/bind": "",
             "/sys/module/rknpu/initstate": "live",
             "/proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknn-core",
             "/proc/device-tree/npu@fdab0000/status": "okay"}),
    case("https://blog.csdn.net/w1002285542/article/details/137108960",
         "Orange Pi 5, library 1.4.0 of the image, the example's model is of 1.6.0",
         "model-too-new", "wget", soc="rk3588s", kernel="5.10.110-rockchip-rk3588", driver="0.8.2",
         lib="1.4.0", model="rk3588 1.6.0",
         log="I RKNN: RKNN Runtime Information: librknnrt version: 1.4.0 (a10f100eb@2022-09-09)\n"
         + REFUSED),
    case("https://blog.csdn.net/qq_16792139/article/details/132319721",
         "RK3588, library 1.3.0 and a model of 1.4.0: it warns, runs, and hangs after a while",
         "versions-differ|model-too-new", "wget", lib="1.3.0", driver="0.7.2",
         kernel="5.10.66", model="rk3588 1.4.0 v1",
         log="I RKNN: RKNN Runtime Information: librknnrt version: 1.3.0 (c193be371@2022-05-04)\n"
         "I RKNN: RKNN Driver Information: version: 0.7.2\n"
         "W RKNN: RKNN Model version: 1.4.0 not match with rknn runtime version: 1.3.0\n"),
    case("https://blog.csdn.net/c2793/article/details/136977349",
         "a PC over adb: rknn_server and the library on the board are older than the toolkit",
         "connection", "re:rknn_server|restart_rknn", **PC,
         log="I target set by user is: rk3588\nE RKNNAPI: rknn_init, msg_load_ack fail, ack = 1"
         "(ACK_FAIL), expect 0(ACK_SUCC)!\nE init_runtime: Exception: RKNN init failed. error "
         "code: RKNN_ERR_MODEL_INVALID\n"),
    case("https://github.com/gahingwoo/kiln/releases/tag/v0.1.0",
         "ROCK 4D (RK3576), mainline with the vendor's driver beside it: of the NPU's two IOMMUs "
         "mainline drives one, every job times out", "ported-driver", "", soc="rk3576",
         kernel="7.1.3", root=True, log=TIMEOUT),
    case("https://github.com/anand34577/ggml-rknpu2/wiki/Troubleshooting#npu-driver",
         "Armbian with mainline's kernel, whose rocket driver the runtime cannot use",
         "rocket-driver", "re:armbian-config|vendor", kernel="6.18.21-current-rockchip64",
         driver=None, interface="rocket", log=OPEN),
    case("https://github.com/mack42/OrangePi5Pro/releases/tag/v1.5.1#3",
         "Orange Pi 5 Pro, mainline: the overlay calls its interrupts other names than the driver",
         "probe-failed|other-device-tree|ported-driver",
         "re:interrupt-names|device tree|dtb|vendor", soc="rk3588s", driver=None,
         kernel="6.18.20-current-rockchip64", nodes=False,
         files={"/sys/bus/platform/drivers/RKNPU/bind": "",
                "/sys/module/rknpu/initstate": "live"},
         log="RKNPU fdab0000.npu: error -ENXIO: IRQ npu0_irq not found\n"
         "RKNPU fdab0000.npu: probe with driver RKNPU failed with error -6\n" + OPEN),
)  # fmt: skip
