"""Make the network of embeddings.jpg: the example's features, averaged, and a linear map.

::

    SHAPES_SIZE=320 python tools/shapes/embedding.py embedding.onnx

Nothing is trained: the map is Fisher's, between the six shapes of 900 drawn crops; 300 others are
compared with the centres of the shapes. Needs torch, numpy, Pillow and onnx. The file in networks/
is this one, converted by ``rknn-runtime convert --calibrate`` with 24 other crops.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scenes
from PIL import Image

SIZE = 64
KINDS = len(scenes.CLASSES)


def crop(seed: int) -> tuple[np.ndarray, int]:
    """Draw one shape, ``(64, 64, 3) uint8``; every sixth seed has the same kind."""
    rng, kind = np.random.default_rng([seed, 77]), seed % KINDS
    canvas = scenes._background(rng, SIZE, SIZE)
    cover, *_ = scenes._shape(rng, kind, 400, 400)
    side = int(rng.uniform(40, 60))
    drawn = Image.fromarray((cover * 255).astype(np.uint8)).resize((side, side))
    x, y = rng.integers(0, SIZE - side + 1, 2)
    scenes._paint(rng, canvas, np.asarray(drawn) / np.float32(255), int(x), int(y))
    scenes._finish(rng, canvas)
    return np.clip(canvas, 0, 255).astype(np.uint8), kind


def fisher(features: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Return the directions, ``(features, 5)``, that part kinds the most for their spread."""
    centres = np.stack([features[kinds == kind].mean(0) for kind in range(KINDS)])
    spread = np.cov((features - centres[kinds]).T)
    spread += 1e-3 * np.trace(np.cov(features.T)) / len(spread) * np.eye(len(spread))
    whitening = np.linalg.cholesky(np.linalg.inv(spread))
    _, _, axes = np.linalg.svd((centres - features.mean(0)) @ whitening)
    return whitening @ axes[: KINDS - 1].T


def main() -> None:
    """Write the network, and print how well it tells the shapes apart."""
    import torch
    from export import export_onnx
    from tasks import Scene
    from torch import nn

    class Embedding(nn.Module):
        outputs = ("embedding",)

        def __init__(self) -> None:
            super().__init__()
            known = Scene().features
            self.trunk = nn.Sequential(known.to4, known.to8, known.to16, nn.AdaptiveAvgPool2d(1))
            self.out = nn.Conv2d(64, KINDS - 1, 1)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.out(self.trunk(images)).flatten(1)

        def export_form(self) -> nn.Module:
            return self

    net = Embedding().eval()
    crops, kinds = zip(*map(crop, range(1200)))
    images = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        features = net.trunk(images).flatten(1).double().numpy()
    kinds = np.array(kinds)
    mean, axes = features[:900].mean(0), fisher(features[:900], kinds[:900])
    found = (features - mean) @ axes
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    centres = np.stack([found[:900][kinds[:900] == kind].mean(0) for kind in range(KINDS)])
    own = (found[900:] @ centres.T).argmax(1) == kinds[900:]
    print(f"the nearest centre is the own one for {own.mean():.3f}")
    net.out.weight.data = torch.from_numpy(axes.T.copy()).float()[..., None, None]
    net.out.bias.data = torch.from_numpy(-mean @ axes).float()
    export_onnx(net, Path(sys.argv[1]), (SIZE, SIZE))


if __name__ == "__main__":
    main()
