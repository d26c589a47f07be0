"""Which class reads a model."""

from __future__ import annotations

import numpy as np
import pytest
from planting import keypoints, text
from planting.classification import bundle as classifier
from planting.scene import bundle, numbers, scores

from rknn_runtime import Model
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.vision.tasks import TASKS, find_task, possible_tasks, task_of


@pytest.mark.parametrize(
    ("made", "task", "possible"),
    [
        (numbers(), "semantic", ("semantic",)),
        (bundle(), None, ("semantic", "keypoints")),
        (bundle(labels=["a", "b", "c"]), "semantic", ("semantic", "keypoints")),
        (bundle(labels=["a", "b"]), None, ("semantic", "keypoints")),
        (bundle(task="semantic"), "semantic", ("semantic", "keypoints")),
        (bundle([scores()[:, :1]]), None, ("semantic", "map", "text-detection")),
        (bundle([scores()[:, :1]], task="map"), "map", ("semantic", "map", "text-detection")),
        (
            text.detector(task="text-detection"),
            "text-detection",
            ("semantic", "map", "text-detection"),
        ),
        (text.recognizer(), None, ("text-recognition",)),
        (text.recognizer(characters="abc"), "text-recognition", ("text-recognition",)),
        (bundle([np.zeros((1, 300, 8, 12))]), None, ()),
        (bundle([scores()] * 3), None, ()),
        (keypoints.heatmaps(), None, ("semantic", "keypoints")),
        (keypoints.heatmaps(task="keypoints"), "keypoints", ("semantic", "keypoints")),
        (keypoints.simcc(), "keypoints", ()),
        (keypoints.embedding(np.ones(9, np.float32), task="embed"), "embed", ("classify", "embed")),
        (keypoints.embedding(np.ones(9, np.float32)), None, ("classify", "embed")),
        (keypoints.embedding(np.ones(128, np.float32)), None, ("classify", "embed")),
        (
            keypoints.embedding(np.ones(128, np.float32), labels=["x"] * 128),
            "classify",
            ("classify", "embed"),
        ),
        (classifier(), None, ("classify", "embed")),
        (classifier(labels=list("abcd")), "classify", ("classify", "embed")),
    ],
)
def test_by_outputs_and_the_file(made, task, possible):
    """What shapes do not tell, the file or the user must."""
    with Model(made, library="sim") as model:
        size = model.inputs[0].nchw_shape[2:]
        assert find_task(model.outputs, size, facts_of(model.custom_string)) == task
        assert possible_tasks(model.outputs, size) == possible


def test_every_task_has_a_class():
    """Whose objects are told apart."""
    with Model(bundle([scores()[:, :1]]), library="sim") as model:
        for name in ("semantic", "map"):
            assert task_of(TASKS[name].load()(model)) is TASKS[name]
    assert all(isinstance(task.load(), type) for task in TASKS.values())
