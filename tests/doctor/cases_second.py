"""Machines of public threads that were read after the rules had been reviewed: they judge these.

The rows were written and committed before any rule was run on them; a row names the rule that it
should be, also where there was none yet. At the first run 24 of these 41 were judged right. Of the
17 others six were the logs of a PC, which was told that it has no NPU; six had wordings that no
sign knew; for five there was no rule.
"""

from __future__ import annotations

from typing import Any

from doctor.cases import ALLOCATE, OPEN, PU2, RL, RT, ZOO
from doctor.machine import Case, case

LLM, RGA = "airockchip/rknn-llm", "airockchip/librga"
PC: dict[str, Any] = {
    "soc": None, "driver": None, "lib": None, "heap": False, "python": "64 glibc x86",
}  # fmt: skip
TRANSFER = "I NPUTransfer: Starting NPU Transfer Client, Transfer version 2.1.0\n"
GLIBC = "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.29' not found\n"
LOW = "W rkllm: Warning: Your rknpu driver version is too low, please upgrade to 0.9.7.\n"
ABOVE_4G = (
    "rga_mm: RGA_MMU unsupported memory larger than 4G!\n"
    "rga_mm: scheduler core[4] unsupported mm_flag[0x8]!\n"
)
WHEEL = "is not a supported wheel on this platform.\n"

