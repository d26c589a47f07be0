"""The last machines that were found, none of which a rule was written for: all of them count.

By the rule of the fifth set, and written and committed before they were judged, once, by the rules
that the other sets had led to; several troubles of one file are cases of their own. At that run 13
of these 20 were right. `UNKNOWN` are three that stay wrong, as the facts do not tell them from what
is more common: a path that Python was not given, a folder that nobody can write, an old library.
"""

from __future__ import annotations

from doctor.cases_fifth import TIMEOUT, found
from doctor.machine import Case, case

ABOVE_4G = "rga_mm: RGA_MMU unsupported memory larger than 4G!\n"
DOMAIN = "power-controller: failed to get ack on domain 'npu', val=0x1f6\n"

UNKNOWN = (
    found(56407248613, "good: ${PYTHONHOME}/lib/python3.12/site-packages before"),
    found(47826806108, "BrightSign's /usr/lib/ was read-only"),
    found(56015405587, "Update librknnrt.so to match toolkit version"),
)
CASES: tuple[Case, ...] = (
    case(found(57754352594, "RKNN初始化失败 (错误码: -1)"), "the user may not use the nodes",
         "forbidden-node", "", groups=(), log="❌ 错误: RKNN初始化失败 (错误码: -1)\n"),
    case(found(34701335197, "The Linux 6.17 kernel on opi01-03"), "NixOS, no RKNPU in its kernel",
         "no-driver", "vendor", kernel="6.17.0", driver=None, lib=None),
    case(found(65915901134, "实机首启不再因 NPU power domain panic"),
         "Orange Pi CM4 (RK3566), the NPU's power domain stops the kernel", "no-power", "",
         soc="rk3566", driver=None, log=DOMAIN),
    case(found(55084818953, "panic_on_set_idle set rm01"),
         "RK3568, the supply of the NPU is not switched on", "no-power", "", soc="rk3568",
         driver=None, log=f"rockchip-pm-domain fdd90000.power-management:{DOMAIN}"),
    case(found(55094701127, "CMA par défaut (16 Mio) insuffisant"),
         "RK3568, 16 MB of CMA are too few, 128 are enough", "no-iommu", "cma=", soc="rk3568",
         log="cma: cma_alloc: reserved: alloc failed, req-size: 1560 pages, ret: -12\n"
         "RKNPU: failed to allocate 6389760 buffer\n"),
    case(found(56272084146, "works once, then the second inference"),
         "RK3576, mainline with the vendor's driver: the supply is switched off after a run",
         "ported-driver", "", soc="rk3576", kernel="7.1.3", log=TIMEOUT),
    case(found(56407248613, "good: ${PYTHONHOME}/lib/python3.12/site-packages before"),
         "OpenHarmony, RKNNLite lies where this Python does not look", "no-rknnlite", "PYTHONPATH",
         log="ModuleNotFoundError: No module named 'rknnlite'\n"),
    case(found(67242931558, "scripts/run_video_runtime.py"), "RKNNLite is not installed",
         "no-rknnlite", "rknn-toolkit-lite2", log="No module named 'rknnlite'\n"),
    case(found(59660484168, "symbol not found (PyUnicode_FromFormat)"),
         "OpenHarmony, the Python that RKNNLite needs was not loaded for all", "python-symbols",
         "LD_PRELOAD", log="ImportError: symbol not found (PyUnicode_FromFormat)\n"),
    case(found(47826806108, "BrightSign's /usr/lib/ was read-only"),
         "RKNNLite looks in /usr/lib, which nobody can write; a newer system has it there",
         "log-no-library", "upgrade", lib=None, root=True,
         libs={"/usr/local/lib64/librknnrt.so": "2.3.0"},
         variables={"LD_LIBRARY_PATH": "/usr/local/lib64"},
         log="Exception: Can not find dynamic library on RK3588!\n"),
    case(found(56015405587, "Update librknnrt.so to match toolkit version"),
         "the library is older than the toolkit", "model-too-new", "wget", lib="?",
         log="E RKNN: Invalid RKNN format\nE RKNN: rknn_init, load model failed!\n"),
    case(found(54837114267, "nllb-clip-large-siglip__mrl"), "CumSum of a text model",
         "operator-unknown", "", lib="2.3.0", log="E RKNN: Unsupport CPU op: CumSum in this "
         "librknnrt.so\n"),
    case(found(60437023217, "Confirmed by sweeping every f7"), "Xor cannot run",
         "operator-unknown", "", log="E RKNN: Unsupport CPU op: Xor in this librknnrt.so\n"),
    case(found(59719059930, "weight-only int modes are unsupported"),
         "RK3588 multiplies no float16 by int4", "call-refused", "",
         log="E RKNN: rknn_matmul_create_dynamic_shape, unsupported matmul dtype :\n"
         "RKNN_FLOAT16_MM_INT4_TO_FLOAT32 in this platform\n"),
    case(found(47965471649, "RKNNLite requires explicit batch dimension"),
         "an image without the batch's dimension", "call-refused", "info",
         log="Exception: The input[0] need 4dims input, but 3dims input buffer feed\n"),
    case(found(58988071030, "rknn_inputs_set size mismatch (2016"),
         "RK3566, NHWC was taken for NCHW", "call-refused", "info", soc="rk3566",
         log="E RKNN: rknn_inputs_set, param input size(2016) < model input size(150528)\n"),
    case(found(59660484168, "RKNN 重排了输入"), "the inputs came in another order",
         "call-refused", "info", log="Exception: The input[0] need 2dims input, but 4dims input "
         "buffer feed.\n"),
    case(found(53094607408, "RGA2 / RGA3 选择与 DMA32 方案复盘"), "RK3588, several streams",
         "image-scaler", "", log=f"{ABOVE_4G}rga_mm: scheduler core[4] unsupported mm_flag[0x8]!\n"
         "rga_mm: job buffer map failed!\nrga_job: rga request[3] submit failed!\n"),
    case(found(54022852560, "importbuffer_fd 失败 / DMA32 崩溃"), "Orange Pi 3B, a camera",
         "image-scaler", "", soc="rk3566", log=f"img_decode: RGA(fd) failed\n{ABOVE_4G}"),
    case(found(60458476590, "one memcpy buys back the hardware"), "memory of a capture above 4 GB",
         "image-scaler", "", log=ABOVE_4G),
)  # fmt: skip
