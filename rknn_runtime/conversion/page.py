"""The report as one page of HTML, with images and plots in it."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.accuracy import AccuracyReport
from rknn_runtime.conversion.html import page, table
from rknn_runtime.conversion.report import ConversionReport, cpu_words

if TYPE_CHECKING:
    from rknn_runtime.conversion.convert import Conversion

__all__ = ["page_of"]

_STYLE = "figure{display:inline-block;margin:.5em;width:46%}img{width:100%}"


def page_of(conversion: Conversion) -> str:
    """Write a page that needs nothing from anywhere else."""
    ends = f"cut at {len(conversion.cut)} tensors" if conversion.cut else "ends as it did"
    head = html.escape(conversion.head or "not known")
    parts = [f"<p>For {conversion.target}; {ends}; head {head}.</p>"]
    parts += [f'<p class="note">{html.escape(note)}</p>' for note in conversion.notes]
    if conversion.report is not None:
        parts += _of_report(conversion.report)
    return page(conversion.path.name, parts, _STYLE)


def _of_report(report: ConversionReport) -> Iterable[str]:
    yield f"<p>Judged by {html.escape(report.by)}.</p>"
    yield from _of_accuracy(report.accuracy)
    if report.layers:
        yield "<h2>Worst layers</h2>"
        rows = [
            (layer.name, layer.op, f"{layer.cosine:.5f}", f"{layer.saturated:.1%}")
            for layer in report.layers
        ]
        yield table(("layer", "operator", "cosine", "clipped"), rows)
    yield "<h2>Sizes</h2>"
    yield f"<p>On the board's CPU: {html.escape(cpu_words(report.on_cpu))}.</p>"
    sizes = (report.file_bytes, report.weight_bytes, report.internal_bytes)
    shown = [f"{size / 2**20:.2f} MiB" for size in sizes]
    yield table(("file", "weights", "memory while it runs"), [shown])
    if report.examples:
        yield "<h2>Images</h2><p>Left: in float. Right: the file.</p>"
    for example in report.examples:
        for pixels in (example.in_float, example.converted):
            yield f"<figure>{_image(pixels, example.name)}</figure>"


def _of_accuracy(accuracy: AccuracyReport) -> Iterable[str]:
    found = accuracy.detections
    if found is not None:
        yield f"<h2>Detections in {accuracy.frames} images</h2>"
        rows = [
            ("in float", str(found.count)),
            ("in the file", str(found.other_count)),
            ("in both", str(len(found.matches))),
            ("only in float", str(len(found.missed))),
            ("only in the file", str(len(found.extra))),
        ]
        if found.matches:
            rows += [
                ("mean IoU", f"{found.mean_iou:.4f}"),
                ("mean difference of confidence", f"{found.mean_confidence_difference:.4f}"),
            ]
        yield table((), rows)
        pairs = [(match.confidence, match.other_confidence) for match in found.matches]
        yield _scatter(pairs, "confidence in float", "confidence in the file")
        yield _histogram([match.iou for match in found.matches], "IoU of what both find")
    yield "<h2>Outputs</h2>"
    outputs = [
        (row.name, f"{row.cosine:.6f}", f"{row.worst_cosine:.6f}", f"{row.max_error:.4g}")
        for row in accuracy.worst(len(accuracy.outputs))
    ]
    yield table(("output", "cosine", "of the worst image", "largest error"), outputs)


def _scatter(points: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """Plot pairs of 0..1."""
    dots = "".join(
        f'<circle cx="{40 + 200 * x:.1f}" cy="{220 - 200 * y:.1f}" r="2.5" fill="#06c8"/>'
        for x, y in points
    )
    line = '<line x1="40" y1="220" x2="240" y2="20" stroke="#bbb"/>'
    return _svg(line + dots, across, up)


def _histogram(values: Sequence[float], across: str) -> str:
    """Plot how many values of 0..1 there are, in 20 columns."""
    counts, _ = np.histogram(values, 20, (0, 1))
    top = max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{40 + 10 * i}" y="{220 - 200 * int(n) / top:.1f}" width="9" '
        f'height="{200 * int(n) / top:.1f}" fill="#06c"/>'
        for i, n in enumerate(counts)
    )
    return _svg(bars, across, f"up to {top}")


def _svg(marks: str, across: str, up: str) -> str:
    return (
        '<svg width="260" height="250" font-size="11">'
        '<rect x="40" y="20" width="200" height="200" fill="#fff" stroke="#ccc"/>'
        f'{marks}<text x="40" y="238">0</text><text x="232" y="238">1</text>'
        f'<text x="140" y="245" text-anchor="middle">{html.escape(across)}</text>'
        f'<text x="14" y="120" transform="rotate(-90 14 120)" text-anchor="middle">'
        f"{html.escape(up)}</text></svg>"
    )


def _image(pixels: Array, name: str) -> str:
    data = base64.b64encode(png_of(pixels)).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'


def png_of(pixels: Array) -> bytes:
    """Write ``(H, W, 3) uint8`` as a PNG file (RFC 2083): rows, each after a filter of 0."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
