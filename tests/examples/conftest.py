"""What several examples are tested with: a detector, as bytes and as a file, and an image."""

from __future__ import annotations

import json
import sys

import pytest
from bundles import one_object
from paths import PROJECT

# As for a program that is started by its path.
sys.path.append(str(PROJECT / "examples"))


@pytest.fixture
def bundle():
    """A detector of 64x64 that always sees a star in the middle."""
    return one_object(json.dumps({"labels": ["disc", "star"]}))


@pytest.fixture
def model(tmp_path, bundle):
    path = tmp_path / "model.rknn"
    path.write_bytes(bundle)
    return path


@pytest.fixture
def save_image(tmp_path):
    """Return a function that saves an image of one colour and returns its path."""
    image = pytest.importorskip("PIL.Image")

    def save(width, height):
        path = tmp_path / "scene.png"
        image.new("RGB", (width, height), (10, 20, 30)).save(path)
        return path

    return save


@pytest.fixture
def image(save_image):
    return save_image(64, 48)
