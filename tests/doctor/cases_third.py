"""Machines of public threads that were read last: they judge the rules as these two sets left them.

Only threads of programs that were to run on a chip with an NPU, other than the second set, which
also has the vendor's toolkit on a PC. The rows were written and committed before any rule was run
on them; a row names the rule that it should be, also where there was none yet. At the first run 14
of these 21 were judged right; of the others two had wordings of RKNNLite that no sign knew, and for
five, all about programs rather than the NPU, there was no rule.
"""

from __future__ import annotations

from doctor.cases import PU2, RT, ZOO
from doctor.cases_second import LLM
from doctor.machine import Case, case

FULL = "E RKNN: failed to convert handle(1020) to fd, errno: 24, errstr: Too many open files\n"
SMALLER = "E RKNN: rknn_inputs_set, param input size(1228800) < model input size(4915200)\n"
MISSING = "error while loading shared libraries: {}: cannot open shared object file: No such file\n"
DIMENSIONS = "Exception: The input[0] need 4dims input, but 3dims input buffer feed.\n"

CASES: tuple[Case, ...] = (
    # Chips and models.
    case("rockchip-linux/rknn-toolkit#52", "RV1126, a function is missing in its librknn_api.so",
         "chip-generation", "", soc="rv1126", driver=None, lib=None,
         log="librknn_api.so: undefined symbol: rknn_get_output_num\n"),
    case("leafqycc/rknn-cpp-Multithreading#10", "Orange Pi 5, no platform was given: RK3566's",
         "model-target", "'rk3588'", soc="rk3588s", lib="1.5.0", model="rk3566 1.5.0",
         log="Segmentation fault (core dumped)\n"),
    case("k2-fsa/sherpa-onnx#2188", "RK3588, librknnrt 2.1.0 lacks a type of an operator",
         "operator-unknown", "wget", lib="2.1.0",
         log="E RKNN: [10:15:00.104] Meet unsupported input dtype for gather\n"),
    # What programs give.
    case(f"{PU2}#9", "the type was left out, which means float32", "call-refused", "info",
         soc="rk3568", lib="1.1.0", log=SMALLER),
    case(f"{RT}#558", "the same on RK3568 with 2.3.2", "call-refused", "info", soc="rk3568",
         log=f"{SMALLER}rknn_inputs_set returned: -5\n"),
    case(f"{RT}#357", "float16 was given where float32 is taken", "call-refused", "info",
         driver="0.9.3",
         log="E RKNN: rknn_inputs_set, param input size(612) < model input size(1224)\n"),
    case(f"{ZOO}#298", "whisper, a sound of another length", "call-refused", "info",
         log="E RKNN: rknn_inputs_set, param input size(3072000) < model input size(4608000)\n"
         "rknn_input_set fail! ret=-5\n"),
    case("marty1885/rknn-superresolution#3", "NCHW was given where NHWC is taken", "call-refused",
         "info", log="E RKNN: rknn_set_input_shapes error, input name = input supported input "
         "shapes are as follows:\nE RKNN: shape = [1,224,224,1], layout = NHWC\n"),
    case(f"{RT}#335", "RV1106 has no rknn_inputs_set", "call-refused", "", soc="rv1106",
         interface="misc", root=True, lib="2.3.0 32 uclibc", python="32 uclibc",
         log="E RKNN: rknn_inputs_set, context config invalid!\n"),
    case("leafqycc/rknn-multi-threaded#24", "an image without the batch's dimension",
         "call-refused", "info", log=DIMENSIONS),
    case("leafqycc/rknn-multi-threaded#14", "the same, Orange Pi 5 Plus", "call-refused", "info",
         log=f"E Catch exception when setting inputs.\n{DIMENSIONS}"),
    # Memory.
    case("Pelochus/ezrknpu#3", "a language model wants thousands of descriptors", "descriptors",
         "ulimit", log="E RKNN: failed to allocate handle, ret: -1, errno: 23, errstr: Too many "
         f"open files in system\nE RKNN: failed to malloc npu memory, size: 6528\n{FULL}"),
    case(f"{LLM}#26", "the same, which ends in a crash", "descriptors", "ulimit",
         log=f"{FULL}Segmentation fault (core dumped)\n"),
    case(f"{LLM}#43", "the same, Orange Pi 5B", "descriptors", "ulimit", soc="rk3588s",
         log=f"{FULL}Segmentation fault (core dumped)\n"),
    case(f"{LLM}#47", "the same", "descriptors", "ulimit", log=FULL),
    case(f"{RT}#532", "a program that keeps descriptors of memory without a context",
         "descriptors", "ulimit", log=FULL),
    # Programs.
    case(f"{PU2}#2", "the program was not linked with the library", "not-linked", "-lrknnrt",
         soc="rk3568", log="undefined reference to `rknn_init'\ncollect2: error: ld returned 1\n"),
    case("PaddlePaddle/FastDeploy#932", "the program's own library lies where nobody looks",
         "missing-dependency", "LD_LIBRARY_PATH", log=MISSING.format("libfastdeploy.so.0.0.0")),
    case("dog-qiuqiu/simple-rknn2#2", "the same", "missing-dependency", "LD_LIBRARY_PATH",
         soc="rk3568", log=MISSING.format("libsimple_rknn2.so")),
    case("LuckfoxTECH/luckfox_pico_rkmpi_example#10", "RV1106, Buildroot: the demo for glibc",
         "program-libc", "uclibc", soc="rv1106", interface="misc", root=True,
         lib="2.3.0 32 uclibc", python="32 uclibc",
         log="/bin/sh: ./luckfox_pico_rtsp_yolov5: not found\n"),
    case("codeproject/CodeProject.AI-Server#219", "OpenCV of NumPy 1 under NumPy 2, in a container",
         "numpy-abi", "numpy<2", container=True, root=True,
         log="AttributeError: _ARRAY_API not found\n"),
)  # fmt: skip
