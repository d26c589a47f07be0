"""Machines of an eleventh search, by another collector who knew no rule: fresh threads again.

20 of these 36 were right at the first run (56 %). Three of the 16 misses had the right rule and a
repair that says the same in other words, and count as misses. The rules were then extended by what
the others have in common (targets, wheels of other machines, tools that a build wants), but for the
four in `UNKNOWN`: a driver that brought one system down runs on many, a board that idles has its
NPU at the lowest frequency, and one with the governor ondemand is healthy, so these facts alone
tell nothing; and on a chip that this package does not serve, that stands first. Notation: see
`Case`.
"""

from __future__ import annotations

from doctor.cases import PU2, REFUSED, RL, RT, SUBMIT, ZOO
from doctor.machine import Case, case

UNKNOWN = (
    "armbian/linux-rockchip#158",
    "radxa/kernel#432",
    "airockchip/rknn-llm#27",
    "rockchip-linux/rknn-toolkit#281",
)
PC = {"soc": None, "driver": None, "interface": "", "heap": False, "lib": None,
      "python": "64 glibc x86"}  # fmt: skip
SERVER = (
    "E RKNNAPI: rknn_init, server connect fail! ret = -9(ERROR_PIPE)!\n"
    "E init_runtime: The rknn_server on the concected device is abnormal, please start the "
    "rknn_server on the device\n"
)
NO_RKNN = "ModuleNotFoundError: No module named 'rknn'\n"
WHEEL = "ERROR: {} is not a supported wheel on this platform.\n"

