"""Machines of a fifth search, by a rule that was fixed before: half to learn from, half to count.

Hardly a thread of the trackers was left unread, so this set also has what people wrote into public
repositories about a trouble that they had and what repaired it; the address of such a file is a
search for words of it, and the number behind it is the file's in the index where it was found.

What qualifies, as written down before any was judged:

- a program was to load or run a model on an NPU of the second generation; neither conversion, nor
  accuracy, nor RKLLM, nor the first generation's own troubles;
- facts are shown that a probe reads: lines of a log, versions, nodes, groups, the device tree;
- the cause is told by whoever had it, or accepted, and the repair worked; no list of guesses;
- what the facts cannot show (a wrong type that was set without a message) is left out;
- of several files that tell one trouble of one project the first that was found.

Even numbers are the half to learn from (`LEARNED`), odd ones the half that counts (`COUNTED`).
Rows name the rule that it should be, also where there was none yet, and were committed before a
rule was run on them. At the first run 18 of the 25 and 18 of the 26 were right (a nineteenth, when
a wrong machine was mended). The misses of both halves were seen, and the rules written by them:
what counts is the sixth set. The search was by words of errors, of which many were known to the
rules already, so the figure flatters: it says how well known errors are told apart, less how many
unknown ones there are.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from doctor.cases import OPEN, REFUSED, RT
from doctor.machine import Case, case

MINI: dict[str, Any] = {
    "soc": "rv1106", "interface": "misc", "root": True, "lib": "2.3.0 32 uclibc",
    "python": "32 uclibc", "kernel": "5.10.160",
}  # fmt: skip
MISSING = "error while loading shared libraries: librknnrt.so: cannot open shared object file\n"
TARGET = "Exception: Unsupported run platform: Linux aarch64\nFailed to init_runtime with ret=-1\n"
MAGIC = (
    "E RKNN: parseRKNN: invalid RKNN_MAGIC!\nE RKNN: parseRKNN from buffer: Invalid RKNN format\n"
)
TIMEOUT = (
    "E RKNN: failed to submit!, op id: 1, op name: Conv, flags: 0x5, task start: 0\n"
    "RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = 0, elapsed time: 6226553us\n"
    "RKNPU: job timeout, flags: 0x0:\nRKNPU: soft reset, num: 2\n"
)


def found(number: int, words: str) -> str:
    """The address of a file in a public repository: a search for words that it has."""
    return f"https://github.com/search?type=code&q={quote(chr(34) + words + chr(34))}#{number}"


LEARNED: tuple[Case, ...] = (
    case(found(65870187014, "主线逐核心设备树"),
         "the vendor's module binds nothing, as the device tree is mainline's",
         "other-device-tree", "dtb", kernel="6.18.0", nodes=False, interface="", log=OPEN,
         described=False,
         driver=None, files={
             "/sys/bus/platform/drivers/RKNPU/bind": "",
             "/proc/device-tree/npu@fdab0000/compatible": "rockchip,rk3588-rknn-core",
             "/proc/device-tree/npu@fdab0000/status": "okay"}),
    case(found(53127417282, "rknpu module fails to load — missing device tree node"),
         "Talos: the driver finds no node in the device tree, which is another board's",
         "other-device-tree", "dtb", kernel="6.18.1-talos", driver=None, nodes=False,
         described=False, files={
             "/lib/modules/6.18.1-talos/extras/rknpu.ko": "",
             "/proc/device-tree/gpu@fb000000/status": "okay"}),
    case(found(53113130200, "CONFIG_DMABUF_HEAPS not set"),
         "Talos: a DRM driver built for a mainline kernel, which has no DMA heaps",
         "no-heap", "v1.6.0", kernel="6.18.1-talos", heap=False, root=True, log=OPEN),
    case(found(53127417282, "RKNPU_MEM_CREATE returns -ENOSYS"),
         "Talos: the driver was built without what allocates",
         "ported-driver", "", kernel="6.18.1-talos", root=True,
         log="E RKNN: failed to allocate fd, ret: -1, errno: 38, errstr: Function not implemented\n"
         "E RKNN: failed to malloc npu memory, size: 6120, flags: 0xa\n"),
    case(found(42495997946, "fix for Invalid RKNN model version 6"),
         "RK3566, the image's library is older than the model", "model-too-new", "wget",
         soc="rk3566", lib="?", log=REFUSED),
    case(found(62554527706, "Orange Pi 1.2.0 Jammy"), "Orange Pi 5, library 1.4.0 of the image",
         "model-too-new", "wget", soc="rk3588s", lib="1.4.0", model="rk3588 2.3.2", log=REFUSED),
    case(found(59933190868, "rk3588_voice_assistant_ros2"), "YOLO26 in library 1.4.0",
         "model-too-new", "wget", lib="1.4.0", log=REFUSED),
    case(found(58832774326, "edge-rknn-yolo-smoke.service"),
         "RK3576, a service whose user is in no group of the nodes", "forbidden-node",
         "usermod -a -G video,render", soc="rk3576", groups=(),
         log=OPEN + "E RKNN: failed to open rknn device!\nrknn_init error ret=-1\n"),
    case(found(67081634474, "These models were recovered from old Git history"),
         "RK3588, a model for RK3566", "model-target", "'rk3588'", model="rk3566 2.3.0",
         log="E RKNN: This rknn model is for RK3566, but current platform is RK3588\n"),
    case(found(70221678052, "car_report_yolo.launch.py"),
         "the model came over as zeros; it was copied again", "model-damaged", "sha256sum",
         model="zeros", log=MAGIC),
    case(found(60885822370, "shelf_v6_s_fgd_qat_int8.rknn"),
         "the image's library lacks a function that RKNNLite 2.3.2 asks for", "missing-symbol",
         "wget", lib="1.2.0 nomask",
         log="AttributeError: /usr/lib/librknnrt.so: undefined symbol: rknn_set_core_mask\n"),
    case(found(68338288192, "RT-DETRv2-S经过混合量化"), "RT-DETR, GridSample cannot run",
         "operator-unknown", "", log="E RKNN: Unsupport CPU op: GridSample in this librknnrt.so\n"),
    case(found(71236523240, "UNSUPPORTED_OPS = {\"IsNaN\"}"), "IsNaN cannot run in 2.3",
         "operator-unknown", "", lib="2.3.0",
         log="E RKNN: Unsupport CPU op: IsNaN in this librknnrt.so, please try to register\n"),
    case(found(58004484028, "neuro_pipeline_edge"),
         "the library lies in the program's folder, where the linker does not look",
         "no-library", "librknnrt.so", lib=None,
         libs={"/opt/neuro-pipeline/lib/librknnrt.so": "2.3.0"}, log=MISSING),
    case(found(68985957838, "本项目未在麒麟 V10 上逐一验证"), "a container without the library",
         "no-library", "librknnrt.so", lib=None, container=True, root=True, log=MISSING),
    case(found(11188268920, "rk3588_yolo:local"), "a container without the library, RKNNLite",
         "no-library", "-v ", lib=None, container=True, root=True,
         log="Exception: Can not find dynamic library on RK3588!\n"),
    case(found(49067462186, "rk356x_yolov8s.rknn model/bus.jpg"),
         "RK3568, the demo's library lies beside it", "no-library", "librknnrt.so", soc="rk3568",
         lib=None, log="./rknn_yolov8_demo: " + MISSING),
    case(found(59660484168, "act_ros2_rknn.rknn"),
         "OpenHarmony, RKNNLite looks in /usr/lib, the library is in /vendor/lib64",
         "log-no-library", "/usr/lib/librknnrt.so", root=True, lib=None, python="64 bionic",
         libs={"/vendor/lib64/librknnrt.so": "2.3.2 bionic"},
         log="Exception: Can not find dynamic library on RK3588!\nPlease download the librknnrt.so "
         "from https://github.com/airockchip/rknn-toolkit2 and move it to directory /usr/lib/\n"),
    case(found(55991390310, "RK3588 上缺少 numpy / pip / rknnlite"), "RKNNLite is not installed",
         "no-rknnlite", "rknn-toolkit-lite2",
         log="ModuleNotFoundError: No module named 'rknnlite'\n"),
    case(found(54844429432, "rknn-toolkit-lite2` 平台检测 bug"), "RK3576, a target was given",
         "target-argument", "init_runtime()", soc="rk3576", log=TARGET),
    case(found(55068391478, "问题三：RKNN 模型版本不匹配"),
         "library 2.1.0, model of 2.3.2: scores are all zero; converted by 2.1.0 it works",
         "versions-differ", "wget", lib="2.1.0",
         log="W RKNN: RKNN Model version: 2.3.2 not match with rknn runtime version: 2.1.0\n"),
    case(found(51788943334, "Module loads, but probe blocks on IRQ registration"),
         "Talos, mainline 6.18: the driver that was built for it fails to start", "probe-failed",
         "vendor", kernel="6.18.22-talos", driver=None, nodes=False,
         files={"/sys/module/rknpu/initstate": "live"},
         log="RKNPU fdab0000.npu: error -EINVAL: request_irq(147) rknpu_core1_irq_handler [rknpu]\n"
         "RKNPU fdab0000.npu: RKNPU: request npu1_irq failed: -22\n"
         "RKNPU fdab0000.npu: probe with driver RKNPU failed with error -22\n"),
    case(found(56665511064, "QSM368ZP-WF"), "RK3568, library 1.4.0, model of 2.3.2",
         "model-too-new", "wget", soc="rk3568", lib="1.4.0", model="rk3568 2.3.2",
         log=REFUSED + "rknn_init fail! ret=-1\n"),
    case(found(53871017522, "qwen3_asr_encoder_single_chunk_rk3588.rknn"),
         "CM3588, the model is a pointer of Git LFS", "model-damaged", "git lfs pull", model="lfs",
         log=MAGIC),
    case(found(58988071030, "rk3566_rknn_nn_demo"), "RK3566 was given an ONNX file",
         "model-foreign", "target_platform", soc="rk3566", model="onnx", log=MAGIC),
)  # fmt: skip

COUNTED: tuple[Case, ...] = (
    # Who may use the NPU.
    case(found(68538272601, "leak_repro.py --model yolov8n.rknn"),
         "reCamera Pro (RV1126B), /dev/rknpu is root's alone", "forbidden-node", "udev",
         soc="rv1126b", interface="misc", owners={"/dev/rknpu": (0, 0, 0o600)}, log=OPEN),
    case(found(53630650381, "coursework-opcua-inference-client-1"),
         "the user is in render, not in video; root may", "forbidden-node", "usermod",
         groups=(105,), log=OPEN),
    case(found(66669182707, "SupplementaryGroups=video"),
         "RK3588 Ubuntu, a service whose user is not in video", "forbidden-node", "usermod",
         groups=(), owners={"/dev/dri/renderD129": (0, 44, 0o660)},
         log="E RKNN: failed to open rknn device!\n"),
    case(found(62526942761, "VIDEO/scripts/npu_drm_nodes.sh"),
         "the container got the render nodes, and librknnrt opens the card",
         "container-without-node", "--device /dev/dri", container=True, root=True, nodes=False,
         files={"/dev/dri/renderD129": ""},
         log="E RKNN: failed to open rknn device!\n"),
    # Drivers.
    case(found(69596086113, "why_init_failed"), "Radxa Zero 3, Armbian has the NPU switched off",
         "npu-disabled", "", soc="rk3566", driver=None, log=OPEN,
         files={"/proc/device-tree/npu@fde40000/status": "disabled"}),
    case(found(57159551275, "无法从 4GB 以上物理地址读取页表"),
         "RK3566 with 4 GB, of which the last lie above 4 GB: the IOMMU cannot read its tables",
         "high-memory", "mem=", soc="rk3566", kernel="6.19.0", log=TIMEOUT,
         files={"/proc/meminfo": "MemTotal: 3990000 kB\nMemAvailable: 3000000 kB\n"}),
    case(found(24602963763, "some changes and polyfills are made to make it work properly"),
         "RK3566, mainline with driver 0.9.3: works once, until the NPU's IOMMU is switched off",
         "ported-driver", "", soc="rk3566", kernel="6.6.15", driver="0.9.3", log=TIMEOUT),
    # Libraries.
    case(f"{RT}#487", "OpenHarmony is musl, the library wants symbols of glibc", "library-libc",
         "", python="64 musl",
         log="Error relocating /system/lib/librknnrt.so: __strdup: symbol not found\n"),
    case("rockchip-linux/rknn-toolkit#507", "library 1.1.0 under RKNNLite 2.2.0, as root",
         "log-open", "wget", root=True, lib="1.1.0", log=OPEN),
    case(found(63564272369, "deploy_rknn_board.py --benchmark"), "RKNNLite is not installed",
         "no-rknnlite", "rknn-toolkit-lite2", log="ImportError: No module named 'rknnlite'\n"),
    # Versions.
    case(found(24327777585, "sherpa-onnx-rk3588-streaming-zipformer-small-bilingual"),
         "the image's library is older than the model", "model-too-new", "wget", lib="?",
         log="E RKNN: 6, 1\n" + REFUSED),
    case(found(4882778627, "这是在运行INT8量化的模型时报的错误"),
         "library 1.5.2 with driver 0.9.6; a newer library was the answer", "submit-failed",
         "wget", lib="1.5.2", driver="0.9.6",
         log="sdk version: 1.5.2 driver version: 0.9.6\nE RKNN: failed to submit!, op id: 1, op "
         "name: Conv:input.14_Conv, flags: 0x5\n"),
    # Models.
    case(found(68462543447, "tools/npu_probe.c"), "RK3576, a model for RK3588", "model-target",
         "'rk3576'", soc="rk3576", log="E RKNN: This rknn model is for RK3588, but current "
         "platform is RK3576\nE RKNN: Import rknn model failed!\n"),
    case(found(59115605059, "whisper_encoder_base_10s.rknn"), "RK3576, a model for RK3588",
         "model-target", "'rk3576'", soc="rk3576", model="rk3588 2.3.0",
         log="This rknn model is for RK3588, but current platform is RK3576\n"),
    case(found(59152628471, "rknn_init fail! ret=-13"), "a model for another chip",
         "model-target", "'rk3588'", log="rknn_init fail! ret=-13\n"),
    case(found(58611147223, "invalid RKNN_MAGIC happened once because the imgenc arguments"),
         "the program was given another file than the model", "model-damaged", "", log=MAGIC),
    case(found(61963183745, "0.03 px on known shifts"),
         "RK3588S, GridSample cannot run, and the runtime crashes", "operator-unknown", "",
         soc="rk3588s", log="E RKNN: Unsupport CPU op: GridSample in this librknnrt.so\n"
         "Segmentation fault (core dumped)\n"),
    # What programs give.
    case(found(58982263109, "rknn_probe_variants.py"), "Orange Pi, a target was given",
         "target-argument", "init_runtime()", lib="2.3.2", driver="0.9.6", log=TARGET),
    case(found(47965471649, "Tried to import RKNNLite from wrong package"), "a target was given",
         "target-argument", "init_runtime()", log=TARGET),
    case(found(54656670893, "RKNN Runtime OS Platform Exception"), "Orange Pi 5, the same",
         "target-argument", "init_runtime()", soc="rk3588s", log=TARGET),
    case(found(70503146921, "sizing from n_elems silently under-allocates"),
         "NanoPC-T6, memory of the size without padding", "call-refused", "info",
         log="E RKNN: rknn_set_io_mem, input memory size(1728) < model input size(2304)\n"),
    case("happyme531/ztu_somemodelruntime_ez_rknn_async#1", "RK3566 has no core masks",
         "core-mask", "", soc="rk3566",
         log="RuntimeError: rknn_set_core_mask failed for thread 0 with error code: -13\n"),
    # RV1106, and boards on a cable.
    case(found(53219900731, "RV1106 ISP + NPU Coexistence"),
         "Luckfox Pico Zero, no task ends while the camera's automatic exposure runs",
         "camera-contends", "", **{**MINI, "soc": "rv1106g3", "lib": "2.3.0 mini 32 uclibc"},
         log="E RKNN: failed to submit!, op id: 39, op name: Conv:/model.8/conv/Conv, task start: "
         "0, task number: 113, run task counter: 82, int status: 0\n"),
    case(found(52841704381, "terminate the rkipc process"),
         "RV1106, the camera's program holds the memory", "mini-memory", "RkLunch-stop", **MINI,
         files={"/proc/412/comm": "rkipc"},
         log="E init_runtime: Exception: RKNN init failed. error code: RKNN_ERR_MODEL_INVALID\n"),
    case(found(5652992113, "RV1103/RV1106/RV1103B设备上遇到"),
         "RV1106, no memory before the demo is stopped", "mini-memory", "RkLunch-stop",
         **MINI, log="E RKNN: failed to allocate fd, ret: -1, errno: 12\n"),
    case(f"{RT}#381", "RV1126B on a cable: rknn_server lies in /usr/bin, and belongs in /oem/usr",
         "connection", "/oem/usr", soc=None, driver=None, lib=None, heap=False,
         python="64 glibc x86",
         log="I NPUTransfer(2183678): Starting NPU Transfer Client, Transfer version 2.2.2\n"
         "E RKNNAPI: rknn_init,  server connect fail!  ret = -9(ERROR_PIPE)!\n"
         "E init_runtime: The rknn_server on the concected device is abnormal\n"),
)  # fmt: skip
CASES = LEARNED + COUNTED
