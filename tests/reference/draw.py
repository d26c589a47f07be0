"""Boxes, lines and stencils on images in float64, from the definition, over whole images."""

from __future__ import annotations

import numpy as np


def blend(image, color, weight):
    """Blend a colour over ``(H, W, 3)`` by weights ``(H, W)`` of 0..255; rounded."""
    weight = np.asarray(weight, int)[..., None]
    exact = (image.astype(int) * (255 - weight) + np.array([*color], int) * weight) / 255
    return np.floor(exact + 0.5).astype(np.uint8)


def fill_boxes(image, boxes, colors):
    for (left, top, right, bottom), color in zip(np.maximum(boxes, 0), colors):
        image[top:bottom, left:right] = color
    return image


def coverage(height, width, line):
    """Return what part of each pixel a line covers: by the distance of its centre."""
    x1, y1, x2, y2, radius = np.asarray(line, np.float64)
    y, x = np.mgrid[:height, :width] + 0.5
    dx, dy = x2 - x1, y2 - y1
    square = dx * dx + dy * dy
    part = np.clip(((x - x1) * dx + (y - y1) * dy) / square, 0, 1) if square else 0 * x
    distance = np.hypot(x - x1 - part * dx, y - y1 - part * dy)
    return np.clip(radius + 0.5 - distance, 0, 1)


def draw_lines(image, lines, colors):
    for line, color in zip(lines, colors):
        weight = np.floor(coverage(*image.shape[:2], line) * 255 + 0.5)
        image = blend(image, color, weight)
    return image


def blend_stencil(image, stencil, left, top, color):
    weight = np.zeros(image.shape[:2], int)
    for y, row in enumerate(stencil):
        for x, value in enumerate(row):
            if 0 <= top + y < weight.shape[0] and 0 <= left + x < weight.shape[1]:
                weight[top + y, left + x] = value
    return blend(image, color, weight)


def place_captions(boxes, widths, height, size):
    """Return where captions go, one after the other, of the six places that each may have."""
    taken, corners = [], []
    rows, columns = size
    for box, width in zip(boxes, widths):
        left, top = (int(np.floor(v)) for v in box[:2])
        right, bottom = (int(np.ceil(v)) for v in box[2:])
        if right <= 0 or bottom <= 0 or left >= columns or top >= rows:
            corners.append((-1, -1))
            continue
        wanted = [
            *((left, top - height), (right - width, top - height), (left, bottom)),
            *((left, top), (left, bottom - height), (right - width, bottom - height)),
        ]
        x_end, y_end = max(columns - width, 0), max(rows - height, 0)
        places = [(min(max(x, 0), x_end), min(max(y, 0), y_end)) for x, y in wanted]
        stays = [place[1] == want[1] for place, want in zip(places, wanted)]
        order = [p for p, s in zip(places, stays) if s] + [
            p for p, s in zip(places, stays) if not s
        ]
        fields = [(x, y, x + width, y + height) for x, y in order]
        free = [
            f
            for f in fields
            if all(f[0] >= t[2] or t[0] >= f[2] or f[1] >= t[3] or t[1] >= f[3] for t in taken)
        ]
        field = (free or fields)[0]
        taken.append(field)
        corners.append(field[:2])
    corners = np.array(corners, np.int32).reshape(-1, 2)
    corners[_hides(corners, widths, height, boxes)] = -1
    return corners


def _hides(corners, widths, height, boxes):
    """Tell which captions hide most of a box, or an earlier caption."""
    first_x, first_y = corners.T.astype(np.float64)
    last_x = first_x + widths
    x1, y1, x2, y2 = boxes.T.astype(np.float64)
    left, top, right = first_x[:, None], first_y[:, None], last_x[:, None]
    across = np.minimum(right, x2) - np.maximum(left, x1)
    down = np.minimum(top + height, y2) - np.maximum(top, y1)
    least = 0.4 * np.maximum((x2 - x1) * (y2 - y1), 1)
    hides = np.maximum(across, 0) * np.maximum(down, 0) > least
    meets = (left < last_x) & (first_x < right) & (abs(top - first_y) < height)
    return (hides | np.tril(meets, -1) & (first_x >= 0)).any(axis=1)
