"""Decoding of masks, keypoints and oriented boxes, against NumPy as in the zoo's examples.

From native buffers (int8; keypoints float16) to `Detections`, 640x640, 30 objects that 6 cells
each report, noise below the threshold. The baseline unpacks and dequantizes everything and
decodes every cell; then

* segmentation: coefficients times prototypes for the whole image, sigmoid, bilinear
  interpolation of the whole mask, cut to the box;
* oriented boxes: the overlap of rectangles pair by pair, where their upright hulls meet.
"""

from __future__ import annotations

import os

# Before NumPy starts: threads that share one core wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from _timing import Case, Report, arguments
from bench_decode import (
    CONF,
    IOU,
    OBJECTS,
    SIZE,
    distances,
    flat,
    grid_of,
    numpy_finish,
    real_nchw,
    split_tensors,
    upright,
)
from native_tensors import deliver
from reference.yolo import corners_of, quadrangle_iou

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads import (
    SplitOrientedDecoder,
    SplitPoseDecoder,
    SplitSegmentationDecoder,
)

PROTOTYPES, KEYPOINTS = 32, 17


# ---- scenes ----


def deliver_all(tensors, dtype="int8"):
    made = [
        deliver(x[None], dtype, "c2=16", index=i, name=f"out{i}") for i, x in enumerate(tensors)
    ]
    return [m[0] for m in made], [m[1] for m in made]


def logit(p):
    return np.log(p / (1 - p)).astype(np.float32)


def segmentation(rng):
    """13 outputs; masks of a few smooth blobs each."""
    tensors, base = [], split_tensors(rng)
    for i in range(0, 9, 3):
        grid = base[i].shape[1:]
        tensors += [*base[i : i + 3], rng.normal(0, 1, (PROTOTYPES, *grid)).astype(np.float32)]
    coarse = rng.normal(0, 1, (PROTOTYPES, 9, 9))
    smooth = interpolation(9, 160)
    tensors.append((smooth @ coarse @ smooth.T).astype(np.float32))
    return deliver_all(tensors)


def pose(rng):
    """4 outputs: 64 + 1 channels per scale, and the keypoints."""
    base = split_tensors(rng)
    joined = [
        np.concatenate([base[i], logit(base[i + 1].max(axis=0, keepdims=True))])
        for i in range(0, 9, 3)
    ]
    attrs, raw = deliver_all(joined)
    cells = sum(x.shape[1] * x.shape[2] for x in joined)
    points = rng.uniform(0, SIZE, (1, KEYPOINTS, 3, cells)).astype(np.float32)
    attr, raw_points, _ = deliver(points, "float16", "c2=16", index=3, name="keypoints")
    return [*attrs, attr], [*raw, raw_points]


def oriented(rng):
    """4 outputs: 64 + 15 channels per scale, and the angles."""
    base = split_tensors(rng)
    joined = []
    for i in range(0, 9, 3):
        grouped = base[i + 1][:75].reshape(15, 5, *base[i].shape[1:]).max(axis=1)
        joined.append(np.concatenate([base[i], logit(grouped)]))
    attrs, raw = deliver_all(joined)
    cells = sum(x.shape[1] * x.shape[2] for x in joined)
    angles = np.linspace(0, 1, cells, dtype=np.float32).reshape(1, 1, 1, cells)
    attr, raw_angles, _ = deliver(angles, "int8", "rank3", index=3, name="angles")
    return [*attrs, attr], [*raw, raw_angles]


# ---- NumPy ----


def interpolation(n_cells, n_pixels):
    """The matrix of bilinear weights from cells to pixels."""
    position = np.clip((np.arange(n_pixels) + 0.5) * n_cells / n_pixels - 0.5, 0, n_cells - 1)
    return np.maximum(0, 1 - np.abs(position[:, None] - np.arange(n_cells))).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_segmentation(raw, attrs):
    real = [real_nchw(r, a) for r, a in zip(raw, attrs)]
    boxes = np.concatenate([upright(box) for box in real[:12:4]])
    scores = np.concatenate([flat(score) for score in real[1:12:4]])
    coefficients = np.concatenate([flat(c) for c in real[3:12:4]])
    found = numpy_finish(boxes, scores)
    prototypes = real[12][0]
    small = sigmoid(coefficients[found[3]] @ prototypes.reshape(PROTOTYPES, -1))
    weights = interpolation(prototypes.shape[1], SIZE)
    masks = weights @ small.reshape(-1, *prototypes.shape[1:]) @ weights.T
    x1, y1, x2, y2 = (found[0][:, k, None, None] for k in range(4))
    at = np.arange(SIZE) + 0.5
    inside = (at >= x1) & (at < x2) & (at[:, None] >= y1) & (at[:, None] < y2)
    return (*found[:3], (masks > 0.5) & inside)


