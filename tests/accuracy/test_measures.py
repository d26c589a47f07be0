"""How alike texts, scenes and keypoints are."""

from __future__ import annotations

import numpy as np
import pytest
from planting import keypoints, scene, text

from rknn_runtime.conversion.accuracy import compare
from rknn_runtime.conversion.measures import MEASURES


def alike(task, ours, theirs, size):
    both = [[np.asarray(x, np.float32) for x in each] for each in (ours, theirs)]
    return MEASURES[task].alike(*both, size)


def steps(*best, classes=9):
    scores = np.full((1, len(best), classes), -5, np.float32)
    scores[0, np.arange(len(best)), best] = 5
    return scores


def test_texts_are_equal_or_not():
    """Whatever the number of blanks and repeats, wherever the blank is."""
    read = steps(0, 0, 3, 3, 0, 3, 4)
    assert alike("text-recognition", [read], [steps(0, 3, 0, 0, 3, 3, 4)], (32, 128)) == 1
    assert alike("text-recognition", [read], [steps(0, 3, 0, 0, 3, 3, 5)], (32, 128)) == 0
    last = [steps(8, 8, 3, 8, 3, 4)], [steps(3, 8, 3, 8, 8, 4)]
    assert alike("text-recognition", *last, (32, 128)) == 1
    plates = [each[0].transpose(0, 2, 1)[..., None] for each in last]  # LPRNet's form
    assert alike("text-recognition", [plates[0]], [plates[1]], (24, 94)) == 1


def test_boxes_of_text():
    """The mean IoU; a box that one side does not have counts as none."""
    ours = text.words_map()
    assert alike("text-detection", [ours], [ours], (64, 96)) == pytest.approx(1, abs=1e-6)
    theirs = ours.copy()
    theirs[..., 40:51, 10:71] = 0
    assert alike("text-detection", [ours], [theirs], (64, 96)) == pytest.approx(2 / 3, abs=1e-6)
    empty = np.zeros_like(ours)
    assert alike("text-detection", [ours], [empty], (64, 96)) == 0
    assert alike("text-detection", [empty], [empty], (64, 96)) == 1


def test_classes_of_pixels():
    """The mean IoU of the classes; of scores, numbers, and one channel."""
    ours = scene.scores()
    theirs = np.roll(ours, 1, axis=3)  # stripes of 3, 6 and 3 columns, one to the right
    theirs[:, :, :, 0] = ours[:, :, :, 0]
    expected = np.mean([3 / 4, 5 / 7, 2 / 3])
    assert alike("semantic", [ours], [theirs], (32, 48)) == pytest.approx(expected)
    numbers = [each.argmax(axis=1) for each in (ours, theirs)]
    vector = np.ones((1, 9), np.float32)
    assert alike("semantic", [vector, ours], [vector, theirs], (32, 48)) == pytest.approx(expected)
    assert alike("semantic", numbers[:1], numbers[1:], (32, 48)) == pytest.approx(expected)
    last = [each.transpose(0, 2, 3, 1) for each in (ours, theirs)]
    assert alike("semantic", last[:1], last[1:], (32, 48)) == pytest.approx(expected)
    one = [each[:, :1] for each in (ours, theirs)]
    assert alike("semantic", one[:1], one[1:], (32, 48)) == pytest.approx((3 / 4 + 8 / 9) / 2)


def test_keypoints_that_are_close():
    """Within a twentieth of the input's longer side."""
    axes = [np.zeros((1, 4, 2 * side), np.float32) for side in keypoints.SIZE[::-1]]
    for axis in axes:
        axis[..., 40] = 1
    moved = [axis.copy() for axis in axes]
    for k, far in enumerate((0, 6, 8, 40)):  # bins of half a pixel; 3.2 pixels count
        moved[0][0, k] = 0
        moved[0][0, k, 40 + far] = 1
    assert alike("keypoints", axes, moved, keypoints.SIZE) == 0.5


def test_a_report_has_the_measure_of_the_task():
    """That the file says, or the argument; the verdict goes by it, not by cosines."""
    made = scene.bundle(task="semantic")
    frames = [np.zeros((32, 48, 3), np.uint8)] * 2
    report = compare(made, made, frames)
    assert str(report.results) == "mIoU: 1.0000 on average, 1.0000 at worst (frame 0)"
    assert report.verdict.word == "keep" and "mIoU: 1.000" in report.verdict.reason
    assert report.to_dict()["results"]["measure"] == "mIoU"
    assert "mIoU: 1.0000" in str(report)
    good = scene.scores()
    bad = [[good], [np.roll(good, 6, axis=3)]]
    report = compare([[good], [good]], bad, frames, task="semantic")
    assert report.results.worst_frame == 1 and report.results.worst == 0
    assert report.verdict.word == "do not use"
    assert compare(scene.bundle(), scene.bundle(), frames).results is None
    with pytest.raises(ValueError, match="task: expected one of text-recognition"):
        compare(made, made, frames, task="detect")


def test_lines_are_placed_as_they_are_read(tmp_path):
    """At the left, not in the middle."""
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "line.png"
    image.new("RGB", (32, 16), (9, 9, 9)).save(path)
    made = text.recognizer(task="text-recognition", characters="abc")
    assert compare(made, made, [path]).results.mean == 1
