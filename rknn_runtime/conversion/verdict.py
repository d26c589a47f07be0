"""The verdict on a comparison, and its page: what to do, pictures of both sides, plots."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import html_table
from rknn_runtime.conversion.html import for_page, picture
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.plausibility import ASK

#: An `AccuracyReport`, which imports this module.
Report = Any

KEEP, LOOK, DO_NOT_USE = "keep", "look", "do not use"
#: From which part of objects in both, and from which cosine, a model is kept or looked at.
_OBJECTS, _COSINES, _RESULTS = (0.9, 0.6), (0.98, 0.9), (0.95, 0.7)
#: Fewer objects of the reference do not prove that a model can be kept.
_ENOUGH = 10
#: How to get a page; the page itself leaves it out.
_WHERE = ", with --html report.html"
#: How much mAP may be lost.
_LOST = (0.02, 0.05)
#: An mAP that no network is used for.
_USELESS = 0.05


class Advice(NamedTuple):
    """What to do with a model."""

    #: ``"keep"``, ``"look"`` or ``"do not use"``.
    word: str
    reason: str
    #: The next command, or what to look at.
    next: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" + (f"; next: {self.next}" if self.next else "")


@dataclass(frozen=True)
class Example:
    """An image with the objects of both sides; objects of one side alone are marked."""

    name: str
    #: ``(H, W, 3) uint8``, RGB.
    reference: Array
    other: Array


def verdict_on(report: Report) -> Advice:
    for name, symptoms in zip((report.reference, report.other), report.symptoms):
        if symptoms:
            text = "; ".join(symptom.text for symptom in symptoms)
            return Advice(DO_NOT_USE, f"{text} (in {name})", symptoms[0].cure)
    look = f"look at the pictures{_WHERE}"
    worse = (
        "find the worst layers with: rknn-runtime accuracy NETWORK.onnx --for SOC "
        "--calibrate PHOTOS"
    )
    found = report.detections
    if report.average_precision is not None:
        first, second = (each.mean for each in report.average_precision)
        if first < _USELESS:
            reason = f"the reference reaches an mAP of {first:.3f} only: other labels, or misread"
            return Advice(DO_NOT_USE, reason, ASK)
        lost = first - second
        word = _word(-lost, (-_LOST[0], -_LOST[1]))
        reason = f"mAP is {abs(lost):.3f} {'lower' if lost > 0 else 'higher'} than the reference's"
    elif found is not None:
        both = len(found.matches)
        part = 2 * both / max(found.count + found.other_count, 1)
        word = _word(part, _OBJECTS)
        reason = (
            f"{both} objects are found by both, {len(found.missed)} are missed, "
            f"{len(found.extra)} are invented"
        )
        if word == KEEP and found.count < _ENOUGH:
            word, reason = LOOK, f"{reason}: too few to judge by"
            look = "give more photos"
    elif report.results is not None:
        word = _word(report.results.mean, _RESULTS)
        reason = f"{report.results.measure}: {report.results.mean:.3f} on average"
        look = "try the model on the task that it is for"
    elif report.outputs:
        cosine = min(row.worst_cosine for row in report.outputs)
        word = _word(cosine if math.isfinite(cosine) else 0.0, _COSINES)
        reason = f"the smallest cosine is {cosine:.4f}"
        if word == KEEP and any(sum(n > 1 for n in row.shape[1:]) > 1 for row in report.outputs):
            # One of boxes and scores is next to 1, also if all scores are lost.
            word, reason = LOOK, f"{reason}, which hides small values next to large ones"
            look = "try the model on the task that it is for"
    else:
        return Advice(LOOK, "there is nothing to compare", "")
    return Advice(word, reason, {KEEP: "", LOOK: look, DO_NOT_USE: worse}[word])


def _word(value: float, bounds: tuple[float, float]) -> str:
    return KEEP if value >= bounds[0] else LOOK if value >= bounds[1] else DO_NOT_USE


def example_of(
    name: str,
    pixels: Array,
    size: tuple[int, int],
    sides: tuple[Detections, Detections],
    only: tuple[set[int], set[int]],
) -> Example:
    """Draw the objects of both sides; `only` has the numbers of those that the other one lacks."""
    drawn = []
    for found, alone, mark in zip(sides, only, ("MISSED", "INVENTED")):
        captions = [
            f"{f'{mark} ' if i in alone else ''}{name} {confidence:.0%}"
            for i, (name, confidence) in enumerate(zip(found.names, found.confidence.tolist()))
        ]
        small, placed = for_page(pixels, found, size)
        drawn.append(placed.draw(small, captions=captions))
    return Example(name, *drawn)


def verdict_part(verdict: Advice) -> str:
    kind = verdict.word.replace(" ", "-")
    step = verdict.next.replace(_WHERE, "")
    then = f"<br>Next: {html.escape(step)}" if step else ""
    return (
        f'<p class="verdict {kind}"><b>{html.escape(verdict.word)}</b>: '
        f"{html.escape(verdict.reason)}{then}</p>"
    )


def accuracy_parts(report: Report) -> Iterator[str]:
    """Return the parts of a page about a comparison, without its verdict."""
    if report.examples:
        yield (
            "<h2>Images</h2><p>First the reference, then the judged side. MISSED is found by the "
            "reference alone, INVENTED by the judged side alone.</p>"
        )
    for each in report.examples:
        pair = [picture(each.reference, f"{each.name}: {report.reference}")]
        pair.append(picture(each.other, f"{each.name}: {report.other}"))
        yield f'<div class="pair">{"".join(pair)}</div>'
    found = report.detections
    if found is not None:
        yield f"<h2>Detections in {report.frames} images</h2>"
        rows = [
            ("of the reference", str(found.count)),
            ("of the judged side", str(found.other_count)),
            ("in both", str(len(found.matches))),
            ("missed", str(len(found.missed))),
            ("invented", str(len(found.extra))),
        ]
        if found.matches:
            rows += [
                ("mean IoU", f"{found.mean_iou:.4f}"),
                ("mean difference of confidence", f"{found.mean_confidence_difference:.4f}"),
            ]
        if found.mean_points_apart == found.mean_points_apart:  # not NaN
            rows.append(("keypoints apart", f"{found.mean_points_apart:.2f} pixels"))
        yield html_table((), rows)
        pairs = [(match.confidence, match.other_confidence) for match in found.matches]
        yield _scatter(pairs) + _histogram([match.iou for match in found.matches])
    if report.outputs:
        yield "<h2>Outputs</h2>"
        outputs = [
            (row.name, f"{row.cosine:.6f}", f"{row.worst_cosine:.6f}", f"{row.max_error:.4g}")
            for row in report.worst(len(report.outputs))
        ]
        yield html_table(("output", "cosine", "of the worst image", "largest error"), outputs)


def _scatter(points: Sequence[tuple[float, float]]) -> str:
    dots = "".join(
        f'<circle cx="{50 + 200 * x:.1f}" cy="{230 - 200 * y:.1f}" r="2.5" fill="#06c8"/>'
        for x, y in points
    )
    line = '<line x1="50" y1="230" x2="250" y2="30" stroke="#bbb"/>'
    axes = "confidence of the reference", "confidence of the judged side"
    return _plot(line + dots, "Confidences of what both find", *axes, 1.0)


def _histogram(values: Sequence[float]) -> str:
    counts, _ = np.histogram(values, 20, (0, 1))
    top = max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{50 + 10 * i}" y="{230 - 200 * int(n) / top:.1f}" width="9" '
        f'height="{200 * int(n) / top:.1f}" fill="#06c"/>'
        for i, n in enumerate(counts)
    )
    return _plot(bars, "Overlap of what both find", "IoU", "objects", top)


def _plot(marks: str, title: str, across: str, up: str, top: Any) -> str:
    """Return a plot with titled axes, from 0 to 1 across and from 0 to `top` up."""
    texts = [
        (150, 18, "middle", f"<tspan font-weight='bold'>{html.escape(title)}</tspan>"),
        (50, 246, "middle", "0"), (150, 246, "middle", "0.5"), (250, 246, "middle", "1"),
        (150, 264, "middle", html.escape(across)),
        (44, 234, "end", "0"), (44, 36, "end", f"{top:g}"),
    ]  # fmt: skip
    words = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in texts
    )
    return (
        '<svg viewBox="0 0 270 275" width="380" font-size="12" role="img">'
        '<rect x="50" y="30" width="200" height="200" fill="#fff" stroke="#ccc"/>'
        f'{marks}{words}<text x="16" y="130" transform="rotate(-90 16 130)" '
        f'text-anchor="middle">{html.escape(up)}</text></svg>'
    )
