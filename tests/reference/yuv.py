"""Camera frames to RGB in float64, from the definitions of ITU-R BT.601-7 and BT.709-6."""

from __future__ import annotations

import numpy as np

#: Kr and Kb, the parts of red and blue in luma.
MATRICES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}


def _axis(samples: int, shared: int, src: int, dst: int):
    """Taps where `shared` of `src` pixels have one sample, in their middle."""
    position = (np.arange(dst) + 0.5) * src / dst / shared - 0.5
    position = np.clip(position, 0, samples - 1)
    first = np.minimum(np.floor(position).astype(int), max(samples - 2, 0))
    return first, np.minimum(first + 1, samples - 1), position - first


def _resample(plane, size, shared, out):
    """Resample a plane of an image of `size` to `out`, both (height, width)."""
    first, second, weight = _axis(plane.shape[1], shared[1], size[1], out[1])
    rows = plane[:, first] * (1 - weight) + plane[:, second] * weight
    first, second, weight = _axis(plane.shape[0], shared[0], size[0], out[0])
    return rows[first] * (1 - weight[:, None]) + rows[second] * weight[:, None]


def to_rgb(y, u, v, height: int, width: int, matrix: str = "bt601", full_range: bool = False):
    """Resize and convert planes of Y, U and V; ``(height, width, 3)`` float64 in 0..255."""
    shared = (round(y.shape[0] / u.shape[0]), 2)
    luma = _resample(y.astype(float), y.shape, (1, 1), (height, width))
    cb, cr = (
        _resample(plane.astype(float), y.shape, shared, (height, width)) - 128 for plane in (u, v)
    )
    if full_range:
        luma, cb, cr = luma / 255, cb / 255, cr / 255
    else:
        luma, cb, cr = (luma - 16) / 219, cb / 224, cr / 224
    kr, kb = MATRICES[matrix]
    red = luma + 2 * (1 - kr) * cr
    blue = luma + 2 * (1 - kb) * cb
    green = (luma - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], axis=2) * 255, 0, 255)


def to_gray(y, height: int, width: int, full_range: bool = False):
    """Resize luma and scale it to 0..255; ``(height, width, 1)`` float64."""
    luma = _resample(y.astype(float), y.shape, (1, 1), (height, width))
    luma = luma / 255 if full_range else (luma - 16) / 219
    return np.clip(luma * 255, 0, 255)[..., None]
