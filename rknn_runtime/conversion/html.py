"""Reports as pages of HTML that load nothing from anywhere."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import import_pillow
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox

#: Pixels of a picture's longer side, for two of them side by side.
MOST_SIDE = 960
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse;margin:.5em 0}tr{border-bottom:1px solid #8884}"
    "td,th{padding:.2em .8em;text-align:right;font-variant-numeric:tabular-nums}"
    "th:first-child,td:first-child{text-align:left}"
    "svg{background:#8881;margin:.5em 1em .5em 0;max-width:100%}"
    ".note{background:#fd08;padding:.5em 1em}pre{overflow:auto;background:#8882;padding:.7em}"
    ".verdict{font-size:18px;padding:.6em 1em;border-left:8px solid #fb0;background:#fb02}"
    ".keep{border-color:#2a5;background:#2a52}.do-not-use{border-color:#d33;background:#d332}"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21em),1fr));gap:.5em}"
    "figure{margin:.3em 0;min-width:0}"
    "h1{overflow-wrap:anywhere;font-size:clamp(20px,5vw,30px);line-height:1.3}img{width:100%;display:block}figcaption{color:#777;overflow-wrap:anywhere}"
    "table{display:block;overflow-x:auto}td:first-child{overflow-wrap:anywhere;min-width:6em}"
    ".words th:last-child,.words td:last-child{text-align:left;min-width:20em}"
)


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    name, body = html.escape(title), "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{name}</title><style>{_STYLE}{style}</style></head>\n"
        f"<body>\n<h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def for_page(
    pixels: Array, found: Detections, size: tuple[int, int], most: int = MOST_SIDE
) -> tuple[Array, Detections]:
    """Return an image and its objects as small as a page shows them, so that captions fit.

    The coordinates belong to an image of `size`, height and width.
    """
    if max(size) <= most and pixels.shape[:2] == size:
        return pixels, found
    scale = min(1.0, most / max(size))
    small = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    transform = LetterboxTransform(size, small, small, (0, 0))
    moved: dict[str, Any] = {
        name: transform.points_from_image(points)
        for name in ("keypoints", "xyxyxyxy")
        for points in (getattr(found, name),)
        if points is not None
    }
    if found.mask is not None:
        rows, columns = (np.arange(new) * old // new for new, old in zip(small, size))
        moved["mask"] = np.ascontiguousarray(found.mask[:, rows][:, :, columns])
    objects = replace(found, xyxy=transform.boxes_from_image(found.xyxy), **moved)
    color = "GRAY" if pixels.shape[2] == 1 else "RGB"
    return letterbox(pixels, small, stretch=True, resize="pillow", out_color=color)[0], objects


def picture(pixels: Any, caption: str) -> str:
    """Return a figure of an image, ``(H, W, 3) uint8``, RGB."""
    file = io.BytesIO()
    import_pillow().Image.fromarray(pixels).save(file, "JPEG", quality=85)
    data = base64.b64encode(file.getvalue()).decode()
    alt = html.escape(caption)
    image = f'<img alt="{alt}" src="data:image/jpeg;base64,{data}">'
    return f"<figure>{image}<figcaption>{alt}</figcaption></figure>"
