"""The programs of docs/recipes.md work as the page says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from paths import PROJECT
from videos import write_video

MODEL = "examples/models/shapes_rk3588.rknn"


@pytest.fixture
def project(tmp_path):
    """A folder with the programs of the page and the examples."""
    page = (PROJECT / "docs" / "recipes.md").read_text("utf-8")
    for name, text in re.findall(r"<!-- recipe: (\S+) -->\n```py\n(.*?)^```", page, re.S | re.M):
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    return tmp_path


def run(project, *words):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env={**os.environ, "RKNN_RUNTIME_LIBRARY": "sim"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_project_is_tested_without_a_board(project):
    """The fixture and the test are found."""
    assert "1 passed" in run(
        project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_scene.py"
    )


def test_an_endpoint(project):
    """A photo is answered with objects and their names, something else with its reason."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    pytest.importorskip("multipart")
    code = """
from fastapi.testclient import TestClient
from app import app
with TestClient(app) as client:
    photo = open("examples/scenes/scene.png", "rb").read()
    answer = client.post("/detect", files={"photo": ("scene.png", photo)})
    print(answer.status_code, "star" in answer.text)
    answer = client.post("/detect", files={"photo": ("x.png", b"%!PS-Adobe-3.0 EPSF-3.0")})
    print(answer.status_code, answer.json()["detail"][:36])
"""
    out = run(project, "-W", "ignore", "-c", code)
    assert out.splitlines() == ["200 True", "400 x.png cannot be decoded as an image:"]


@pytest.mark.slow  # `make check` installs what it needs
def test_a_count_by_tracks(project):
    """Objects that stay are counted once, however many frames there are."""
    pytest.importorskip("trackers")
    from PIL import Image

    scene = np.asarray(Image.open(project / "examples/scenes/scene.png").convert("RGB"))
    write_video(project / "video.avi", [scene[..., ::-1]] * 6, 10)
    out = run(project, "-W", "ignore", "count.py", MODEL, "video.avi", "sim")
    counts = ast.literal_eval(out.splitlines()[-1])
    assert 5 <= sum(counts.values()) <= 12
    assert counts["star"] == 1
