"""Warnings about a model, from its description alone."""

from __future__ import annotations

from rknn_runtime.conversion.health.heads import Head
from rknn_runtime.modelfile.compatibility import REFUSED_BY_MINI, failures
from rknn_runtime.modelfile.info import ModelInfo
from rknn_runtime.modelfile.soc import SOCS

__all__ = ["io_bytes", "warnings_about"]


def io_bytes(info: ModelInfo) -> tuple[int, int]:
    """Bytes of the buffers of all inputs, and of all outputs in their native layout."""
    inputs = sum(max(attr.size, attr.size_with_stride) for attr in info.inputs)
    outputs = sum(attr.stored.size_with_stride for attr in info.outputs)
    return inputs, outputs


def warnings_about(info: ModelInfo, head: Head | None) -> list[str]:
    """List what may go wrong with a model, or costs time.

    Args:
        info: The model.
        head: What its outputs look like.

    Returns:
        One sentence or two each.
    """
    found = []
    if head is not None and head.shares_scale:
        found += [_shared_scale(attr.name, attr.affine[1]) for attr in info.outputs if attr.affine]
    packed = [attr for attr in info.outputs if attr.is_packed]
    if packed:
        padded = sum(1 for attr in packed if attr.stored.n_elems > attr.n_elems)
        count = f"{len(packed)} of {len(info.outputs)} outputs lie"
        padding = f"{padded} with padding"
        if len(info.outputs) == 1:
            count = "the output lies"
            padding = "with padding" if padded else "without padding"
        found.append(
            f"{count} in memory as NC1HWC2, {padding}, and must be unpacked to be "
            "read in logical order (the decoders of this package read it as it is)"
        )
    soc = SOCS[info.soc]
    if info.container == "mini":
        found += [
            f"operator {name}: {info.runtime} {REFUSED_BY_MINI[name]}"
            for name in info.operators
            if name in REFUSED_BY_MINI
        ]
    else:
        found += [
            f"{info.runtime} up to {'.'.join(map(str, failure.last))} {failure.words}"
            for failure in failures(info)
        ]
    if info.runtime != soc.runtime:
        found.append(
            f"a {info.container} container for {info.soc}, whose {soc.runtime} reads only the "
            f"other kind: the toolkit writes these with {soc.foreign_container_option}; convert "
            "the model without"
        )
    return found


def _shared_scale(name: str, scale: float) -> str:
    """One scale for boxes and scores: how far apart two confidences are at least."""
    text = (
        f"output {name!r} has one scale for boxes and scores, {scale:.4g}: confidences "
        f"differ by {min(scale, 1):.4g} or more"
    )
    if scale > 0.02:
        return (
            text + "; convert them as separate outputs, as the vendor's zoo has them: "
            "rknn.load_onnx(outputs=[...]) cuts the graph before they are joined"
        )
    return text
