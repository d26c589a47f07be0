"""Objects that keep their number over frames."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest

from rknn_runtime.vision import Detections, Tracker

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of its own imports are none of ours
    trackers = pytest.importorskip("trackers")


def frame(step, *, reverse=False):
    """Two confident objects that approach each other, and an uncertain one."""
    boxes = [(10 + 5 * step, 10, 50 + 5 * step, 60), (200 - 4 * step, 90, 260 - 4 * step, 180)]
    boxes = np.array([*boxes, (300, 300, 320, 320)], np.float32)
    order = [2, 1, 0] if reverse else [0, 1, 2]
    mask = np.zeros((3, 8, 8), np.bool_)
    mask[1] = True
    return Detections(
        boxes[order],
        np.array([0.9, 0.8, 0.3], np.float32)[order],
        np.array([0, 1, 1], np.int32)[order],
        mask=mask[order],
        labels=["cup", "ball"],
    )


@pytest.mark.parametrize("with_times", [False, True])
def test_objects_keep_their_numbers(with_times):
    """They keep them in any order, which stays; objects below all thresholds have none."""
    tracker = Tracker()
    for step in range(8):
        given = frame(step, reverse=step % 2 == 1)
        found = tracker(given, step / 25 if with_times else None)
        assert np.array_equal(found.xyxy, given.xyxy) and np.array_equal(found.mask, given.mask)
        numbers = [-1, -1, -1] if step == 0 else [0, 1, -1]
        assert found.tracker_id.tolist() == numbers[:: -1 if step % 2 else 1]
        assert (found.labels, given.tracker_id) == (given.labels, None)
    assert tracker(Detections.empty()).tracker_id.tolist() == []


def test_options_and_other_trackers():
    """A lower threshold begins more tracks; another tracker may do it."""
    tracker = Tracker(track_activation_threshold=0.2, high_conf_det_threshold=0.2)
    tracker(frame(0))
    assert sorted(tracker(frame(1)).tracker_id.tolist()) == [0, 1, 2]
    other = Tracker(trackers.SORTTracker(track_activation_threshold=0.2))
    for step in range(5):
        found = other(frame(step))
    assert len(set(found.tracker_id.tolist()) - {-1}) == 3
    with pytest.raises(TypeError, match="tracker: expected None with options, got SORTTracker"):
        Tracker(trackers.SORTTracker(), frame_rate=10)
    with pytest.raises(TypeError, match="tracker: expected one of trackers, got int"):
        Tracker(3)
    with pytest.raises(TypeError, match="no_such_option"):
        Tracker(no_such_option=1)


def test_a_gap_is_as_long_as_its_time():
    """An object that comes back after the buffer, by the time of the frames, is another one."""
    for seconds, numbers in ((0.5, [0, 1, -1]), (5.0, [-1, -1, -1])):
        tracker = Tracker()
        for step in range(3):
            tracker(frame(0), step / 25)
        assert tracker(frame(0), 2 / 25 + seconds).tracker_id.tolist() == numbers


def test_numbers_go_where_the_objects_go():
    """Selections, one object, dictionaries, JSON, CSV and supervision have them."""
    tracker = Tracker()
    tracker(frame(0))
    found = tracker(frame(1))
    assert found[found.class_id == 1].tracker_id.tolist() == [1, -1]
    assert [one.tracker_id for one in found] == [0, 1, -1]
    assert found != frame(1) and found == found[:]
    assert (
        "tracked" in repr(found) and "track 1" in repr(found[1]) and "track" not in repr(found[2])
    )
    plain = Detections(found.xyxy, found.confidence, found.class_id, tracker_id=found.tracker_id)
    for rows in (json.loads(plain.to_json()), plain.to_dict()):
        assert [row["tracker_id"] for row in rows["detections"]] == [0, 1, -1]
        assert rows["detections"] == [one.to_dict() for one in plain]
    lines = plain.to_csv().splitlines()
    assert lines[0].endswith(",tracker_id") and [x.split(",")[-1] for x in lines[1:]] == [
        "0", "1", "-1",
    ]  # fmt: skip
    assert found.to_supervision().tracker_id.tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match=r"tracker_id: expected shape \(3\)"):
        Detections(found.xyxy, found.confidence, found.class_id, tracker_id=np.zeros(2, np.int32))


def test_numbers_are_drawn():
    """The number is in the caption, after the name; colours may follow the tracks."""
    pytest.importorskip("PIL")
    tracker = Tracker()
    tracker(frame(0))
    found, image = tracker(frame(1)), np.zeros((400, 400, 3), np.uint8)
    found = Detections(
        found.xyxy, found.confidence, found.class_id, tracker_id=found.tracker_id, labels=["a", "b"]
    )
    bare = Detections(
        found.xyxy, found.confidence, np.arange(3, dtype=np.int32), labels=["a #0", "b #1", "b"]
    )
    by_hand, drawn = (each.draw(image, color_by="instance") for each in (bare, found))
    assert np.array_equal(drawn, by_hand)
    by_track = found.draw(image, color_by="track", captions=False)
    same = Detections(found.xyxy, found.confidence, found.tracker_id)
    assert np.array_equal(by_track, same.draw(image, captions=False))
    with pytest.raises(ValueError, match=r"color_by: expected .* without tracks, got"):
        bare.draw(image, color_by="track")


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "trackers", None)
    with pytest.raises(ImportError, match=r"pip install trackers"):
        Tracker()
