"""Time the decoding of heads, from native int8 buffers to `Detections`, and two baselines.

* numpy: the model zoo's Python examples (unpack, dequantize everything, softmax over
  all distributions, filter, suppress class by class), here without torch;
* C: a straightforward scalar decoder (decode_baseline.c), which also unpacks first; for RetinaFace
the model zoo's C++ example.

640x640, 80 classes, 30 objects that 6 cells each report, noise below the threshold; for RetinaFace
3 or 30 faces with five points.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from _timing import Case, Report, arguments, compiled
from native_tensors import deliver

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads import (
    YOLOV5_ANCHORS,
    AnchorDecoder,
    RetinaFaceDecoder,
    SingleOutputDecoder,
    SplitDecoder,
)

SIZE, CLASSES, OBJECTS, STRIDES = 640, 80, 30, (8, 16, 32)
CONF, IOU = 0.25, 0.45


class Tensor(ctypes.Structure):
    _fields_ = (
        ("packed", ctypes.c_void_p),
        ("planar", ctypes.c_void_p),
        ("zero_point", ctypes.c_int32),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("channels", "height", "width", "c2")),
    )


CANDIDATE = np.dtype([("box", "f4", 4), ("score", "f4"), ("class_id", "i4"), ("index", "i4")])


# ---- scenes ----


def scene(rng):
    """Yield box, class and the cells (branch, y, x, score) that report it."""
    for k in range(OBJECTS):
        branch = k % 3
        stride = STRIDES[branch]
        extent = rng.uniform(4, 8, 2) * stride
        centre = rng.uniform(extent / 2, SIZE - extent / 2)
        box = np.concatenate([centre - extent / 2, centre + extent / 2])
        x, y = (centre // stride).astype(int)
        n = SIZE // stride
        cells = [
            (branch, y + j, x + i, rng.uniform(0.3, 0.95))
            for j in (-1, 0, 1)
            for i in (0, 1)
            if 0 <= y + j < n and 0 <= x + i < n
        ]
        yield box, int(rng.integers(CLASSES)), cells


def noise(rng, shape):
    """Scores on background, as trained nets give them: median 0.0002, some up to 0.2."""
    return np.minimum(np.exp(rng.normal(-8.5, 1.5, shape)), 0.2).astype(np.float32)


def split_tensors(rng):
    grids = [SIZE // s for s in STRIDES]
    box = [rng.uniform(-6, 0, (64, n, n)).astype(np.float32) for n in grids]
    score = [noise(rng, (CLASSES, n, n)) for n in grids]
    for xyxy, class_id, cells in scene(rng):
        for branch, y, x, value in cells:
            stride = STRIDES[branch]
            left, top, right, bottom = xyxy / stride
            for side, distance in enumerate(
                (x + 0.5 - left, y + 0.5 - top, right - x - 0.5, bottom - y - 0.5)
            ):
                d = min(max(distance, 0), 14.9)
                bins = box[branch][16 * side : 16 * side + 16, y, x]
                bins[:] = -6
                bins[int(d)], bins[int(d) + 1] = (
                    np.log(int(d) + 1.01 - d),
                    np.log(d - int(d) + 0.01),
                )
            score[branch][class_id, y, x] = value
    sums = [np.clip(s.sum(axis=0, keepdims=True), 0, 1) for s in score]
    return [t for triple in zip(box, score, sums) for t in triple]


def single_tensor(rng):
    n = sum((SIZE // s) ** 2 for s in STRIDES)
    starts = np.cumsum([0] + [(SIZE // s) ** 2 for s in STRIDES])
    x = np.concatenate([rng.uniform(0, 1, (4, n)).astype(np.float32), noise(rng, (CLASSES, n))])
    for xyxy, class_id, cells in scene(rng):
        centred = [*(xyxy[:2] + xyxy[2:]) / 2, *(xyxy[2:] - xyxy[:2])]
        for branch, row, column, value in cells:
            p = starts[branch] + row * (SIZE // STRIDES[branch]) + column
            x[:4, p] = np.array(centred) / SIZE + rng.normal(0, 0.002, 4)
            x[4 + class_id, p] = value
    return [x[:, :, None]]


def anchor_tensors(rng):
    tensors = []
    for s in STRIDES:
        n = SIZE // s
        parts = [
            np.concatenate([rng.uniform(0.2, 0.8, (4, n, n)), noise(rng, (1 + CLASSES, n, n))])
            for _ in range(3)
        ]
        tensors.append(np.concatenate(parts).astype(np.float32))
    for xyxy, class_id, cells in scene(rng):
        centre, extent = (xyxy[:2] + xyxy[2:]) / 2, xyxy[2:] - xyxy[:2]
        for branch, row, column, value in cells:
            sizes = np.array(YOLOV5_ANCHORS[branch])
            a = np.abs(np.log(sizes / extent)).max(axis=1).argmin()
            cell = tensors[branch][85 * a : 85 * (a + 1), row, column]
            cell[:2] = np.clip((centre / STRIDES[branch] - [column, row] + 0.5) / 2, 0, 1)
            cell[2:4] = np.clip(np.sqrt(extent / sizes[a]) / 2, 0, 1)
            cell[4], cell[5 + class_id] = value, 0.95
    return tensors


#: Where points are in a face, as parts of its width and height.
FACE = np.array([(0.3, 0.4), (0.7, 0.4), (0.5, 0.6), (0.35, 0.8), (0.65, 0.8)])
PRIOR_SIDES = ((16, 32), (64, 128), (256, 512))


def priors():
    """Centre and size of RetinaFace's priors as parts of the input, ``(16800, 4)``."""
    rows = []
    for stride, sides in zip(STRIDES, PRIOR_SIDES):
        y, x = np.divmod(np.arange((SIZE // stride) ** 2), SIZE // stride)
        for_cell = [np.stack([x + 0.5, y + 0.5], 1) * stride, np.zeros((len(x), 2))]
        each = np.repeat(np.concatenate(for_cell, 1), 2, axis=0)
        each[:, 2:] = np.tile(np.array(sides)[:, None], (len(x), 2))
        rows.append(each / SIZE)
    return np.concatenate(rows).astype(np.float32)


def face_tensors(rng, n_faces=OBJECTS):
    """Boxes, scores after the softmax and points of all priors, each ``(columns, 16800, 1)``."""
    anchors = priors()
    n = len(anchors)
    starts = 2 * np.cumsum([0] + [(SIZE // s) ** 2 for s in STRIDES])
    box, points = rng.normal(0, 1, (4, n)), rng.normal(0, 3, (10, n))
    face = noise(rng, n)
    for k, (xyxy, _, cells) in enumerate(list(scene(rng))[:n_faces]):
        centre, extent = (xyxy[:2] + xyxy[2:]) / 2 / SIZE, (xyxy[2:] - xyxy[:2]) / SIZE
        for branch, row, column, value in cells:
            p = starts[branch] + 2 * (row * (SIZE // STRIDES[branch]) + column) + k % 2
            anchor = anchors[p]
            jitter = rng.normal(0, 0.002, 2)
            box[:2, p] = (centre + jitter - anchor[:2]) / anchor[2:] / 0.1
            box[2:, p] = np.log(extent / anchor[2:]) / 0.2
            at = (xyxy[:2] + FACE * (xyxy[2:] - xyxy[:2])) / SIZE
            points[:, p] = ((at - anchor[:2]) / anchor[2:] / 0.1).ravel()
            face[p] = value
    scores = np.stack([1 - face, face])
    return [x.astype(np.float32)[:, :, None] for x in (box, scores, points)]


def in_npu_memory(raw):
    """Copy to the start of a page, where a runtime's own buffers begin."""
    page = 4096
    memory = np.empty(raw.nbytes + page, np.uint8)
    start = -memory.ctypes.data % page
    copy = memory[start : start + raw.nbytes].view(raw.dtype).reshape(raw.shape)
    copy[...] = raw
    return copy


# ---- baseline in NumPy ----


def real_nchw(raw, attr):
    """Unpack NC1HWC2 and dequantize, as NumPy expressions."""
    _, channels, height, width = attr.shape
    nchw = raw.transpose(0, 1, 4, 2, 3).reshape(1, -1, height, width)[:, :channels]
    native = attr.native
    return (nchw.astype(np.float32) - native.zero_point) * np.float32(native.scale)


def numpy_nms(boxes, scores):
    x, y = boxes[:, 0], boxes[:, 1]
    w, h = boxes[:, 2] - x, boxes[:, 3] - y
    areas, order, keep = w * h, np.argsort(-scores, kind="stable"), []
    while order.size:
        i, rest = order[0], order[1:]
        keep.append(i)
        iw = np.minimum(x[i] + w[i], x[rest] + w[rest]) - np.maximum(x[i], x[rest])
        ih = np.minimum(y[i] + h[i], y[rest] + h[rest]) - np.maximum(y[i], y[rest])
        inter = np.maximum(0, iw) * np.maximum(0, ih)
        order = rest[inter / (areas[i] + areas[rest] - inter) <= IOU]
    return np.array(keep)


def numpy_finish(boxes, scores, objectness=1):
    """Return boxes, confidence, class and position of what remains."""
    class_id, confidence = scores.argmax(axis=1), scores.max(axis=1) * objectness
    passed = np.flatnonzero(confidence >= CONF)
    parts = []
    for c in set(class_id[passed].tolist()):
        rows = passed[class_id[passed] == c]
        parts.append(rows[numpy_nms(boxes[rows], confidence[rows])])
    kept = np.concatenate(parts)
    return boxes[kept], confidence[kept], class_id[kept], kept


def flat(x):
    return x.transpose(0, 2, 3, 1).reshape(-1, x.shape[1])


def grid_of(x):
    height, width = x.shape[2:]
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    return np.stack([column, row])[None].astype(np.float32)


def distances(box):
    _, c, h, w = box.shape
    bins = box.reshape(1, 4, c // 4, h, w)
    e = np.exp(bins - bins.max(axis=2, keepdims=True))
    p = e / e.sum(axis=2, keepdims=True)
    return (p * np.arange(c // 4, dtype=np.float32).reshape(1, 1, -1, 1, 1)).sum(axis=2)


def upright(box):
    d, centre = distances(box), grid_of(box) + 0.5
    xyxy = np.concatenate([centre - d[:, :2], centre + d[:, 2:]], axis=1)
    return flat(xyxy * (SIZE // box.shape[2]))


def numpy_split(raw, attrs):
    boxes = [upright(real_nchw(r, a)) for r, a in zip(raw[::3], attrs[::3])]
    scores = np.concatenate([flat(real_nchw(r, a)) for r, a in zip(raw[1::3], attrs[1::3])])
    return numpy_finish(np.concatenate(boxes), scores)[:3]


def numpy_single(raw, attrs):
    x = flat(real_nchw(raw[0], attrs[0]))
    half = x[:, 2:4] / 2
    boxes = np.concatenate([x[:, :2] - half, x[:, :2] + half], axis=1) * SIZE
    return numpy_finish(boxes, x[:, 4:])[:3]


def numpy_anchors(raw, attrs):
    boxes, scores, objectness = [], [], []
    for tensor, attr, sizes in zip(raw, attrs, YOLOV5_ANCHORS):
        x = real_nchw(tensor, attr)
        x = x.reshape(3, 85, *x.shape[2:])
        stride = SIZE // x.shape[2]
        centre = (x[:, :2] * 2 - 0.5 + grid_of(x)) * stride
        half = (x[:, 2:4] * 2) ** 2 * np.array(sizes, np.float32).reshape(3, 2, 1, 1) / 2
        boxes.append(flat(np.concatenate([centre - half, centre + half], axis=1)))
        objectness.append(flat(x[:, 4:5]).ravel())
        scores.append(flat(x[:, 5:]))
    return numpy_finish(*(np.concatenate(part) for part in (boxes, scores, objectness)))[:3]


def numpy_faces(raw, attrs, anchors=priors()):  # noqa: B008
    loc, conf, points = (
        (x[0].astype(np.float32) - a.native.zero_point) * np.float32(a.native.scale)
        for x, a in zip(raw, attrs)
    )
    centre = anchors[:, :2] + loc[:, :2] * 0.1 * anchors[:, 2:]
    half = anchors[:, 2:] * np.exp(loc[:, 2:] * 0.2) / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1) * SIZE
    columns = [
        anchors[:, :2] + points[:, 2 * k : 2 * k + 2] * 0.1 * anchors[:, 2:] for k in range(5)
    ]
    points, scores = np.concatenate(columns, axis=1) * SIZE, conf[:, 1]
    passed = np.where(scores >= CONF)[0]
    boxes, scores, points = boxes[passed], scores[passed], points[passed]
    keep = numpy_nms(boxes, scores)
    return boxes[keep], scores[keep], np.zeros(len(keep), int), points[keep]


# ---- baseline in C ----


def c_faces(library, raw, attrs):
    """Return a function that runs the C baseline of RetinaFace on these buffers."""
    tensors = (Tensor * 3)()
    for tensor, array, attr in zip(tensors, raw, attrs):
        tensor.packed = array.ctypes.data
        tensor.zero_point, tensor.scale = attr.native.zero_point, attr.native.scale
    anchors, n = priors(), raw[0].shape[1]
    floats, points = np.empty(16 * n, np.float32), np.empty((30000, 10), np.float32)
    work, out = np.empty(30000, CANDIDATE), np.empty(30000, CANDIDATE)
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (floats, points, work, out)]
    numbers = [ctypes.c_float(x) for x in (SIZE, CONF, IOU)]

    def run(_kept_alive=(raw, anchors, floats, work)):
        pointer = anchors.ctypes.data_as(ctypes.c_void_p)
        count = library.baseline_retinaface(tensors, pointer, n, *numbers, *pointers)
        found = out[:count]
        return found["box"], found["score"], found["class_id"], points[:count]

    return run


def c_baseline(library, kind, raw, attrs):
    """Return a function that runs the C baseline on these buffers."""
    if kind == "faces":
        return c_faces(library, raw, attrs)
    tensors = (Tensor * len(raw))()
    kept_alive = [raw]
    for tensor, array, attr in zip(tensors, raw, attrs):
        planar = np.empty(attr.shape, np.int8)
        kept_alive.append(planar)
        tensor.packed, tensor.planar = array.ctypes.data, planar.ctypes.data
        tensor.zero_point, tensor.scale = attr.native.zero_point, attr.native.scale
        tensor.channels, tensor.height, tensor.width = attr.shape[1:]
        tensor.c2 = array.shape[-1]
    work, out = np.empty(30000, CANDIDATE), np.empty(30000, CANDIDATE)
    sizes = np.array(YOLOV5_ANCHORS, np.float32)
    pointers = (work.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
    rest = (ctypes.c_float(CONF), ctypes.c_float(IOU), *pointers)
    call, arguments = {
        "split": (library.baseline_split, (3, CLASSES, ctypes.c_float(8))),
        "single": (library.baseline_single, (CLASSES, ctypes.c_float(SIZE))),
        "anchors": (
            library.baseline_anchors,
            (3, 3, sizes.ctypes.data_as(ctypes.c_void_p), CLASSES, ctypes.c_float(8)),
        ),
    }[kind]
    kept_alive += [work, sizes]

    def run(_kept_alive=kept_alive):
        n = call(tensors, *arguments, *rest)
        return out["box"][:n], out["score"][:n], out["class_id"][:n]

    return run


# ---- comparison ----


def check(found, other, name):
    """Refuse to time results that are not the same boxes."""
    boxes, confidence, class_id, *points = other
    assert len(found) == len(boxes) >= min(3, OBJECTS // 2), (name, len(found), len(boxes))
    order = [
        np.lexsort((b[:, 0], s, c))
        for b, s, c in (
            (found.xyxy, found.confidence, found.class_id),
            (boxes, confidence, class_id),
        )
    ]
    assert np.array_equal(found.class_id[order[0]], class_id[order[1]]), name
    assert np.allclose(found.confidence[order[0]], confidence[order[1]], atol=1e-5), name
    assert np.allclose(found.xyxy[order[0]], boxes[order[1]], atol=0.02), name
    for each in points:
        mine = found.keypoints[order[0]][:, :, :2].reshape(-1, 10)
        assert np.allclose(mine, each[order[1]], atol=0.02), name


def megahertz():
    """Return the clock that the kernel states, or 0."""
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines():
        if line.startswith("cpu MHz"):
            return float(line.split(":")[1])
    return 0.0


HEADS = {
    "v8 split, 9 outputs": ("split", "c2=16", split_tensors, numpy_split, SplitDecoder, 8400),
    "v8 single output": ("single", "c2=16", single_tensor, numpy_single, SingleOutputDecoder, 8400),
    "v8 single output of rank 3": (
        "single",
        "rank3",
        single_tensor,
        numpy_single,
        SingleOutputDecoder,
        8400,
    ),
    "v5, 3 outputs": ("anchors", "c2=16", anchor_tensors, numpy_anchors, AnchorDecoder, 25200),
    "RetinaFace, 3 faces": (
        "faces",
        "transposed",
        partial(face_tensors, n_faces=3),
        numpy_faces,
        RetinaFaceDecoder,
        16800,
    ),
    "RetinaFace": ("faces", "transposed", face_tensors, numpy_faces, RetinaFaceDecoder, 16800),
}


def main():
    options = arguments(__doc__.splitlines()[0])
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report = Report(options)
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(compiled("decode_baseline.c", folder))
        for name, (kind, form, make, in_numpy, decoder_class, cells) in HEADS.items():
            tensors = make(np.random.default_rng(0))
            made = [
                deliver(x[None], "int8", form, index=i, name=f"out{i}")
                for i, x in enumerate(tensors)
            ]
            attrs, memory = [m[0] for m in made], [in_npu_memory(m[1]) for m in made]
            decoder = decoder_class(attrs if kind != "single" else attrs[0], (SIZE, SIZE))
            raw = memory
            if form == "rank3":  # for the baselines: NC1HWC2 with one lane is the same memory
                attrs = [deliver(x[None], "int8", "c2=16")[0] for x in tensors]
                raw = [array.reshape(*array.shape, 1, 1) for array in memory]
            baseline = c_baseline(library, kind, raw, attrs)
            found = decoder(memory)
            check(found, in_numpy(raw, attrs), f"{name}: numpy")
            check(found, baseline(), f"{name}: C")
            plain = [Case("decoder, plain C", lambda d=decoder, r=memory: d(r), lib.RKR_CPU_PLAIN)]
            cases = [
                Case("decoder", lambda d=decoder, r=memory: d(r)),
                Case("its native part", lambda d=decoder: lib.rkr_yolo_decode(d._native, ffi.NULL)),
                *(plain if lib.rkr_cpu_best() != lib.RKR_CPU_PLAIN else []),
                Case("NumPy", lambda f=in_numpy, r=raw, a=attrs: f(r, a)),
                Case("scalar C", baseline),
            ]
            n_bytes = sum(array.nbytes for array in raw)
            title = f"{name}, {len(found)} detections"
            report.compare(title, n_bytes, cases, ["decoder"], "in")
            if not options.json:
                whole, native = (report.records[k - len(cases)]["p50_us"] for k in (0, 1))
                print(f"  Python takes {whole - native:.1f} us of it; ", end="")
                print(f"native part: {native * megahertz() / cells:.2f} cycles per cell")
    report.finish()


if __name__ == "__main__":
    main()
