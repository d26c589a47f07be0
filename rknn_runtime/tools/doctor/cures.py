"""Commands that repair what several rules find."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME
from rknn_runtime.npu.device import HEAP, RKNPU
from rknn_runtime.tools.doctor.facts import Facts, NodeFacts

__all__ = [
    "NEWER_KERNEL",
    "RUN_DRM",
    "RUN_MISC",
    "SIMULATED",
    "STATIC",
    "VENDOR_KERNEL",
    "convert",
    "fetch",
    "permit",
    "quantized",
    "wanted_library",
]

SIMULATED = "rknn-runtime doctor --sim"
#: On Armbian.
VENDOR_KERNEL = "sudo apt install linux-image-vendor-rk35xx linux-dtb-vendor-rk35xx && sudo reboot"
NEWER_KERNEL = "sudo apt update && sudo apt full-upgrade && sudo reboot"
RUN_DRM = "docker run --device /dev/dri --security-opt systempaths=unconfined ..."
RUN_MISC = f"docker run --device {RKNPU} --device {HEAP} --security-opt systempaths=unconfined ..."
STATIC = "make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a"
#: Group of what belongs to nobody in a container whose users are others outside.
_NOBODY = 65534
_PUBLISHED = "https://github.com/airockchip/rknn-toolkit2/raw"


def wanted_library(facts: Facts) -> str:
    """The runtime's name that this chip wants; unknown chips want librknnrt."""
    return facts.soc.runtime if facts.soc is not None else FULL_RUNTIME


def fetch(facts: Facts, target: str = "", release: str = "master") -> str:
    """Get the vendor's library, and replace the one that is there only when all of it came.

    Args:
        facts: They tell which library.
        target: Where it is to lie; empty: where it usually does.
        release: ``"master"`` for the newest, or a release such as ``"v2.3.0"``.
    """
    name = f"{wanted_library(facts)}.so"
    interpreter = facts.surroundings.interpreter
    narrow = interpreter is not None and interpreter.bits == 32
    folder = "armhf" if narrow else "aarch64"
    if wanted_library(facts) == MINI_RUNTIME:
        if interpreter is None or interpreter.libc != "uClibc":
            return STATIC  # the vendor builds librknnmrt.so for uClibc alone
        folder = "armhf-uclibc"
    place = f"{_PUBLISHED}/{release}/rknpu2/runtime/Linux/librknn_api/{folder}/{name}"
    target = target or f"/usr/lib/{name}"
    return (
        f"wget -O /tmp/{name} {place} && sudo install -m 755 /tmp/{name} {target} && sudo ldconfig"
    )


def convert(facts: Facts) -> str:
    """Convert a model for this chip, which is a line of a program for the vendor's toolkit."""
    name = facts.soc.name if facts.soc is not None else "rk3588"
    return f"rknn.config(..., target_platform={name!r})  # of rknn-toolkit2, and convert again"


def quantized(facts: Facts) -> str:
    """Convert a network for this chip with quantization."""
    name = facts.soc.name if facts.soc is not None else "rk3588"
    return f"rknn-runtime convert NETWORK.onnx --for {name} --calibrate IMAGES  # int8"


def permit(facts: Facts, nodes: Sequence[NodeFacts]) -> str:
    """Let this user use nodes."""
    if facts.container and any(node.gid == _NOBODY for node in nodes):
        return (
            "podman run --group-add keep-groups --device /dev/dri ...  "
            "# LXC: the device with the container's own gid, such as gid=44"
        )
    if facts.container:
        groups = dict.fromkeys(f"--group-add {node.gid}" for node in nodes)
        return f"docker run {' '.join(groups)} ..."
    names = dict.fromkeys(node.group for node in nodes if node.mode & 0o060 == 0o060)
    names.pop("root", None)
    if names:
        return f'sudo usermod -a -G {",".join(names)} "$USER"  # then log in again'
    name = nodes[0].path.rpartition("/")[2]
    match = 'SUBSYSTEM=="dma_heap"' if nodes[0].kind == "heap" else f'KERNEL=="{name}"'
    rule = f"""{match}, GROUP="video", MODE="0660\""""
    return (
        f"echo '{rule}' | sudo tee /etc/udev/rules.d/99-rknpu-{name}.rules && "
        "sudo udevadm control --reload && sudo udevadm trigger && "
        'sudo usermod -a -G video "$USER"  # then log in again'
    )
