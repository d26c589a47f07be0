"""SoCs for `RKNNLite`: targets, cores, and which of them share models."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import ModelHeader, read_header
from rknn_runtime.modelfile.soc import SOCS, find_soc

_LINE = "*" * 50
#: The cores that a SoC with two takes instead of missing ones, as in the vendor's package.
_OF_TWO = {
    CoreMask.CORE_2: CoreMask.CORE_0,
    CoreMask.CORE_0_1_2: CoreMask.CORE_0_1,
    CoreMask.ALL: CoreMask.CORE_0_1,
}
_OF_THREE = {CoreMask.ALL: CoreMask.CORE_0_1_2}
_NAMED = (
    CoreMask.CORE_0,
    CoreMask.CORE_1,
    CoreMask.CORE_2,
    CoreMask.CORE_0_1,
    CoreMask.CORE_0_1_2,
    CoreMask.ALL,
)


def _sharing(npu: str) -> list[str]:
    """Return the SoCs that run the same models."""
    return [soc.name.upper() for soc in SOCS.values() if soc.npu == npu]


def header_of(path: str) -> ModelHeader | None:
    """Read the header of a model; None if only the simulated NPU reads the file."""
    try:
        return read_header(path)
    except InvalidModelError:
        return None


def refuse_other_target(target: object, header: ModelHeader | None) -> None:
    """Check that ``target`` is None or a SoC that runs the model."""
    if target is None:
        return
    if not isinstance(target, str):
        raise TypeError(f"target: expected a SoC's name or None, got {type(target).__name__}")
    soc = find_soc(target)
    if soc is None:
        raise ValueError(f"target: expected one of {', '.join(SOCS)}, got {target!r}")
    if header is not None and header.npu != soc.npu:
        raise ValueError(
            f"target: expected None or {header.soc!r}, which the model was converted for, got "
            f"{target!r}"
        )


def chosen_cores(
    core_mask: object, header: ModelHeader | None, warn: Callable[[str], object]
) -> CoreMask | None:
    """Return the cores for the runtime; None leaves the choice to it.

    Args:
        core_mask: One of the numbers that `RKNNLite` names.
        header: The model's; None: not known, assume an RK3588.
        warn: Called if other cores are taken.
    """
    if not isinstance(core_mask, (int, np.integer)) or core_mask not in (0, *_NAMED):
        numbers = ", ".join(str(int(mask)) for mask in (CoreMask.AUTO, *_NAMED))
        raise ValueError(f"core_mask: expected one of {numbers}, got {core_mask!r}")
    mask = CoreMask(int(core_mask))
    if not mask:
        return None
    soc = None if header is None else find_soc(header.soc)
    cores = 3 if soc is None else soc.cores
    if cores == 1:
        raise ValueError(
            f"core_mask: expected NPU_CORE_AUTO, as {header.soc if header else 'it'} has one "
            f"core, got {int(mask)}"
        )
    taken = (_OF_TWO if cores == 2 else _OF_THREE).get(mask, mask)
    if taken != mask and mask is not CoreMask.ALL:
        warn(f"core_mask: the NPU has two cores; taking {taken!r} for {mask!r}")
    return taken


def platforms_of(model: object) -> dict[str, list[str]] | None:
    """Print which SoCs run a model, and return them; without a model print all SoCs."""
    if model is None:
        print(_LINE, "All supported target platforms:", sep="\n")
        for number, npu in enumerate(dict.fromkeys(soc.npu for soc in SOCS.values()), 1):
            print(f"chip family {number}: {','.join(_sharing(npu))}")
        print(_LINE)
        return None
    if not isinstance(model, (str, os.PathLike)):
        raise TypeError(f"rknn_model: expected a path, got {type(model).__name__}")
    header = read_header(model)
    filled, supported = [header.soc], _sharing(header.npu) or [header.soc.upper()]
    print(_LINE)
    print(f"Target platforms filled in RKNN model:         {filled}")
    print(f"Target platforms supported by this RKNN model: {supported}")
    print(_LINE)
    return {"filled_target_platform": filled, "support_target_platform": supported}
