"""The page of wrong detections: its pictures show what their cause does."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from paths import PROJECT

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL.Image")

IMAGES = PROJECT / "docs" / "images"


@pytest.fixture(scope="module")
def found():
    """The objects of each picture."""
    sys.path.insert(0, str(PROJECT / "tools" / "shapes"))
    try:
        from causes import CAUSES
    finally:
        sys.path.pop(0)
    return {name: make()[1] for name, make in CAUSES.items()}


def test_each_cause_spoils_the_detections(found) -> None:
    """Ten objects are right; each cause changes their number, boxes or names."""
    counts = {name: len(each) for name, each in found.items()}
    assert counts["right"] == counts["labels"] == counts["unit"] == 10
    assert counts["normalization"] == 300 and np.median(found["normalization"].confidence) == 1
    assert not counts["head"] and not counts["one-scale"]
    assert not counts["stretched"] and not counts["rows"]
    assert counts["threshold"] > 50 and counts["far"] < 3
    assert found["unit"].xyxy.max() <= 1 + 1e-3
    assert np.array_equal(found["labels"].xyxy, found["right"].xyxy)


def test_the_page_has_a_small_picture_of_each(found) -> None:
    """There are pictures of ten causes and of the right reading."""
    page = (PROJECT / "docs" / "wrong-detections.md").read_text("utf-8")
    named = re.findall(r"images/wrong-([a-z-]+)\.jpg", page)
    assert sorted(named) == sorted(found) and len(named) == 11
    assert page.count("\n| <img") == 10
    assert all((IMAGES / f"wrong-{name}.jpg").stat().st_size < 20_000 for name in named)