CASES: tuple[Case, ...] = (
    # Containers and device trees.
    case("immich-app/immich#30037",
         "CM3588 Plus, Immich's container: DEVICE=rknn is set, and all runs on the processor",
         "hidden-device-tree", "re:systempaths=unconfined|device-tree",
         soc=None, kernel="6.1.141", container=True, root=True,
         log="WARNING Could not read /proc/device-tree/compatible Reason: [Errno 2] No such file "
         "or directory: '/proc/device-tree/compatible'\n"
         "INFO Setting execution providers to ['CPUExecutionProvider']\n"),
    case(f"{RL}#153", "RK3588 in Docker: RKNNLite cannot find out the chip",
         "hidden-device-tree", "re:systempaths=unconfined|privileged|device-tree",
         soc=None, container=True, root=True, lib="1.4.0",
         log="E Catch exception when init runtime!\n"
         "Exception: Please specify the target in init_runtime!\n"),
    case("blakeblackshear/frigate#10090",
         "Orange Pi 5 with Armbian's edge kernel, whose tree calls the chip rk3588s",
         "no-driver|other-device-tree", "re:vendor|bsp|legacy", soc="rk3588s",
         kernel="6.8.0-edge-rockchip-rk3588", driver=None, interface="", described=False),
    # Drivers.
    case(f"{RL}#297", "Orange Pi 5 Plus: a core mask ends so on kernel 6.1.43, 5.10 is fine",
         "new: a driver that is known as faulty", "re:upgrade|update|newer|kernel|image",
         kernel="6.1.43-rockchip-rk3588", driver="0.9.3", lib="1.6.0", log=SUBMIT),
    case("armbian/linux-rockchip#158",
         "RK3588, kernel 6.1 with a driver before 0.9.5: the system falls over at once",
         "new: a driver that is known as faulty", "re:upgrade|update|newer|0\\.9\\.[5-9]",
         kernel="6.1.43-vendor-rk35xx", driver="0.9.3", lib="1.6.0"),
    case("airockchip/rknn-llm#62", "RK3588, driver 0.8.2 under a runtime that asks for 0.9.6",
         "driver-refused|old-driver|descriptors", "re:upgrade|update|ulimit", driver="0.8.2",
         kernel="5.10.110",
         log="rkllm-runtime version: 1.0.1, rknpu driver version: 0.8.2, platform: RK3588\n"
         "Warning: Your rknpu driver version is too low, please upgrade to 0.9.6.\n"
         "E RKNN: failed to allocate handle, ret: -1, errno: 12, errstr: Cannot allocate memory\n"
         "can not create weight memory for domain1\n"
         "E RKNN: failed to convert handle(1020) to fd, ret: -1, errno: 24, errstr: Too many open "
         "files\n"),
    case("airockchip/rknn-llm#449", "RK3588, a picture's language model; the driver is to be 0.9.8",
         "driver-refused|old-driver", "re:upgrade|update|0\\.9\\.8", driver="0.9.6",
         kernel="6.1.43", log="E rkllm: matmul(w8a8) run failed\n" * 3),
    case("moonshine-ai/useful-transformers#40",
         "RK3588: a medium Whisper wants more than one address space; newer ones have several",
         "new: more memory than the driver and library can address",
         "re:upgrade|update|newer|driver|smaller|domain", driver="0.8.8", kernel="5.10.160",
         lib="1.5.2",
         log="rknn_create_mem: ioctl(5, DRM_IOCTL_VIRTGPU_EXECBUFFER, 0x7fc9b97e90) = -1 ENOMEM "
         "(Cannot allocate memory)\n"),
    # Frequencies.
    case("radxa/kernel#432", "ROCK 4D (RK3576): the NPU stays at 300 MHz of 950",
         "new: the NPU runs at its lowest frequency", "re:performance|userspace|governor|freq",
         soc="rk3576", kernel="6.1.84-rk2410",
         files={"/sys/class/devfreq/27700000.npu/cur_freq": "300000000\n",
                "/sys/class/devfreq/27700000.npu/target_freq": "300000000\n",
                "/sys/class/devfreq/27700000.npu/min_freq": "300000000\n",
                "/sys/class/devfreq/27700000.npu/max_freq": "950000000\n",
                "/sys/class/devfreq/27700000.npu/available_frequencies":
                "300000000 400000000 500000000 600000000 700000000 800000000 950000000\n",
                "/sys/class/devfreq/27700000.npu/governor": "rknpu_ondemand\n"}),
    case("airockchip/rknn-llm#27",
         "Firefly ROC-RK3588-PC: answers are slow until processor and NPU have a fixed frequency",
         "new: the processor's and the NPU's frequencies are not fixed",
         "re:performance|userspace|governor",
         kernel="5.10.160", driver="0.9.6",
         files={f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": "ondemand\n"
                for n in range(8)}
         | {f"/sys/devices/system/cpu/cpufreq/policy{n}/scaling_governor": "ondemand\n"
            for n in (0, 4, 6)}
         | {"/sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
            "/sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
            "/sys/class/devfreq/fdab0000.npu/max_freq": "1000000000\n",
            "/sys/class/devfreq/fdab0000.npu/available_frequencies":
            "300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000\n"}),
    # Models, operators and calls.
    case("rockchip-linux/rknn-toolkit#502",
         "FastDeploy brings librknnrt 1.4.2b3, the model is of a newer toolkit",
         "model-too-new", "re:wget|convert", lib="1.4.2b3",
         log=REFUSED + "[ERROR] rknpu2_backend.cc(180)::LoadModel The function(rknn_init) failed! "
         "ret=-6\n"),
    case(f"{RT}#557", "RV1106: ArgMax is not in the small runtime",
         "operator-unknown", "", soc="rv1106", kernel="5.10.160", driver="0.9.2", interface="misc",
         root=True, lib="2.3.2 32 uclibc", python="32 uclibc",
         log="I RKNN: RKNN Runtime Information, librknnmrt version: 2.3.2 (429f97ae6b)\n"
         "I RKNN: RKNN Driver Information, version: 0.9.2\n"
         "E RKNN: unsupport cpu ArgMax op, op name: ArgMax:ArgMax in current, please try updating "
         "to the latest version of the toolkit2 and runtime\n"
         "E RKNN: rknn fallback cpu failed\n"),
    case(f"{PU2}#21", "RK3588, a library whose Split fails; a newer one and a new conversion ran",
         "new: the library's operator is faulty", "re:updat|upgrad|newer|wget|convert", lib="1.3.0",
         driver="0.7.2", kernel="5.10.66", log="E RKNN: Meet unsupported split\nAborted\n"),
    case(f"{RT}#295",
         "RK3588: fewer outputs are fetched than the model has; the old library let it pass",
         "call-refused", "re:output|info", driver="0.9.2", lib="2.3.0", model="rk3588 2.3.0",
         log="E RKNN: rknn_outputs_get, param output index(127) is out of range(3)\n"),
    case(f"{RT}#7", "RK3588: a multiplication of matrices was to run on two cores together",
         "new: this core mask is not possible for what runs", "re:core|mask", lib="1.6.0",
         log="E RKNN: Not support core mask: 3, fallback to single core auto mode\n"
         "E RKNN: NN Compiler/Model Version is 0.0.0 now\n"
         "E RKNN: rknn_set_core_mask: failed to set core mask: 3\n"
         "rknn_matmul_coremask fail! ret=-1\n"),
    case("airockchip/rknn3-model-zoo#2",
         "an accelerator of the third generation: the model was made for another number of cores",
         "new: the mask's cores are not the model's number of cores", "re:core",
         log="E RKNNAPI(2308): rknn3_model_init, core_mask f is not match with npu core number 8!"
         "\n"),
    case(f"{ZOO}#102", "RK3568: the model zoo's script with RKNNLite in it, which gets a target",
         "target-argument", "init_runtime()", soc="rk3568", kernel="4.19.232", driver="0.8.2",
         lib="1.6.0",
         log="E RKNNAPI: rknn_init, driver open fail! ret = -12(ERROR_NOT_SUPPORTED)!\n"
         "E Catch exception when init runtime!\nNone devices connected.\n"
         "Exception: RKNN init failed. error code: RKNN_ERR_DEVICE_UNAVAILABLE\n"),
    case("leafqycc/rknn-cpp-Multithreading#35",
         "RK3588 with more than 4 GB: the image unit refuses pictures from above",
         "image-scaler", "",
         log="This output the user patamaters when rga call blit fail\n"
         "RgaBlit(1483) RGA_BLIT fail: Invalid argument\n"
         "RgaBlit(1484) RGA_BLIT fail: Invalid argument\n"
         "rect[0, 0, 1280, 720, 1280, 720, 2560, 0]\n"),
    # Libraries beside the program.
    case(f"{PU2}#24", "RK3566: the demo asks for librga.so.2, the system has librga.so",
         "missing-dependency", "librga", soc="rk3566", kernel="4.19.232", driver="0.7.2",
         lib="1.3.0", files={"/usr/lib/librga.so": ""},
         log="./rknn_yolov5_demo: error while loading shared libraries: librga.so.2: cannot open "
         "shared object file: No such file or directory\n"),
    case("kaylorchen/rk3588-yolo-demo#20",
         "Firefly RK3588 with an older Ubuntu than the program was built for",
         "new: built for a newer system, whose libraries are missing here",
         "re:spdlog|glibc|newer|older|rebuil|build",
         log="./camera_demo: error while loading shared libraries: libspdlog.so.1: cannot open "
         "shared object file: No such file or directory\n"
         "./camera_demo: /lib/aarch64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found "
         "(required by ./camera_demo)\n"
         "./camera_demo: /lib/aarch64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found "
         "(required by ./camera_demo)\n"),
    case(f"{ZOO}#301", "the wheel of sherpa-onnx that was installed is one without RKNN",
         "new: the program was built without RKNN", "re:SHERPA|rebuil|wheel|built with|reinstall",
         log="/project/sherpa-onnx/csrc/online-recognizer-impl.cc:Create:52 Please rebuild "
         "sherpa-onnx with -DSHERPA_ONNX_ENABLE_RKNN=ON if you want to use rknn.\n"),
    # Python packages.
    case(f"{RL}#197", "RK3588 with Python 3.10: the toolkit's wheel for a PC; RKNNLite runs",
         "new: a wheel for another machine", "re:x86|PC|lite", lib="1.5.0", driver="0.8.8",
         log=WHEEL.format("rknn_toolkit2-1.5.0+1fa95b5c-cp310-cp310-linux_x86_64.whl")),
    case(f"{RL}#305", "a board with Ubuntu and Python 3.8: the toolkit's wheel for a PC",
         "new: a wheel for another machine", "re:x86|PC|lite|aarch64",
         log=WHEEL.format("rknn_toolkit2-1.6.0+81f21f4d-cp38-cp38-linux_x86_64.whl")),
    case("airockchip/rknn-llm#81", "a board: the language models' toolkit runs on a PC alone",
         "new: a wheel for another machine", "re:x86|PC",
         log=WHEEL.format("rkllm_toolkit-1.0.1-cp38-cp38-linux_x86_64.whl")),
    case(f"{ZOO}#135", "Firefly RK3588: the conversion is started on the board",
         "new: rknn-toolkit2 is not installed", "re:rknn-toolkit2|rknn_toolkit2|rknn-toolkit-lite2",
         log=NO_RKNN),
    case(f"{ZOO}#40", "a PC without rknn-toolkit2",
         "new: rknn-toolkit2 is not installed", "re:rknn-toolkit2|rknn_toolkit2", **PC,
         log=NO_RKNN),
    case(f"{RT}#336", "rknn-toolkit2 on an arm64 machine: onnxoptimizer is built, without cmake",
         "new: a package is built from sources, and cmake is missing",
         "re:cmake|rknn-toolkit-lite2",
         log="Collecting onnxoptimizer==0.2.7 (from rknn-toolkit2)\n"
         "error: subprocess-exited-with-error\n"
         "assert CMAKE, 'Could not find \"cmake\" executable!'\n"
         "AssertionError: Could not find \"cmake\" executable!\n"),
    case(f"{RL}#144", "Ubuntu 20.04 on a PC: bfloat16 is built, and wants numpy first",
         "new: a package is built from sources, and numpy is missing", "re:install.*numpy", **PC,
         log="ERROR: Command errored out with exit status 1: /tmp/pip-install-dbegbkbb/bfloat16/"
         "setup.py egg_info\n  import numpy as np\n"
         "ModuleNotFoundError: No module named 'numpy'\n"),
    case(f"{RT}#85", "rknn-toolkit2 2.0.0b0 on a PC with NumPy 2",
         "new: NumPy 2 under a package for NumPy 1", "re:numpy.*<\\s*2", **PC,
         log="A module that was compiled using NumPy 1.x cannot be run in\n"
         "NumPy 2.0.0 as it may crash. To support both 1.x and 2.x versions of NumPy, modules must "
         "be compiled with NumPy 2.0.\n"),
    # A PC and a board.
    case(f"{RL}#379", "an .rknn for RK3588 is to run on an x86 server",
         "new: a PC has no NPU", "re:--sim|simulat|board|adb", **PC, model="rk3588 2.3.2"),
    case(f"{RL}#91", "RK3588 by adb: its rknn_server does not answer",
         "new: rknn_server does not run on the board", "rknn_server", **PC,
         log="I Connect to Device success!\nD NPUTransfer: ERROR: socket read fd = 3, n = -1: "
         "Connection reset by peer\n" + SERVER),
    case(f"{RT}#393", "RV1126B by adb: its rknn_server does not answer",
         "new: rknn_server does not run on the board", "rknn_server", **PC,
         log="I target set by user is: rv1126b\nI Connect to Device success!\n" + SERVER),
    case(f"{RT}#175", "RK3568 by adb over the network: the device is offline",
         "new: adb does not reach the board", "adb", **PC,
         log="all device(s) with adb mode:\n192.168.222.130:5555\nI Start adb...\n"
         "error: device offline\nE init_runtime: Connect to Device Failure (-1), Please make sure "
         "the USB connection is normal!\n"),
    case(f"{ZOO}#408", "the board that hangs on the PC says RV1103, the target given is RV1106",
         "new: another chip is connected than the target says", "re:rv1103|target", **PC,
         log="I target set by user is: rv1106\nI Get hardware info: target_platform = rv1103, os = "
         "Linux, aarch = aarch32\nE init_runtime: get target_platform is rv1106, while required "
         "target_platform = rv1103\n"),
    # The first generation.
    case("rockchip-linux/rknn-toolkit#281", "a program of the toolkit may not be executed",
         "new: the toolkit's npu_transfer_proxy is not executable", "re:chmod", soc="rk3399pro",
         driver=None, lib=None,
         log="E Execute ntp_transfer_proxy devices failed, ret code: 126. /bin/sh: 1: /usr/local/"
         "lib/python3.7/dist-packages/rknn/3rdparty/platform-tools/ntp/linux-aarch64/"
         "npu_transfer_proxy: Permission denied\n"),
    case("rockchip-linux/rknpu#7", "RK1808: kernel's module and library do not belong together",
         "chip-generation", "", soc="rk1808", driver=None, lib=None, files={"/dev/galcore": ""},
         log="[     1] HAL user version 6.4.3.5.293908\n[     2] HAL kernel version "
         "6.4.3.5.293908\nSegmentation fault\n"),
)  # fmt: skip
