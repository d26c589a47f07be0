"""Machines of a tenth search, by a third collector who knew no rule: what others had left.

The trackers of the chips' maker were read already, so most of these are of programs, distributions
and boards, and their causes are rare ones. 3 of these 15 were right at the first run (20 %): so
much for what nobody had reported before. The rules were extended by the others, but for the three
in `UNKNOWN`, whose threads show too little: a clock that was set too high, a host's kernel behind a
container, a driver that fails on two of three cores. A sixteenth was left out: it was of Mesa's
driver, which runs no RKNN models. Notation: see `Case`.
"""

from __future__ import annotations

from doctor.cases import RT
from doctor.cases_fifth import MINI
from doctor.machine import Case, case

UNKNOWN = (
    "LuckfoxTECH/luckfox-pico#370",
    "ophub/amlogic-s9xxx-armbian#3546",
    "leafqycc/rknn-cpp-Multithreading#41",
)
HEAP = "open /dev/dma_heap/system-uncached-dma32 fail!\n"
NO_ACK = "failed to get ack on domain 'npu', target_idle = 0, target_ack = 0, val=0x1ee\n"
RELOCATING = "Error relocating /system/lib64/librknnrt.so: {}: symbol not found\n"

CASES: tuple[Case, ...] = (
    case("blakeblackshear/frigate#9840", "a model newer than the runtime 1.5.2 of Frigate's image",
         "versions-differ", "librknnrt", soc="rk3566", container=True, root=True, lib="1.5.2",
         model="rk3566 1.6.0"),
    case("armbian/linux-rockchip#297", "RK3568: U-Boot leaves the NPU's regulator off",
         "no-power", "armbian-install", soc="rk3568", kernel="6.1.75-vendor-rk35xx", driver=None,
         log=f"{NO_ACK}Kernel panic - not syncing: panic_on_set_idle set ...\n"),
    case("armbian/build#7025", "Orange Pi 3B: mainline U-Boot lists the NPU's regulator as off",
         "no-power", "armbian-install", soc="rk3566", kernel="6.1.75-vendor-rk35xx", driver=None,
         log="vdd_npu              disabled            -          - -          -121\n"),
    case("ultralytics/ultralytics#23129", "ultralytics knows no chip's name with a suffix",
         "hidden-device-tree", "--upgrade ultralytics",
         log="OSError: RKNN inference is only supported on Rockchip devices\n"),
    case("LuckfoxTECH/luckfox-pico#370", "RV1106: 700 MHz in the device tree, 420 MHz work",
         "new: the NPU's clock is too high", "re:clock|MHz", **MINI,
         log="RKNPU: core 0 irq status: 0x0, raw status: 0x0\nRKNPU: job timeout\n"),
    case("codeproject/CodeProject.AI-Server#131", "numpy 2 under an OpenCV built for numpy 1",
         "numpy-abi", "numpy<2", container=True, root=True,
         log="    from .cv2 import *\nAttributeError: _ARRAY_API not found\n"),
    case("HyperInspire/InspireFace#316", "/dev/dma_heap/reserved is there alone",
         "no-heap", "another heap", files={"/dev/dma_heap/reserved": ""}, log=HEAP),
    case("HyperInspire/InspireFace#257", "kernel 6.1 has none of the uncached heaps of 5.10",
         "no-heap", "another heap", kernel="6.1.75-rockchip", files={"/dev/dma_heap/cma": ""},
         log=f"{HEAP}Failed to allocate DMA buffer: -1\nFailed to allocate RGA buffer\n"),
    case("ophub/amlogic-s9xxx-armbian#3546", "RK3566, immich: a kernel that was built without DRM",
         "new: the host's kernel shows no DRM node", "re:kernel", soc="rk3566",
         kernel="6.1.141-rk35xx-ophub", interface="misc", nodes=False, container=True, root=True,
         log="!!! It is detected that some necessary files are missing in the container.\n"
         "    -v /dev/dri/renderD129:/dev/dri/renderD129\n"),
    case("open-mmlab/mmdeploy#2282", "MMDeploy takes no model that was not quantized",
         "call-refused", "int8",
         log="[error] [rknn_net.cpp:174] MMDeploy SDK only supports RKNN-INT8 model\n"),
    case("leafqycc/rknn-cpp-Multithreading#41", "kernel 6.1: every submit on a second core fails",
         "new: the driver fails on other cores", "re:kernel|driver", kernel="6.1.43-rockchip",
         log="E RKNN: failed to submit!, op id: 1, op name: Conv:Conv_0, flags: 0x5, "
         "task start: 0, task number: 196, run task counter: 0, int status: 0\n"),
    case("rockchip-linux/kernel#329", "driver 0.9.2, four threads: the kernel waits for itself",
         "driver-crashed", "full-upgrade", kernel="5.10.160-rockchip", driver="0.9.2", lib="1.5.2",
         log="BUG: spinlock recursion on CPU#0, InferencerDTSIS/812\n"),
    case("airockchip/rknn-toolkit2#242", "OpenHarmony, whose C library is musl",
         "library-libc", "bookworm", python="64 musl", lib=None,
         libs={"/system/lib64/librknnrt.so": "2.3.0"},
         log="".join(map(RELOCATING.format, ("__strdup", "__fmodf_finite", "__log2_finite")))),
    case(f"{RT}#301", "a PC: the board's adbd does not let the toolkit through",
         "connection", "restart_rknn", soc=None, driver=None, interface="", described=False,
         heap=False, lib=None, python="64 glibc x86",
         log="E RKNNAPI: rknn_init,  server connect fail!  ret = -9(ERROR_PIPE)!\n"),
    case("airockchip/rknn_model_zoo#105", "an image without the batch's dimension",
         "call-refused", "expand_dims", driver="0.9.3", lib="1.5.2", model="rk3588 2.0.0",
         log="Exception: The input[0] need 4dims input, but 3dims input buffer feed.\n"),
)  # fmt: skip
