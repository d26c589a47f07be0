"""The toolkit's parameters, and checks before anything is built."""

from __future__ import annotations

import difflib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknn_runtime.modelfile.compatibility import REFUSED_BY_MINI
from rknn_runtime.modelfile.soc import Soc

#: The toolkit's call for each kind of file.
LOADERS = {
    ".onnx": "load_onnx",
    ".tflite": "load_tflite",
    ".pt": "load_pytorch",
    ".pth": "load_pytorch",
    ".torchscript": "load_pytorch",
    ".prototxt": "load_caffe",
    ".cfg": "load_darknet",
    ".pb": "load_tensorflow",
}

_CONFIG = (
    "mean_values", "std_values", "quantized_dtype", "quantized_algorithm", "quantized_method",
    "quantized_hybrid_level", "quant_img_RGB2BGR", "float_dtype", "optimization_level",
    "custom_string", "remove_weight", "compress_weight", "inputs_yuv_fmt", "single_core_mode",
    "dynamic_input", "model_pruning", "op_target", "quantize_weight", "remove_reshape",
    "sparse_infer", "enable_flash_attention",
)  # fmt: skip
#: Parameters that version 2.5.0 added.
_CONFIG_SINCE_2_5 = (
    "mini_rknn", "memory_plan_strategy", "compute_order", "compiler_control_file",
)  # fmt: skip
#: Parameters of each call, without those that `convert` sets: model, target and calibration.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "config": _CONFIG,
    "build": ("rknn_batch_size",),
    "load_onnx": ("inputs", "input_size_list", "input_initial_val", "outputs"),
    "load_tflite": ("input_is_nchw",),
    "load_pytorch": ("input_size_list",),
    "load_caffe": ("blobs", "input_name"),
    "load_darknet": ("weight",),
    "load_tensorflow": ("inputs", "input_size_list", "outputs", "input_is_nchw"),
}
#: Parameters that must be given.
_NEEDED = {
    "load_pytorch": ("input_size_list",),
    "load_darknet": ("weight",),
    "load_caffe": ("blobs",),
    "load_tensorflow": ("inputs", "input_size_list", "outputs"),
}


def check_names(call: str, given: Mapping[str, Any], version: str) -> None:
    group = "load" if call.startswith("load_") else call
    known = PARAMETERS[call]
    if call == "config" and version != "2.3.2":
        known += _CONFIG_SINCE_2_5
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            listed = f"{near[0]!r}?" if near else ", ".join(known)
            raise ValueError(
                f"{group}: expected a parameter of rknn-toolkit2 {version}'s {call}, got "
                f"{name!r}: {listed}"
            )
    for name in _NEEDED.get(call, ()):
        if name not in given:
            raise ValueError(f"{group}: expected {name!r}, which {call} needs, got none")


def check_torchscript(path: Path) -> None:
    """Refuse bare weights instead of a network in TorchScript."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any("/code/" in name for name in archive.namelist()):
                return
    except zipfile.BadZipFile:
        pass
    raise ValueError(
        f"model: expected TorchScript, got the weights of a training: {str(path)!r}; export them "
        f"to ONNX and convert that: yolo export model={path.name} format=onnx"
    )


def check_possible(
    soc: Soc, quantized: bool, config: Mapping[str, Any], operators: Mapping[str, int]
) -> list[str]:
    """Refuse conversions that cannot work; return warnings about operators that may fail."""
    if not soc.mini:
        return []
    if not quantized:
        raise ValueError(
            f"calibrate: expected a folder of images for {soc.name}, whose NPU has no float16, "
            "got none"
        )
    if config.get("dynamic_input") is not None:
        raise ValueError(
            f"dynamic_input: expected none for {soc.name}, got some: the toolkit then writes a "
            f"container that {soc.runtime} cannot read; convert one file for each shape"
        )
    for name in ("ArgMax", "TopK"):
        if name in operators:
            raise ValueError(
                f"operators: expected none that {soc.runtime} lacks, got {name}, which it "
                f"{REFUSED_BY_MINI[name].removeprefix('refuses it ')} refuses: end the network "
                "in front of it with load outputs=[...], and compute it on the CPU"
            )
    return [
        f"operator {name}: {soc.runtime} {REFUSED_BY_MINI[name]}"
        for name in operators
        if name in REFUSED_BY_MINI
    ]