def numpy_pose(raw, attrs):
    real = [real_nchw(r, a) for r, a in zip(raw[:3], attrs)]
    boxes = np.concatenate([upright(x[:, :64]) for x in real])
    scores = np.concatenate([flat(sigmoid(x[:, 64:])) for x in real])
    points = raw[3].transpose(0, 1, 4, 2, 3).reshape(-1, *raw[3].shape[2:4])[:KEYPOINTS]
    found = numpy_finish(boxes, scores)
    return (*found[:3], points.astype(np.float32)[..., found[3]].transpose(2, 0, 1))


def hulls_meet(a, b):
    return bool((a.min(axis=0) < b.max(axis=0)).all() and (b.min(axis=0) < a.max(axis=0)).all())


def numpy_oriented(raw, attrs):
    real = [real_nchw(r, a) for r, a in zip(raw[:3], attrs)]
    native = attrs[3].native
    angles = (raw[3].ravel().astype(np.float32) - native.zero_point) * np.float32(native.scale)
    angles = (angles - 0.25) * np.float32(np.pi)
    centred, start = [], 0
    for x in real:
        d = flat(distances(x[:, :64]))
        angle = angles[start : start + len(d)]
        start += len(d)
        off, centre = (d[:, 2:] - d[:, :2]) / 2, flat(grid_of(x) + 0.5)
        cosine, sine = np.cos(angle), np.sin(angle)
        centre[:, 0] += off[:, 0] * cosine - off[:, 1] * sine
        centre[:, 1] += off[:, 0] * sine + off[:, 1] * cosine
        centred.append(np.concatenate([centre, d[:, :2] + d[:, 2:]], axis=1) * (SIZE // x.shape[2]))
    corners = corners_of(np.concatenate(centred), angles)
    scores = np.concatenate([flat(sigmoid(x[:, 64:])) for x in real])
    class_id, confidence = scores.argmax(axis=1), scores.max(axis=1)
    kept = []
    for i in np.argsort(-confidence, kind="stable")[: (confidence >= CONF).sum()]:
        if not any(
            class_id[i] == class_id[k]
            and hulls_meet(corners[i], corners[k])
            and quadrangle_iou(corners[i], corners[k]) > IOU
            for k in kept
        ):
            kept.append(i)
    hull = np.concatenate([corners[kept].min(axis=1), corners[kept].max(axis=1)], axis=1)
    return hull, confidence[kept], class_id[kept], corners[kept]


# ---- comparison ----


def check(found, other, extra, name):
    """Refuse to time results that are not the same."""
    boxes, confidence, class_id, values = other
    assert len(found) == len(boxes) >= OBJECTS // 2, (name, len(found), len(boxes))
    order = np.lexsort((boxes[:, 0], -confidence))
    ours = np.lexsort((found.xyxy[:, 0], -found.confidence))
    assert np.array_equal(found.class_id[ours], class_id[order]), name
    assert np.allclose(found.confidence[ours], confidence[order], atol=1e-5), name
    assert np.allclose(found.xyxy[ours], boxes[order], atol=0.02), name
    mine, values = getattr(found, extra)[ours], values[order]
    if extra == "mask":  # the baseline interpolates after the sigmoid
        common, union = (mine & values).sum(axis=(1, 2)), (mine | values).sum(axis=(1, 2))
        assert (common >= 0.99 * union).all() and union.any(), name
    else:
        assert np.allclose(mine, values, atol=0.02), name


TASKS = {
    "v8-seg, 13 outputs": (segmentation, numpy_segmentation, SplitSegmentationDecoder, "mask"),
    "v8-pose, 4 outputs": (pose, numpy_pose, SplitPoseDecoder, "keypoints"),
    "v8-obb, 4 outputs": (oriented, numpy_oriented, SplitOrientedDecoder, "xyxyxyxy"),
}


def main():
    options = arguments(__doc__.splitlines()[0])
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report = Report(options)
    for name, (make, in_numpy, decoder_class, extra) in TASKS.items():
        attrs, raw = make(np.random.default_rng(0))
        decoder = decoder_class(attrs, (SIZE, SIZE))
        found = decoder(raw)
        check(found, in_numpy(raw, attrs), extra, name)
        cases = [
            Case("decoder", lambda d=decoder, r=raw: d(r)),
            Case("boxes alone", lambda d=decoder: lib.rkr_yolo_decode(d._native, ffi.NULL)),
            Case("NumPy", lambda f=in_numpy, r=raw, a=attrs: f(r, a)),
        ]
        n_bytes = sum(array.nbytes for array in raw)
        report.compare(f"{name}, {len(found)} detections", n_bytes, cases, ["decoder"], "in")
    report.finish()


if __name__ == "__main__":
    main()
