"""Machines of a seventh search, collected by somebody who had read neither rules nor commands.

The truth is sometimes wider than one of the rules' names: see `Case.right`. The rows were written
before a rule was run on them, and the rules that stood then had 27 of these 32 right. So had the
rules that were written meanwhile by all that runtimes, linkers and pip can print, without a look at
these: they knew one more, and one that had been right they took for another. The misses were: a
crash of a driver that others had ported, the command for a module of another kernel, a driver's
version in other words, a device tree that no configuration tool of the board changes, and a node
with another number.
"""

from __future__ import annotations

from doctor.cases import OPEN, REFUSED, RL, ZOO
from doctor.cases_fifth import MINI, TIMEOUT, found
from doctor.machine import Case, case

WHEEL = "ERROR: {0} is not a supported wheel on this platform.\n"
BAD_ADDRESS = "E RKNN: failed to allocate handle, ret: -1, errno: 14, errstr: Bad address\n"
MALLOC = (
    "E RKNN: failed to malloc npu memory, size: {0}, flags: 0x2\nE RKNN: load model file error!\n"
)
LOW = "W rkllm: Warning: Your rknpu driver version is too low, please upgrade to 0.9.7\n"

CASES: tuple[Case, ...] = (
    case("immich-app/immich#17022", "RK3588, a release of the image went out without the library",
         "no-library", "librknnrt.so", container=True, lib=None,
         log="OSError: librknnrt.so: cannot open shared object file: No such file or directory\n"),
    case("armbian/build#9403", "ODROID-M1 (RK3568) with 8 GB, the IOMMU's tables lie above 4 GB",
         "high-memory", "mem=", soc="rk3568", kernel="6.18.8-current-rockchip64",
         files={"/proc/meminfo": "MemTotal: 7900000 kB\nMemAvailable: 6900000 kB\n"},
         log=TIMEOUT + "rk_iommu fde4b000.iommu: Page fault at 0x00000000ffe40000 of type read\n"),
    case(found(71012866442, "RK356X/mobilenet_v1.rknn 加载失败"),
         "RK3562, the image's own example is for RK3566", "model-target", "'rk3562'",
         soc="rk3562", kernel="5.10.198", driver="0.9.1", lib="1.5.1", model="rk3566 1.4.0",
         log="rknn_init fail! ret=-6\n"),
    case(found(61933094828, "RK3576 双核自动 0x7→0x3"), "RK3576, core mask 7 is RK3588's",
         "core-mask", "", soc="rk3576", model="rk3576 2.3.2",
         log="E RKNN: rknn_set_core_mask: unavailable core mask found for current platform! "
         "max core mask = 3\nrknn_set_core_mask failed: -5\n"),
    case("https://github.com/ei-ai/HAT/blob/main/errors/latency_dataset/latency_dataset.md",
         "a Radxa board, a sentence that is shorter than the model's input", "call-refused",
         "info", driver="0.9.6", lib="2.3.0", model="rk3588 2.3.0",
         log="E RKNN: rknn_inputs_set, param input size(184) < model input size(200)\n"
         "Exception: Set inputs failed. error code: RKNN_ERR_PARAM_INVALID\n"),
    case(found(69231187092, "param input size(409600) < model input size(1228800)"),
         "the program took the shape for NCHW, so the size lacks the channels",
         "call-refused", "info", model="rk3588 2.3.2", log="E RKNN: rknn_inputs_set, param "
         "input size(409600) < model input size(1228800)\nrknn_input_set fail! ret=-5\n"),
    case(found(57159551275, "RKNPU 驱动移植到 Armbian 6.19"),
         "RK3566, the vendor's driver built for kernel 6.19 crashes in a changed structure",
         "ported-driver", "", soc="rk3566", kernel="6.19.3-edge-rockchip64", root=True,
         log="Internal error: Oops: 0000000096000004 [#1] SMP\n"
         "pc : queued_spin_lock_slowpath+0x23c/0x440\nalloc_iova+0x84/0x288\n"
         "rknpu_iommu_dma_alloc_iova+0x8c/0xb0 [rknpu]\n"
         "rknpu_iommu_dma_map_sg+0x18c/0x330 [rknpu]\n"),
    case(found(57159551275, "vermagic 不匹配"),
         "RK3566, the module was built for another release than the kernel that runs",
         "new: the module is of another kernel", "re:headers|built|build|rebuild|dkms|version",
         soc="rk3566", kernel="6.19.3-edge-rockchip64", root=True, driver=None,
         log="rknpu: version magic '6.19.3 SMP preempt mod_unload aarch64' should be "
         "'6.19.3-edge-rockchip64 SMP preempt mod_unload aarch64'\n"
         "insmod: ERROR: could not insert module rknpu.ko: Invalid module format\n"),
    case(found(65805625131, "RKNN driver version(0.8.2) is not match with runtime version"),
         "Orange Pi 5, driver 0.8.2 under a runtime of 2.x", "driver-refused|old-driver",
         "upgrade", kernel="5.10.110-rockchip-rk3588", driver="0.8.2", lib="2.3.2",
         log="E RKNN: rknn_init, RKNN driver version(0.8.2) is not match with "
         "runtime version(2.3.2)\n"),
    case(found(65805625131, "indirilen `.whl` paketi (örn: cp310) uyuşmuyor"),
         "Orange Pi 5 with Python 3.12, the wheel is of 3.10", "no-rknnlite",
         "rknn-toolkit-lite2",
         log=WHEEL.format("rknn_toolkit_lite2-2.3.2-cp310-cp310-manylinux_2_17_aarch64.whl")),
    case(found(54685316034, "板端 RKNN 推理排查：`rknn_init` 返回 -7"),
         "RK3576, RKNNLite was given the board itself as a target", "target-argument",
         "init_runtime()", soc="rk3576", root=True, model="rk3576 2.3.2",
         log="I target set by user is: rk3576\n"
         "Exception: Unsupported run platform: Linux aarch64\n"),
    case(found(55748095502, "开发板开机后自动启动了旧的 AI demo 服务"),
         "RK3588, two demos that start with the board hold the NPU's addresses", "no-memory",
         "fuser", kernel="5.10.209", root=True,
         files={"/proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 6400000 kB\n"
                "CmaTotal: 524288 kB\nCmaFree: 516992 kB\n"},
         log=BAD_ADDRESS + MALLOC.format(93241344) + "RKNPU: failed to allocate IOVA: -12\n"
         "RKNPU fdab0000.npu: RKNPU: rknpu_gem_get_pages: dma map 93241344 fail\n"),
    case(found(56995076187, "Too old for RKLLM"),
         "Radxa, driver 0.8.2 multiplies wrongly", "driver-refused|old-driver", "upgrade",
         kernel="5.10.110-102-rockchip", driver="0.8.2", lib="2.2.0",
         log=LOW + "I rkllm: rkllm-runtime version: 1.2.3, rknpu driver version: 0.8.2, platform: "
         "RK3588\nE rkllm: matmul(w8a8) run failed\n"),
    case(found(59668680723, "el NPU es exclusivo"),
         "Kubernetes on RK1 (RK3588), a second pod beside the one that has loaded its model",
         "no-memory", "fuser", container=True, root=True, kernel="6.1.115-vendor-rk35xx",
         files={"/proc/meminfo": "MemTotal: 32000000 kB\nMemAvailable: 24000000 kB\n"},
         log=BAD_ADDRESS + MALLOC.format(1834221568) + "E rkllm: rkllm_init failed\n"),
    case(found(69029720252, "rk3568-npu-enable.dtbo.disabled"),
         "Radxa Zero 3 with Radxa OS: the overlay that enables the NPU is switched off",
         "npu-disabled", "re:rsetup|overlay|u-boot-update", soc="rk3566", driver=None,
         kernel="6.1.84-7-rk2410", files={"/proc/device-tree/npu@fde40000/status": "disabled"},
         log=OPEN),
    case(f"{RL}#6", "RK3566, library and toolkit of different versions",
         "model-too-new|versions-differ", "wget",
         soc="rk3566", driver="0.4.2", kernel="4.19.172", lib="1.0.0", model="rk3566 1.1.0",
         log="I RKNN: set log level to 0\nE RKNN: Invalid RKNN format\n"
         "E RKNN: rknn_query, load_model failed\nrknn_init fail! ret=-1\n"),
    case(found(60385908860, "原 Web 虚拟环境无法导入 `cv2`"),
         "Orange Pi 5 Ultra, the Python parts were never installed", "no-rknnlite",
         "rknn-toolkit-lite2", kernel="5.10.160-rockchip-rk3588", driver="0.9.6", lib="2.3.2",
         log="ModuleNotFoundError: No module named 'rknnlite'\n"),
    case(found(68439542155, "rknn-toolkit-lite2` does not bundle its own copy"),
         "Orange Pi 5, the image's library is of 2022", "model-too-new", "wget", root=True,
         lib="1.4.0", model="rk3588 2.3.2",
         log="I RKNN: RKNN Runtime Information: librknnrt version: 1.4.0 (a10f100eb@2022-09-09)\n"
         + REFUSED),
    case(found(62297137935, "Demo_Tires/tire_demo_rk3568"),
         "RK3568, an image without the batch's dimension", "call-refused", "info", soc="rk3568",
         model="rk3568 2.3.0",
         log="E Catch exception when setting inputs.\n"
         "Exception: The input[0] need 4dims input, but 3dims input buffer feed.\n"),
    case(found(30271579245, "RKNN 模块错误解决方案"),
         "a container that has RKNNLite, the program wants the PC's toolkit", "no-rknnlite",
         "re:rknnlite|rknn-toolkit-lite2", container=True, root=True,
         log="Traceback (most recent call last):\n  from rknn.api import RKNN\n"
         "ModuleNotFoundError: No module named 'rknn'\n"),
    case(found(67093872798, "别让 compose 只透传 render 节点"),
         "RK3588, a container was given the render nodes and not the card's",
         "container-without-node", "--device /dev/dri", container=True, root=True, nodes=False,
         files={"/dev/dri/renderD128": "", "/dev/dri/renderD129": ""}, log=OPEN),
    case(found(59446488180, "The NPU has never had a device node on any unit"),
         "RV1106, the product's device tree has the NPU off", "npu-disabled",
         "re:device tree|dts|dtb|overlay|status", **{**MINI, "driver": None},
         files={"/proc/device-tree/npu@ff660000/status": "disabled",
                "/proc/device-tree/npu@ff660000/compatible": "rockchip,rv1106-rknpu",
                "/oem/usr/ko/rknpu.ko": ""}, log=OPEN),
    case(found(53127417282, "RKNN runtime falls back to CPU in Kubernetes pod"),
         "Kubernetes on RK1 (RK3588), a pod that sees no /proc/device-tree", "hidden-device-tree",
         "re:systempaths=unconfined|procMount|[Uu]nmasked|privileged", soc=None, container=True,
         root=True, kernel="6.1.115-vendor-rk35xx"),
    case("istoreos/istoreos#2703", "RK3576 without a display: renderD128 is the NPU, and the "
         "program in the container wants renderD129",
         "container-without-node|new: the NPU is renderD128 here", "re:renderD128|/dev/dri",
         soc="rk3576", kernel="6.6.93", interface="", root=True,
         files={"/sys/class/drm/card0/device/uevent": "DRIVER=RKNPU\n",
                "/sys/class/drm/renderD128/device/uevent": "DRIVER=RKNPU\n",
                "/dev/dri/renderD128": ""},
         log="docker: Error response from daemon: error gathering device information while adding "
         "custom device \"/dev/dri/renderD129\": no such file or directory.\n"),
    case(found(67592665587, "RKNN_SPLIT_FACTOR"),
         "Rock 5C (RK3588S2), a model of 9 GB has no piece of the NPU's addresses left",
         "no-memory", "", soc="rk3588s", kernel="6.1.115-vendor-rk35xx",
         files={"/proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 5400000 kB\n"
                "CmaTotal: 262144 kB\nCmaFree: 250000 kB\n"},
         log="RKNPU: failed to allocate IOVA: -12\n"
         "RKNPU fdab0000.npu: RKNPU: rknpu_gem_get_pages: dma map 11272192 fail\n"),
    case("https://huggingface.co/jxke/Qwen1.5-4B-chat-rkllm",
         "Firefly RK3588, a language model of 6B opens a thousand buffers",
         "new: too many open files", "re:ulimit|LimitNOFILE|nofile", kernel="5.10.110",
         driver="0.8.2", log="rkllm-runtime version: 1.0.1, rknpu driver version: 0.8.2, platform: "
         "RK3588\nE RKNN: failed to convert handle(1020) to fd, ret: -1, errno: 24, errstr: Too "
         "many open files\n"),
    case("https://blog.csdn.net/qq_50645064/article/details/138508260",
         "Orange Pi 5 Plus, a wheel for Python 3.9 in a Python 3.7", "no-rknnlite",
         "rknn-toolkit-lite2", log=WHEEL.format(
             "rknn_toolkit_lite2-1.6.0-cp39-cp39-linux_aarch64.whl")),
    case("https://blog.csdn.net/phoenixlxl/article/details/138447263",
         "RKNNLite 2.0.0b0 with a library of the image", "model-too-new", "wget", lib="1.5.0",
         driver="0.9.2", kernel="5.10.160", log="E RKNN: invalid rknn model version 6\n"
         "RuntimeError: Init runtime environment failed\n"),
    case(f"{ZOO}#231", "RK3588, an example with --target on the board", "target-argument",
         "init_runtime()", log="E init_runtime: Unsupported run platform: Linux aarch64\n"
         "Exception: Unsupported run platform: Linux aarch64\n"),
    case("rockchip-linux/rknpu#22", "Tinker Edge R (RK3399Pro) with the library of RK1808",
         "chip-generation", "", soc="rk3399pro", kernel="4.4.194", driver=None, lib=None,
         log="Failed to open device: No such file or directory, Try again...\n"
         "_OpenDevice(1091): FATAL: Failed to open device, errno=No such file or directory\n"),
    case("https://git.reauktion.de/marfrit/rosenblatt/raw/branch/main/docs/npu-mainline-status.md",
         "RK3588, mainline 7.0: the three cores' nodes are disabled, no driver is loaded",
         "npu-disabled|no-driver|rocket-driver|other-device-tree", "", kernel="7.0.0-rc3",
         driver=None, interface="", described=False, nodes=False, log=OPEN, files={
             f"/proc/device-tree/npu@{core}0000/{what}": text
             for core in ("fdab", "fdac", "fdad")
             for what, text in (("compatible", "rockchip,rk3588-rknn-core"),
                                ("status", "disabled"))}),
    case("https://github.com/anand34577/ggml-rknpu2/wiki/Troubleshooting#npu-access",
         "RK3576, the user is not of the group render", "forbidden-node", "usermod",
         soc="rk3576", groups=(), log=OPEN),
)  # fmt: skip
