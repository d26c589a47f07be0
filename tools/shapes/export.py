"""Write a trained net as ONNX: batch norms folded, static shapes, the exported form's outputs."""

from __future__ import annotations

import copy
from pathlib import Path

import onnx
import torch
from nets import ConvBlock
from scenes import SIZE
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

OPSET = 12  # what the toolkit's own examples use


def export_onnx(net: nn.Module, path: Path, size: tuple[int, int] = (SIZE, SIZE)) -> None:
    """Write ``net`` to ``path``, input ``images`` ``[1, 3, *size]``, RGB 0..1."""
    net = copy.deepcopy(net).eval()
    _fold_batch_norms(net)
    torch.onnx.export(
        net.export_form().eval(),
        (torch.zeros(1, 3, *size),),
        str(path),
        input_names=["images"],
        output_names=list(net.outputs),
        opset_version=OPSET,
        dynamo=False,
    )
    onnx.checker.check_model(onnx.load(str(path)), full_check=True)


def _fold_batch_norms(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, ConvBlock):
            folded = nn.Sequential(fuse_conv_bn_eval(child[0], child[1]), child[2])
            setattr(module, name, folded)
        else:
            _fold_batch_norms(child)
