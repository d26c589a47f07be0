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
#: The parts of Frigate and of Immich's models that the recipes touch.
FRIGATE = """
import sys, types
class DetectionApi:
    def __init__(self, config):
        self.thresh, self.height, self.width = 0.4, config.model.height, config.model.width
for name in ("frigate", "frigate.detectors", "frigate.detectors.detection_api",
             "frigate.detectors.detector_config"):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(DetectionApi=DetectionApi, BaseDetectorConfig=object)
"""


@pytest.fixture
def project(tmp_path):
    """A folder with the programs of the page and the examples."""
    pages = ("recipes.md", "immich-frigate.md")
    page = "".join((PROJECT / "docs" / name).read_text("utf-8") for name in pages)
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


ASKED = """
import asyncio, httpx
from app import app, lifespan

photo = open("examples/scenes/scene.png", "rb").read()
client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

def post():
    return client.post("/detect", files={"photo": ("scene.png", photo)})

async def main():
    async with lifespan(app):
"""


def ask(project, monkeypatch, code, **variables):
    """Run `code` beside the endpoint, which takes one request at a time; return its words."""
    for name in ("fastapi", "httpx", "multipart"):
        pytest.importorskip(name)
    for name, value in {"IN_FLIGHT": "1", **variables}.items():
        monkeypatch.setenv(name, value)
    return run(project, "-W", "ignore", "-c", ASKED + code + "asyncio.run(main())\n").split()


def test_an_endpoint_that_is_too_slow(project, monkeypatch):
    """One request waits until its time is over, and is cancelled; the second one is refused."""
    code = """
        for answer in await asyncio.gather(post(), post()):
            print(answer.status_code, answer.headers.get("Retry-After"))
"""
    words = ask(project, monkeypatch, code, TIMEOUT_S="0.2", RKNN_SIM_LATENCY_US="3000000")
    assert sorted(zip(words[::2], words[1::2])) == [("503", "1"), ("504", "None")]


def test_an_endpoint_that_is_left(project, monkeypatch):
    """A client that goes away frees its place; at shutdown the frame under way is answered."""
    code = """
        async def begun():
            task = asyncio.create_task(post())
            while not app.state.free.locked():
                await asyncio.sleep(0)
            return task

        left = await begun()
        left.cancel()
        await asyncio.wait([left])
        print(left.cancelled(), app.state.free.locked())
        print((await (await begun())).status_code)
        while app.state.pool.working_s:  # an answer is out before its thread rests
            await asyncio.sleep(0)
        last = await begun()
        while not app.state.pool.working_s:
            await asyncio.sleep(0)
    print((await last).status_code)
"""
    words = ask(project, monkeypatch, code, TIMEOUT_S="300", RKNN_SIM_LATENCY_US="200000")
    assert words == ["True", "False", "200", "200"]


def test_a_detector_of_frigate(project):
    """Rows of class, confidence and ``(top, left, bottom, right)``, as parts of the image."""
    code = f"""{FRIGATE}
import numpy as np
from types import SimpleNamespace as Any
from PIL import Image
from frigate_plugin import RknnRuntime
from rknn_runtime import Detector
image = np.asarray(Image.open("examples/scenes/scene.png").convert("RGB").resize((320, 320)))
model = Any(path="{MODEL}", height=320, width=320, input_pixel_format=Any(value="rgb"))
rows = RknnRuntime(Any(model=model)).detect_raw(image[None])
found = Detector.open("{MODEL}", conf_threshold=0.4)(image)
print(rows.shape, rows.dtype, len(found) > 5, np.abs(rows[len(found):]).max())
print(np.array_equal(rows[:len(found), 0], found.class_id),
      np.allclose(rows[:len(found), [3, 2, 5, 4]] * 320, found.xyxy, atol=1e-3))
"""
    assert run(project, "-c", code).split() == [
        "(20,",
        "6)",
        "float32",
        *["True", "0.0"],
        *2 * ["True"],
    ]


def test_a_session_of_immich(project):
    """Pictures come in float32, channels first, as the shape says; threads share one pool."""
    code = f"""
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from immich_session import RknnSession
from rknn_runtime import Model
session = RknnSession("{MODEL}")
frames = np.random.default_rng(0).integers(0, 256, (6, 1, 3, 320, 320)).astype(np.float32)
with ThreadPoolExecutor(3) as threads:
    found = list(threads.map(lambda frame: session.run(None, {{"images": frame}})[0], frames))
with Model("{MODEL}") as model:
    pixels = frames.transpose(0, 1, 3, 4, 2).astype(np.uint8)
    print(all(np.array_equal(a, model(np.ascontiguousarray(b))[0]) for a, b in zip(found, pixels)))
print(session.get_inputs()[0].shape, session.get_outputs()[0].shape)
session.close()
"""
    assert run(project, "-c", code).splitlines() == [
        "True",
        "(1, 3, 320, 320) (1, 10, 1, 2100)",
    ]


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
