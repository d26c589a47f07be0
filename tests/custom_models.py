"""A model whose softmax was converted as a custom operator, as far as a runtime can tell."""

from __future__ import annotations

import numpy as np
from paths import DATA

#: Made with toolkit 2.3.2 from tests/data/models/fc1000_softmax.onnx, for RK3588.
SOFTMAX = (DATA / "operators" / "softmax_rk3588.rknn").read_bytes()
STOCK, CUSTOM = "exSoftmax13", "cstSoftmax1"
FRAME = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)


def renamed(model: bytes, old: str, new: str) -> bytes:
    """Call an operator of a file otherwise: text behind its length, and as long as before."""
    old_text, new_text = (
        len(name).to_bytes(4, "little") + name.encode() + b"\0" for name in (old, new)
    )
    assert len(old) == len(new) and model.count(old_text) == 1
    return model.replace(old_text, new_text)


CUSTOM_SOFTMAX = renamed(SOFTMAX, STOCK, CUSTOM)


def softmax(node, inputs, outputs):
    """Compute the model's own softmax, in float32."""
    powers = np.exp(inputs[0] - inputs[0].max(1, keepdims=True))
    outputs[0][...] = powers / powers.sum(1, keepdims=True)
