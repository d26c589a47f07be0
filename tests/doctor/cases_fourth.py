"""The few machines of public threads that a last search still found: they judge what stood then.

The rows were written and committed before any rule was run on them; a row names the rule that it
should be, also where there was none yet. At the first run seven of these nine were judged right;
the two others are RKLLM's, with words that no sign knew.
"""

from __future__ import annotations

from doctor.cases import RT
from doctor.cases_second import LLM
from doctor.machine import Case, case

EZ = "Pelochus/ezrknpu"
MAGIC = "E RKNN: invalid rknn llm model magic\nE RKNN: load model file error!\n"

CASES: tuple[Case, ...] = (
    case("bigtreetech/CB2#141", "RK3566, the image has the driver and no library",
         "no-library", "wget", soc="rk3566", kernel="6.1.115-btt-rockchip64", lib=None),
    case("armbian/build#8420", "a board of another maker's chip, with another NPU",
         "no-board", "--sim", soc=None, driver=None, lib=None,
         files={"/proc/device-tree/compatible": "radxa,zero2\0amlogic,a311d\0"}),
    case(f"{RT}#95", "driver 0.8.2, librknnrt 2.0.0: now and then no task is finished",
         "old-driver", "upgrade", driver="0.8.2", lib="2.0.0", model="rk3588 2.0.0",
         log="W RKNN: Current driver version: 0.8.2, recommend to upgrade the driver to the new "
         "version: >= 0.8.8\nE RKNN: failed to submit!, op id: 7, op name: exMatMul\n"),
    case("HyperInspire/InspireFace#214", "RK3566, a package of several models is none",
         "model-foreign", "", soc="rk3566", model="torch",
         log="E Invalid RKNN model path: ./Gundam-RK356X\n"),
    # Language models, which are RKLLM's.
    case(f"{LLM}#416", "RK3566 has no RKLLM", "language-chip", "", soc="rk3566",
         log="RKLLM starting, please wait...\nPlatform error: must be either RK3588, RK3576, "
         "RV1126B, or RK3562. Your platform is lite.\nrkllm init failed\n"),
    case("NotPunchnox/rkllama#55", "a conversion that the runtime does not take",
         "model-language", "", log="E rkllm: invalid rkllm model!\n"),
    case(f"{EZ}#11", "a model of another version", "model-language", "", soc="rk3588s",
         driver="0.9.7", log=f"{MAGIC}rknn_init fail! ret=-1\n"),
    case(f"{LLM}#129", "the same, which then crashes", "model-language", "",
         log=f"{MAGIC}rknn_init fail! ret=-1\nGGML_ASSERT(view_src == NULL) failed\n"),
    case(f"{EZ}#15", "the same", "model-language", "", log=f"{MAGIC}rknn_init fail! ret=-1\n"),
)  # fmt: skip
