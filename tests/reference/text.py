"""Boxes of text from a map of probabilities, and characters from steps."""

from __future__ import annotations

import numpy as np


def parts(text):
    """Flood ``(h, w) bool`` in 8 directions; the cells ``(n, 2)``, y and x, of each part."""
    left = {tuple(cell) for cell in np.argwhere(text).tolist()}
    found = []
    while left:
        todo, cells = [left.pop()], []
        while todo:
            y, x = todo.pop()
            cells.append((y, x))
            around = {(y + i, x + k) for i in (-1, 0, 1) for k in (-1, 0, 1)} & left
            left -= around
            todo += around
        found.append(np.array(cells))
    return found


def smallest_rectangle(points):
    """Centre, direction and half sides of the rectangle with the smallest area around points.

    One side lies on a side of the convex hull, and so on two of the points: all pairs are tried.
    """
    best = (np.inf, points[0].astype(float), np.array([1.0, 0.0]), np.zeros(2))
    ends = np.array([p for p in points if (points == p).all(1).any()])
    for a in ends:
        for b in ends:
            if (a == b).all():
                continue
            u = (b - a) / np.hypot(*(b - a))
            s, t = points @ u, points @ (-u[1], u[0])
            if t.min() < (a @ (-u[1], u[0])) - 1e-9:  # the points must be on one side
                continue
            sides = np.array([np.ptp(s), np.ptp(t)])
            if sides.prod() < best[0] - 1e-9:
                middle = (s.min() + s.max()) / 2 * u + (t.min() + t.max()) / 2 * np.array(
                    [-u[1], u[0]]
                )
                best = (sides.prod(), middle, u, sides / 2)
    return best[1:]


def text_boxes(values, threshold, box_threshold, unclip, min_side):
    """Return ``(area, centre, score)`` of each box that is kept, in cells."""
    height, width = values.shape
    y, x = np.mgrid[0:height, 0:width]
    found = []
    for cells in parts(values >= threshold):
        edge = [
            c for c in cells
            if c[1] in (cells[cells[:, 0] == c[0], 1].min(), cells[cells[:, 0] == c[0], 1].max())
        ]  # fmt: skip
        centre, u, half = smallest_rectangle(np.array(edge)[:, ::-1].astype(float))
        if 2 * half.min() < min_side:
            continue
        dx, dy = x - centre[0], y - centre[1]
        inside = (np.abs(dx * u[0] + dy * u[1]) <= half[0] + 1e-6) & (
            np.abs(dy * u[0] - dx * u[1]) <= half[1] + 1e-6
        )
        score = values[inside].mean()
        if score < box_threshold:
            continue
        half = half + half.prod() / half.sum() * unclip
        if 2 * half.min() >= min_side + 2:
            found.append((4 * half.prod(), centre + 0.5, score))
    return found


def ctc_greedy(scores, blank):
    """``(steps, classes)``: the classes that are read and the steps of them."""
    best = np.nan_to_num(scores, nan=-np.inf).argmax(axis=1)
    kept = [i for i, k in enumerate(best) if k != blank and (i == 0 or best[i - 1] != k)]
    return best[kept], kept
