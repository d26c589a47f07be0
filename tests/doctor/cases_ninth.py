"""Machines of a ninth search, by another collector who knew no rule either.

The rules were frozen before it, and had 31 of these 32 right at the first run. The miss was a
library that its user may not read: doctor asks the kernel that of a real one, and a machine in a
test could not say it then. Texts of repositories were searched for their words, a good part of them
advice, with causes that are told for certain; so the figure flatters. Notation: see `Case`.
"""

from __future__ import annotations

from doctor.cases import OPEN, REFUSED
from doctor.cases_fifth import found
from doctor.machine import Case, case

NO_LIB = (
    "error while loading shared libraries: librknnrt.so: cannot open shared object file: "
    "No such file or directory\n"
)
NO_LITE = "ModuleNotFoundError: No module named 'rknnlite'\n"
DIMS = "Exception: The input[0] need 4dims input, but 3dims input buffer feed.\n"
ABOVE = (
    "rga: RGA_MMU unsupported memory larger than 4G!\n"
    "rga: scheduler core[4] unsupported mm_flag[0x0]!\n"
)
LOW = "W rkllm: Warning: Your rknpu driver version is too low, please upgrade to 0.9.7\n"

CASES: tuple[Case, ...] = (
    case(found(67195075815, "device_node_is_openable"),
         "a server whose user is outside the group render", "forbidden-node", "re:render",
         groups=(), log=OPEN + "E RKNN: failed to open rknn device!\n"),
    case(found(68715844799, "NPU İzinlerini Onarma"),
         "RK3588, the user is in neither group of the nodes", "forbidden-node", "re:render",
         groups=(), log=OPEN),
    case("airockchip/rknn-llm#287", "Orange Pi 5 Pro, rights of the driver's nodes (and SELinux)",
         "forbidden-node", "", groups=(),
         owners={"/dev/dri/card1": (0, 0, 0o600), "/dev/dri/renderD129": (0, 0, 0o600)},
         log="rkllm_init failed, ret = -1\n"),
    case("https://github.com/immich-app/immich/pull/28216",
         "RK3588, a container whose librknnrt.so root alone may read, run by another user",
         "library-unreadable", "chmod",
         container=True, owners={"/usr/lib/librknnrt.so": (0, 0, 0o600)},
         log="E Catch exception when init runtime!\n"),
    case("airockchip/rknn-llm#17", "a language model of 1.8B wants over a thousand descriptors",
         "descriptors", "ulimit",
         log="E RKNN: failed to convert handle(1020) to fd, ret: -1, errno: 24, errstr: Too many "
         "open files\n"),
    case("sbwml/builder#93", "NanoPi R76S (RK3576), OpenWrt with musl, kernel 6.18 with rocket",
         "rocket-driver|library-libc", "", soc="rk3576", kernel="6.18.20", driver=None,
         interface="rocket", python="64 musl", root=True),
    case("https://github.com/siderolabs/sbc-rockchip/pull/117",
         "ROCK 5B, Talos: the extension is there, the overlay's device tree has no NPU",
         "other-device-tree|npu-disabled|rocket-driver", "re:dtb|device tree|overlay|vendor",
         kernel="6.18.39-talos", driver=None, interface="", described=False, root=True,
         files={"/sys/module/rocket/initstate": "live"}, log=OPEN),
    case(found(56960185656, "Mainline DTBs do not include an NPU node"),
         "Orange Pi 3B (RK3566), the module built for mainline, before the device tree was changed",
         "other-device-tree", "re:dtb|device tree|overlay", soc="rk3566",
         kernel="6.19.3-edge-rockchip64", driver=None, interface="", described=False, root=True,
         files={"/sys/bus/platform/drivers/RKNPU/bind": "",
                "/sys/module/rknpu/initstate": "live"}, log=OPEN),
    case(found(60938801877, "One board-DTS override"),
         "RV1106, kernel 6.18: the node is there and switched off", "npu-disabled",
         "", soc="rv1106", kernel="6.18.0", driver=None, interface="", described=False, root=True,
         lib=None, python="32 uclibc",
         libs={"/oem/usr/lib/librknnmrt.so": "2.3.0 mini 32 uclibc"},
         files={"/proc/device-tree/npu@ff660000/compatible": "rockchip,rv1106-rknpu",
                "/proc/device-tree/npu@ff660000/status": "disabled"}, log=OPEN),
    case(found(2957774645, "reflashing the distro and re-updating drivers"),
         "a system whose driver is broken; it was written anew, and drivers updated",
         "no-driver|driver-not-loaded|no-node", "re:vendor|image|kernel|modprobe", driver=None,
         log=OPEN + "E RKNN: failed to open rknn device!\n"),
    case(found(57944150095, "缺少RKNPU驱动"),
         "RK3588, the system has no driver of the NPU", "no-driver|driver-not-loaded",
         "re:vendor|modprobe|kernel", driver=None,
         log=OPEN + "E RKNN: failed to open rknn device!\nE RKNN: Device is not available\n"),
    case(found(3179057854, "Mainline 커널이면 OS 교체 필요"),
         "a board with mainline's kernel", "no-driver", "re:vendor", kernel="6.12.30",
         driver=None, log=OPEN + "E RKNN: failed to open rknn device!\n"),
    case(found(48002556103, "Extension not installed or Python environment not initialized"),
         "BrightSign (RK3588), the extension's environment was not entered", "no-rknnlite",
         "", log=NO_LITE),
    case(found(53971658176, "미설치 또는 Python 버전 불일치"),
         "RKNNLite is not installed", "no-rknnlite", "rknn-toolkit-lite2", log=NO_LITE),
    case(found(70847818620, "找不到 `rknnlite`"),
         "a car with an RK board, RKNNLite is not installed", "no-rknnlite",
         "rknn-toolkit-lite2", log=NO_LITE),
    case(found(55044187202, "原因：NPU 库路径未设置"),
         "the library lies in the program's sources", "no-library|missing-dependency",
         "re:LD_LIBRARY_PATH|librknnrt.so", lib=None, log=NO_LIB,
         libs={"/home/user/Qwen3-VL-2B-NPU-main/aarch64/library/librknnrt.so": "2.3.2"}),
    case(found(20157267657, "本项目根目录已包含该文件"),
         "RK3588, the library lies in the project's folder alone", "no-library|missing-dependency",
         "re:LD_LIBRARY_PATH|librknnrt.so", lib=None,
         libs={"/home/user/yolov11_obb/librknnrt.so": "2.3.2"},
         log="ImportError: librknnrt.so: cannot open shared object file: No such file\n"),
    case(found(52716670806, "运行时报错 \"librknnrt.so"),
         "the library lies in lib beside the program", "no-library|missing-dependency",
         "re:LD_LIBRARY_PATH|librknnrt.so", lib=None, log=NO_LIB,
         libs={"/home/user/demo/lib/librknnrt.so": "2.3.2"}),
    case(found(57620795092, "更稳定的做法是在构建时设置相对运行路径"),
         "RK3568, the example's library lies in its lib", "no-library|missing-dependency",
         "re:LD_LIBRARY_PATH|librknnrt.so", soc="rk3568", lib=None, log=NO_LIB,
         libs={"/install/example_Linux/lib/librknnrt.so": "1.6.0"}),
    case(found(70605253425, "adb push /usr/aarch64-linux-gnu/lib/libgomp.so.1"),
         "a board's image without OpenMP's library, which the demo wants",
         "missing-dependency|new: a library beside it is missing", "libgomp", root=True,
         log="./demo: error while loading shared libraries: libgomp.so.1: cannot open shared "
         "object file: No such file or directory\n"),
    case(found(70801053155, "DetectUav_RK3588"),
         "Orange Pi 5, the model is newer than the library", "model-too-new", "wget", lib="?",
         log=REFUSED),
    case(found(57711915487, "不要手动修改系统RKNN库"),
         "the system's library is too old for models of version 6, the program brings its own",
         "model-too-new|older-library-loaded", "re:wget|LD_LIBRARY_PATH|RKNN_RUNTIME_LIBRARY",
         lib="?", log=REFUSED),
    case(found(3179057854, "모델을 보드의 런타임 버전에 맞게 재변환"),
         "the toolkit is newer than the board's library", "model-too-new", "wget", lib="?",
         log=REFUSED),
    case(found(54639532775, "RKNN Runtime OS Platform Exception"),
         "Orange Pi 5, ROS 2: RKNNLite got a target", "target-argument", "init_runtime()",
         log="Exception: Unsupported run platform: Linux aarch64\n"
         "Failed to init_runtime with ret=-1\n"),
    case(found(55974891873, "因此，当前 INT8 异常不能简单归因于 runtime 版本不匹配"),
         "RK3588, an image without the batch's dimension", "call-refused", "info", log=DIMS,
         model="rk3588 2.3.2"),
    case(found(58627046698, "如果不确定，直接安装"),
         "RK3588, driver 0.8.2 under a runtime that asks for 0.9.7", "driver-refused|old-driver",
         "upgrade", driver="0.8.2", kernel="5.10.110",
         log=LOW + "I rkllm: rkllm-runtime version: 1.2.1b1, rknpu driver version: 0.8.2, "
         "platform: RK3588\nE rkllm: matmul(w8a8) run failed\n"),
    case(found(70993993953, "ReduceMin:/ReduceMin, fallback cpu failed"),
         "ReduceMin of 64-bit integers is not in the library; another operator took its place",
         "operator-unknown", "",
         log="E RKNN: Meet unsupported input dtype for ReduceMax\n"
         "E RKNN: Op type:ReduceMin, name: ReduceMin:/ReduceMin, fallback cpu failed.\n"),
    case(found(53518690406, "RKNN runtime doesn't support Ceil op on CPU"),
         "RK3576, a speech model with Ceil, which the library lacks", "operator-unknown", "",
         soc="rk3576", log="E RKNN: Unsupport CPU op: Ceil in this librknnrt.so\n"),
    case(found(62166732396, "Colour fill does not work on this board"),
         "RK3588S with 16 GB: a colour is filled by RGA2, which reaches the lower 4 GB",
         "image-scaler", "", soc="rk3588s",
         log=ABOVE + "rga: dst channel map job buffer failed!\n"
         "Failed to call RockChipRga interface\n"),
    case(found(60432095147, "ptr→handle 缓存"),
         "RK3566: pictures above 4 GB, which RGA2 refuses", "image-scaler", "", soc="rk3566",
         log="rga: RGA_MMU unsupported memory larger than 4G!\n"
         "RGA_BLIT fail: Invalid argument\n"),
    case(found(53780701075, "RGA + MPP 硬解码链路调试报告"),
         "Orange Pi 3B: decoded pictures lie above 4 GB, which RGA2 cannot map", "image-scaler",
         "", soc="rk3566", log="RgaBlit fail: Invalid argument\n" + ABOVE),
    case(found(58519881130, "问题分析"),
         "RGA refuses a buffer above 4 GB", "image-scaler", "",
         log=ABOVE + "rga_mm_map_dma_buffer core[2] map dma buffer error!\nRgaBlit failed\n"),
)  # fmt: skip
