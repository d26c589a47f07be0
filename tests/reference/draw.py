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