CASES: tuple[Case, ...] = (
    # Who may use the NPU.
    case(f"{PU2}#134", "Orange Pi 5 Plus, the demo works with sudo alone",
         "forbidden-node", "usermod", groups=()),
    # Drivers.
    case("gnull/nixos-rk3588#4", "the distribution's upstream kernel has no driver of the vendor",
         "no-driver", "vendor", kernel="6.16.0", driver=None),
    case(f"{LLM}#187", "driver 0.8.2, the runtime asks for 0.9.7; matmul fails",
         "driver-refused", "upgrade", driver="0.8.2", log=LOW + "matmul run failed\n"),
    case("huonwe/rkllm_openai_like_api#2", "driver 0.8.2, 3 GB could not be allocated",
         "driver-refused", "upgrade", driver="0.8.2",
         log=f"{LOW}E RKNN: failed to allocate handle, ret: -1, errno: 14, errstr: Bad address\n"
         "E RKNN: failed to malloc npu memory, size: 3087138816, flags: 0x2\n"),
    case(f"{LLM}#68", "driver 0.9.6, no weight memory; newer driver and toolchain were the answer",
         "old-driver-memory", "upgrade", driver="0.9.6",
         log="E RKNN: failed to allocate handle, ret: -1, errno: 14, errstr: Bad address\n"
         "Error: iommu_context->weight_memory is NULL\nSegmentation fault\n"),
    # Chips.
    case("Zhou-sx/yolov5_Deepsort_rknn#5", "RK3399Pro with the library of the second generation",
         "chip-generation", "", soc="rk3399pro", driver=None, lib="1.2.0",
         log="E RKNN: failed to check rknpu hardware version: 0\n"
         "E RKNN: The rknn model does not match the RKNPU hardware version!\n"),
    case("rockchip-linux/rknpu#34", "RK3399Pro, libOpenVX of the first generation is missing",
         "chip-generation", "", soc="rk3399pro", driver=None, lib=None,
         log="E OSError: libOpenVX.so.1.2: cannot open shared object file\n"),
    case("rockchip-linux/rknpu#56", "RV1126 refuses a precompiled model",
         "chip-generation", "", soc="rv1126", driver=None, lib=None, files={"/dev/galcore": ""}),
    # Containers.
    case("invisiofficial/rk-llama.cpp#19", "Kubernetes, /dev/rknpu made a link to the DRM node",
         "linked-node", "rm /dev/rknpu", container=True, root=True, kernel="6.1.115-vendor",
         links={"/dev/rknpu": "dri/renderD129"}, log="E RKNN: hw_version = -1\n"),
    case("https://docs.xniupi.cn/6_AiDevelopment/RKNN-SDK%E8%AF%A6%E7%BB%86%E5%BC%80%E5%8F%91%E6%8C"
         "%87%E5%8D%97/10_%E5%B8%B8%E8%A7%81%E9%97%AE%E9%A2%98%E8%A7%A3%E7%AD%94.html",
         "what a container needs: node, device tree, library",
         "container-without-node", "--device /dev/dri", soc=None, container=True, root=True,
         nodes=False, driver=None, lib=None),
    # Libraries.
    case("radxa-docs/docs#881", "Rock 5C, the image came without the vendor's package",
         "no-library", "librknnrt.so", soc="rk3582", lib=None,
         log=f"{OPEN}E RKNN: Device is not available\n"),
    case(f"{ZOO}#444", "RKNNLite wants a function that the library lacks",
         "missing-symbol", "wget", lib="1.6.0",
         log="AttributeError: /usr/lib64/librknnrt.so: undefined symbol: rknn_get_run_time\n"),
    case(f"{RT}#572", "Ubuntu 26.04 has a newer libfmt than the library wants",
         "missing-dependency", "libfmt",
         log="librknnrt.so: libfmt.so.9: cannot open shared object file: No such file\n"),
    case(f"{LLM}#276", "the demo was built with a newer C library than the board's",
         "system-too-old", "",
         log="./llm_demo: /lib/aarch64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found "
         "(required by ./llm_demo)\n./llm_demo: /lib/aarch64-linux-gnu/libstdc++.so.6: version "
         "`GLIBCXX_3.4.32' not found (required by ./llm_demo)\n"),
    case("k2-fsa/sherpa-onnx#2233", "wheels of Ubuntu 24.04 on 20.04",
         "system-too-old", "",
         log="/lib/aarch64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found\n"),
    case(f"{PU2}#29", "PC with Ubuntu 18.04, the toolkit wants glibc 2.29",
         "system-too-old", "", **PC, log=f"E build: {GLIBC}"),
    case(f"{RL}#169", "the same; Ubuntu 20.04 was the answer",
         "system-too-old", "", **PC, log=f"E build: {GLIBC}"),
    case("triple-mu/AI-on-Board#3", "the same with toolkit 1.5.2",
         "system-too-old", "", **PC, log=f"E build: {GLIBC}"),
    # Python.
    case("radxa-docs/docs#345", "the PC's toolkit installed on a Rock 5C",
         "no-rknnlite", "rknn-toolkit-lite2", soc="rk3588s2",
         log=f"ERROR: rknn_toolkit2-1.6.0+81f21f4d-cp39-cp39-linux_x86_64.whl {WHEEL}"),
    case(f"{RT}#191", "the PC's toolkit installed on an Orange Pi 5",
         "no-rknnlite", "rknn-toolkit-lite2", soc="rk3588s",
         log=f"pip install rknn_toolkit2-2.2.0-cp310-cp310-manylinux_2_17_x86_64.whl {WHEEL}"),
    case(f"{RL}#268", "a web page of 6 kB in place of the wheel",
         "no-rknnlite", "rknn-toolkit-lite2", soc="rk3566",
         log="ERROR: Wheel 'rknn-toolkit-lite2' located at /tmp/rknn_toolkit_lite2-1.6.0-cp311"
         "-cp311-linux_aarch64.whl is invalid.\n"),
    case(f"{RL}#186", "rknnlite was installed into another Python",
         "no-rknnlite", "rknn-toolkit-lite2", lib="1.5.0",
         log="ModuleNotFoundError: No module named 'rknnlite'\n"),
    case("leafqycc/rknn-multi-threaded#3", "where does rknnlite come from",
         "no-rknnlite", "rknn-toolkit-lite2",
         log="ModuleNotFoundError: No module named 'rknnlite'\n"),
    case(f"{RT}#420", "init_runtime(target=...) on the board, which is for a PC with a cable",
         "target-argument", "init_runtime()",
         log="Exception: Unsupported run platform: Linux aarch64\n"),
    case(f"{ZOO}#116", "the toolkit of the first generation was to convert for RK3588",
         "first-toolkit", "rknn-toolkit2",
         log="W rknn-toolkit version: 1.7.5\nE The target_platform contains platforms that are not "
         "currently supported.\nUnsupport platforms: RK3588\n"),
    # From a PC, with a cable.
    case(f"{RL}#75", "the toolkit is newer than rknn_server on the board",
         "connection", "restart_rknn", **PC,
         log=f"{TRANSFER}E RKNNAPI: rknn_init,  msg_ioctl_ack fail, data_len = 104985, expect "
         "103961!\nException: RKNN init failed. error code: RKNN_ERR_DEVICE_UNAVAILABLE\n"),
    case(f"{RL}#2", "rknn_server does not answer",
         "connection", "restart_rknn", **PC,
         log=f"{TRANSFER}E RKNNAPI: rknn_init,  server connect fail!  ret = -9(ERROR_PIPE)!\n"
         "Exception: RKNN init failed. error code: RKNN_ERR_DEVICE_UNAVAILABLE\n"),
    case(f"{RT}#229", "rknn_server of an Android board is too old",
         "connection", "restart_rknn", **PC,
         log=f"{TRANSFER}E RKNNAPI: rknn_server version is too old, please update rknn_server to "
         "at least 2.3.0\n"),
    # Models.
    case(f"{RT}#405", "the file that was loaded is none", "model-damaged", "sha256sum",
         log="E RKNN: parseRKNN: invalid RKNN_MAGIC!\n"
         "E RKNN: parseRKNN from buffer: Invalid RKNN fromat!\n"),
    case(f"{RT}#482", "RV1106 has no Min on the CPU", "operator-unknown", "", soc="rv1106",
         interface="misc", root=True, lib="2.3.2 32 uclibc", python="32 uclibc",
         log="E RKNN: unsupport cpu Min op, op name: Min:functional_1 in current, please try "
         "updating to the latest version\nE RKNN: rknn fallback cpu failed\n"
         "rknn_init fail! ret=-1\n"),
    case("immich-app/immich#17098", "RK3566, a text model with CumSum", "operator-unknown", "",
         soc="rk3566", container=True, root=True, lib="2.3.0",
         log="E RKNN: Unsupport CPU op: CumSum in this librknnrt.so, please try to register custom "
         "op by calling rknn_register_custom_ops\n"),
    case(f"{RT}#538", "two custom operators, of which rknn_server takes one", "operator-unknown",
         "", log="E RKNN: Unsupport CPU op: Selu in this librknnrt.so, please try to register\n"
         "E RKNN: Unsupport CPU op: GridSample in this librknnrt.so, please try to register\n"),
    case(f"{ZOO}#288", "EdgeSAM by 2.3, the board has 1.6: Not cannot run", "operator-unknown",
         "wget", lib="1.6.0", model="rk3588 2.3.0",
         log="E RKNN: Meet unsupported not, dtype = 3\nE RKNN: Op type:Not, name: Not:/Not, "
         "fallback cpu failed. please try updating\nrknn_run fail! ret=-1\n"),
    # Runs.
    case(f"{RL}#226", "RK3568, too large; a model with fewer outputs was the answer",
         "no-memory", "", soc="rk3568", lib="1.5.2",
         log="Exception: RKNN init failed. error code: RKNN_ERR_MALLOC_FAIL\n"),
    case(f"{LLM}#522", "a second model beside the first", "no-memory", "fuser",
         log=f"{ALLOCATE}failed to malloc npu memory\nrkllm_init failed\nSegmentation fault\n"),
    # The image scaler.
    case(f"{RGA}#120", "RK3588, a project with RGA", "image-scaler", "", log=ABOVE_4G),
    case(f"{RGA}#133", "RK3568 with 8 GB", "image-scaler", "", soc="rk3568", log=ABOVE_4G),
    case("rockchip-linux/mpp#493", "RK3588, video buffers above 4 GB", "image-scaler", "",
         log=ABOVE_4G),
    case("1125962926/YOLO_RKNN_Acceleration_Program#1", "RK3588, a detection project",
         "image-scaler", "", log=ABOVE_4G),
    case(f"{PU2}#92", "the demo finds no /dev/rga, and crashes", "image-scaler", "-r",
         log="resize with RGA!\nfailed to open RGA:No such file or directory.\n"
         "Segmentation fault (core dumped)\n"),
    case(f"{PU2}#28", "the demo may not use /dev/rga; root may", "image-scaler", "usermod",
         lib="1.3.0", driver="0.6.4",
         log="sdk version: 1.3.0 driver version: 0.6.4\nresize with RGA!\n"
         "failed to open RGA:Permission denied.\nrga im2d: rga2 get info failed!\n"),
)  # fmt: skip
