"""Machines of public threads that were read after the rules were written: the half that judges.

The rows were written before any rule was run on them. At the first run 32 of these 37 were judged
right. `MISSED` has the others: of three the log had words that no rule knew, of one the command
was for a newer library in place of an older one, of one another rule came first. That was repaired
afterwards, so that they no longer judge anything.
"""

from __future__ import annotations

from doctor.cases import ALLOCATE, OPEN, RL, RT, SUBMIT, ZOO
from doctor.machine import Case, case

MISSED = (
    "alexw914/RK_VideoPipe#17", "LuckfoxTECH/luckfox_pico_rkmpi_example#1",
    "rockchip-linux/rknn-toolkit#440", "jaylfc/taOS#42", "PaddlePaddle/FastDeploy#1770",
)  # fmt: skip
TREE = "/proc/device-tree/npu@fde40000/status"

CASES: tuple[Case, ...] = (
    # Who may use the NPU.
    case(f"{RL}#49", "RK3568, works with sudo, or with other modes of the nodes",
         "forbidden-node", "usermod", soc="rk3568", kernel="4.19.232", lib="1.3.0", groups=(),
         log=OPEN),
    case("airockchip/rknn-llm#334", "an image that connects to no NPU; privileged helped",
         "container-without-node", "--device /dev/dri", container=True, root=True, nodes=False,
         log=OPEN),
    # Drivers.
    case("bigtreetech/CB2#86", "RK3566, the image's kernel has no driver; a package of it has",
         "no-driver", "apt install linux-image", soc="rk3566", driver=None),
    case("NotPunchnox/rkllama#27", "Ubuntu 24.10's mainline kernel has no driver",
         "no-driver", "linux-image-vendor", kernel="6.11.0-1006-rockchip", driver=None),
    case("MichaIng/DietPi#7301", "RK3566 on a mainline kernel",
         "no-driver", "linux-image-vendor", soc="rk3566", kernel="6.12.1", driver=None),
    case("home-assistant/operating-system#3089", "RK3568, no option of RKNPU in the kernel",
         "no-driver", "vendor", soc="rk3568", kernel="6.1.71-haos", driver=None, root=True),
    case("blakeblackshear/frigate#8382", "RK3568, the distribution has the NPU off; another works",
         "no-driver", "vendor", soc="rk3568", kernel="5.10.0-odroid", driver=None, root=True),
    case("ophub/amlogic-s9xxx-armbian#3496", "RK3566, kernel 6.1.141 built without the DRM node",
         "no-node", "linux-image-vendor", soc="rk3566", kernel="6.1.141-rk35xx", interface=""),
    case("radxa-docs/docs#661", "RK3566, the overlay that enables the NPU is hard to find",
         "npu-disabled", "rsetup", soc="rk3566", driver=None, files={TREE: "disabled"}),
    case("radxa-docs/docs#1383", "RK3566, the overlay does not show in the menu",
         "npu-disabled", "rsetup", soc="rk3566", driver=None, files={TREE: "disabled"}),
    case("armbian/linux-rockchip#334", "RK3566, no overlay, so neither driver nor node",
         "npu-disabled", "armbian-config", soc="rk3566", driver=None, files={TREE: "disabled"}),
    case("Qengineering/Radxa-Zero-3-NPU-Ubuntu22#1", "RK3566, an update switched the node off",
         "npu-disabled", "rsetup", soc="rk3566", driver=None, log=OPEN, files={TREE: "disabled"}),
    case("ophub/amlogic-s9xxx-armbian#1319", "RK3566, the NPU and its bus disabled",
         "npu-disabled", "armbian-config", soc="rk3566", driver=None, kernel="6.1.141-rk35xx",
         files={TREE: "disabled"}),
    # Chips.
    case(f"{ZOO}#191", "RV1126 is not of toolkit2", "chip-generation", "",
         soc="rv1126", driver=None, lib=None),
    case(f"{ZOO}#219", "RV1126 is not of toolkit2", "chip-generation", "",
         soc="rv1126", driver=None, lib=None),
    case("rockchip-linux/rknn-toolkit#265", "RK3399Pro wants libraries of its own",
         "chip-generation", "", soc="rk3399pro", driver=None, lib=None),
    # Libraries.
    case("radxa-docs/docs#612", "RK3588S2, nothing installed the library",
         "no-library", "librknnrt.so", soc="rk3588s2", lib=None,
         log="/usr/lib64/librknnrt.so: cannot open shared object file: No such file or directory"),
    case(f"{RT}#311", "OpenHarmony is musl, the library wants symbols of glibc",
         "library-libc", "", python="64 musl"),
    case(f"{RT}#247", "RV1106, the Ubuntu image starts no programs made for uClibc",
         "library-libc", "wheel-static", soc="rv1106", interface="misc", root=True,
         lib="2.3.0 32 uclibc", python="32 glibc"),
    # Models.
    case("rockchip-linux/rknn-toolkit#453", "RK3588, an example's model of the first toolkit",
         "model-generation", "target_platform", lib="1.5.0", driver="0.9.0", model="rknn1",
         log="E RKNN: Invalid RKNN format\nE RKNN: rknn_init, load model failed!"),
    case("alexw914/RK_VideoPipe#17", "RK3576, the project's model is for RK3588",
         "model-target", "'rk3576'", soc="rk3576",
         log="E RKNN: This rknn model is for RK3588, but current platform is RK3576"),
    case("leafqycc/rknn-cpp-Multithreading#18", "RK3568, the project's model is for RK3588",
         "model-target", "'rk3568'", soc="rk3568", lib="1.5.0", model="rk3588 1.4.0 v2"),
    case("HyperInspire/InspireFace#315", "RK3562, the model is for RK356X",
         "model-target", "'rk3562'", soc="rk3562", model="rk3568 2.3.0"),
    case("Applied-Deep-Learning-Lab/Yolov5_RK3588#11", "RK3568, the model is for RK3588",
         "model-target", "'rk3568'", soc="rk3568", lib="1.6.0", model="rk3588 1.6.0"),
    case("LuckfoxTECH/luckfox-pico#157", "RV1103, the image's library is older than the toolkit",
         "model-too-new", "librknnmrt", soc="rv1103", interface="misc", root=True,
         lib="1.4.0 32 uclibc", python="32 uclibc", model="rv1103 2.0.0",
         log="E RKNN: failed to decode config data!\nSegmentation fault (core dumped)"),
    case("LuckfoxTECH/luckfox_pico_rkmpi_example#1", "RV1106, model and library do not go together",
         "model-too-new", "", soc="rv1106", interface="misc", root=True, lib="? 32 uclibc",
         python="32 uclibc", log="E RKNN: failed to decode config data!"),
    case("rockchip-linux/rknn-toolkit#440", "an example built with an older header",
         "old-header", "", lib="1.6.0", driver="0.8.2",
         log="E RKNN: rknn_query, info_len(372) < sizeof(rknn_tensor_attr)(376)!"),
    # Runs.
    case(f"{RT}#294", "driver 0.9.2 runs on one core alone", "old-driver", "upgrade",
         driver="0.9.2", log=SUBMIT),
    case(f"{RL}#320", "driver 0.9.3 fails on two cores", "old-driver", "upgrade", driver="0.9.3",
         lib="1.6.0", model="rk3588 1.6.0", log=SUBMIT),
    case("rockchip-linux/rknpu2#123", "a board whose newer firmware repaired two cores",
         "old-driver", "upgrade", driver="0.9.2", lib="1.6.0", log=SUBMIT),
    case("rockchip-linux/rknpu2#121", "driver 0.9.2, core 1 hangs", "old-driver", "upgrade",
         driver="0.9.2", lib="1.5.2", log=SUBMIT),
    case("airockchip/rknn-llm#195", "two models at a time take more than the NPU's addresses",
         "no-memory", "fuser", log="E RKNN: failed to allocate handle, ret: -1, errno: 14, errstr: "
         "Bad address\n" + ALLOCATE),
    # A second reading, after the repair.
    case("MichaIng/DietPi#7856", "RK3566 on kernel 6.12, no module of the NPU",
         "no-driver", "linux-image-vendor", soc="rk3566", kernel="6.12.57", driver=None),
    case("istoreos/istoreos#2774", "RK3588, the module is there and not loaded by itself",
         "driver-not-loaded", "modprobe rknpu", kernel="6.6.93", driver=None,
         files={"/lib/modules/6.6.93/rknpu.ko": ""}),
    case("jaylfc/taOS#42", "a model by 2.3.0 crashes in 2.3.2, and runs in 2.3.0",
         "crash", "2.3.0", lib="2.3.2", model="rk3588 2.3.0", log="Segmentation fault"),
    case(f"{ZOO}#31", "an example crashes, toolkit and library are of different versions",
         "crash", "wget", lib="?", log="Segmentation fault"),
    case("PaddlePaddle/FastDeploy#1770", "RK3568 was given ONNX files",
         "model-foreign", "target_platform", soc="rk3568", lib="1.4.0", model="onnx",
         log="E RKNN: parseRKNN: invalid RKNN_MAGIC!"),
)  # fmt: skip
