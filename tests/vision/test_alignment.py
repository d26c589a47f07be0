"""Faces cut out upright, as networks for recognition take them."""

from __future__ import annotations

import sys

import guarded
import numpy as np
import pytest

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision import Detections
from rknn_runtime.vision.alignment import ARCFACE_POINTS, similarity

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (90, 140, 3), np.uint8)


def faces_at(*points):
    n = len(points)
    keypoints = np.ones((n, 5, 3), np.float32)
    keypoints[:, :, :2] = points
    return Detections(
        np.zeros((n, 4), np.float32),
        np.ones(n, np.float32),
        np.zeros(n, np.int32),
        keypoints=keypoints,
    )


def umeyama(points, target):
    """Umeyama's solution by a singular value decomposition, ``(2, 3)``."""
    mean, aim = points.mean(0), target.mean(0)
    u, s, v = np.linalg.svd((target - aim).T @ (points - mean) / len(points))
    sign = np.array([1, np.sign(np.linalg.det(u) * np.linalg.det(v))])
    turned = u * sign @ v * (s @ sign) / ((points - mean) ** 2).sum(axis=1).mean()
    return np.column_stack([turned, aim - turned @ mean])


def warped(image, matrix, size):
    """The image at the places that a map from the image comes from, in float64."""
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    y, x = np.mgrid[:size, :size]
    u, v, _ = np.tensordot(inverse, np.stack([x, y, np.ones_like(x)]), axes=1)
    black = np.zeros((image.shape[0] + 2, image.shape[1] + 2, image.shape[2]))
    black[1:-1, 1:-1] = image
    u, v = np.clip(u, -1, image.shape[1]) + 1, np.clip(v, -1, image.shape[0]) + 1
    left = np.minimum(np.floor(u), image.shape[1]).astype(int)
    top = np.minimum(np.floor(v), image.shape[0]).astype(int)
    fx, fy = (u - left)[..., None], (v - top)[..., None]
    above = black[top, left] * (1 - fx) + black[top, left + 1] * fx
    below = black[top + 1, left] * (1 - fx) + black[top + 1, left + 1] * fx
    return above * (1 - fy) + below * fy


def turned_face(scale, angle, shift):
    a = scale * np.exp(1j * angle)
    z = ARCFACE_POINTS @ (1, 1j) * a + complex(*shift)
    return np.stack([z.real, z.imag], axis=1) + RNG.normal(0, 1, (5, 2))


FACES = [
    turned_face(0.5, 0.1, (40, 15)),
    turned_face(1.4, -2.5, (150, 120)),  # partly outside
    turned_face(0.8, 1.2, (300, 300)),  # outside
]


@pytest.mark.parametrize("size", [112, 160, 31])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_crops_are_those_of_umeyamas_map(channels, size):
    """Within one grey level of the exact map and interpolation, black outside of the image."""
    image = np.resize(IMAGE, (90, 140, channels))
    found = faces_at(*FACES)
    crops = found.align(image, size)
    assert (crops.shape, crops.dtype) == ((3, size, size, channels), np.uint8)
    for points, crop in zip(found.keypoints[:, :, :2].astype(float), crops):
        expected = warped(image, umeyama(points, ARCFACE_POINTS * size / 112), size)
        assert np.abs(crop - expected).max() <= 0.51
    assert crops[0].any() and crops[1].any() and not crops[2].any()


def test_an_upright_face_is_cut_out_as_it_is():
    """Points of the template itself: nothing is turned or scaled."""
    image = RNG.integers(0, 256, (130, 120, 3), np.uint8)
    (crop,) = faces_at(np.add(ARCFACE_POINTS, [3, 7])).align(image)
    assert np.abs(crop.astype(int) - image[7:119, 3:115]).max() <= 1


def test_other_views_of_an_image_give_the_same():
    """Reversed channels and rows that are apart are read where they are."""
    found = faces_at(*FACES)
    expected = found.align(IMAGE)
    assert np.array_equal(found.align(IMAGE[..., ::-1]), expected[..., ::-1])
    wide = np.zeros((90, 150, 3), np.uint8)
    wide[:, :140] = IMAGE
    assert np.array_equal(found.align(wide[:, :140]), expected)
    assert found[:0].align(IMAGE).shape == (0, 112, 112, 3)


def test_similarity_is_never_a_reflection():
    """Points in a mirror are brought as close as turning can."""
    mirrored = ARCFACE_POINTS * [-1, 1]
    a, b = similarity(mirrored, ARCFACE_POINTS)
    matrix = umeyama(mirrored, ARCFACE_POINTS)
    np.testing.assert_allclose([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]], matrix)


@pytest.mark.parametrize(
    ("points", "match"),
    [
        (np.full((5, 2), 7.0), "points that are apart, got .* of face 1"),
        (np.full((5, 2), np.nan), "expected finite points"),
    ],
)
def test_points_that_tell_nothing_are_refused(points, match):
    """The message names the face."""
    with pytest.raises(ValueError, match=match):
        faces_at(FACES[0], points).align(IMAGE)


def test_objects_without_five_points_are_refused():
    """Boxes alone, or a person's 17 points."""
    with pytest.raises(ValueError, match="expected the five points of faces, got none"):
        Detections.empty().align(IMAGE)
    with pytest.raises(ValueError, match="expected the five points of faces, got 17"):
        Detections(
            np.zeros((1, 4), np.float32),
            np.ones(1, np.float32),
            np.zeros(1, np.int32),
            keypoints=np.zeros((1, 17, 3), np.float32),
        ).align(IMAGE)
    with pytest.raises(ValueError, match="size"):
        faces_at(FACES[0]).align(IMAGE, 0)


def warp(matrix, src=(5, 7, 21, 3), src_len=105, dst=(4, 6), dst_len=72):
    image = guarded.copy(np.arange(5 * 7 * 3, dtype=np.uint8))
    out = guarded.copy(np.zeros(72, np.uint8))
    status = lib.rkr_warp_affine_uint8(
        pointer(image), src_len, *src, ffi.new("double[6]", matrix), pointer(out), dst_len, *dst
    )
    return status, out


@pytest.mark.parametrize(
    "matrix",
    [
        (1, 0, 0, 0, 1, 0),
        (1, 0, -0.999999, 0, 1, 6.5),
        (0, 0, 6.999999, 0, 0, 4.999999),
        (1e30, -1e30, 1e300, 1e30, 1, 1),
        (float("nan"),) * 6,
        (float("inf"), 0, 0, 0, float("-inf"), 0),
    ],
)
def test_nothing_is_read_outside_of_the_image(matrix):
    """Whatever the map, with forbidden pages around image and result."""
    assert warp(matrix)[0] == lib.RKR_OK


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"src": (5, 7, 20, 3)}, lib.RKR_ERR_SHAPE),
        ({"src": (0, 7, 21, 3)}, lib.RKR_ERR_SHAPE),
        ({"src": (2**21, 7, 21, 3)}, lib.RKR_ERR_SHAPE),
        ({"src": (5, 7, sys.maxsize, 3)}, lib.RKR_ERR_OVERFLOW),
        ({"src": (5, 7, 21, 0)}, lib.RKR_ERR_ARGUMENT),
        ({"src": (5, 7, 35, 5)}, lib.RKR_ERR_ARGUMENT),
        ({"src_len": 104}, lib.RKR_ERR_SHAPE),
        ({"dst_len": 71}, lib.RKR_ERR_SHAPE),
        ({"dst": (4, 0)}, lib.RKR_ERR_SHAPE),
    ],
)
def test_impossible_sizes_are_refused(options, status):
    """In C, too; the result is not touched."""
    found, out = warp((1, 0, 0, 0, 1, 0), **options)
    assert (found, out.any()) == (status, False)
