"""The page in browsers: ``make test-browser``, as they are too large for `make test`."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from firefox import Firefox
from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from rknn_runtime import Detections, Segmentation
from rknn_runtime.tools.serve import LiveView, Server
from rknn_runtime.vision.drawing import class_color

FOUND = Detections(
    np.array([[80, 60, 160, 180]], np.float32), np.array([0.9], np.float32), np.array([1], np.int32)
)


def whole(**more: np.ndarray[Any, Any]) -> Detections:
    """The object of `FOUND`, with what else is known of it."""
    return Detections(FOUND.xyxy, FOUND.confidence, FOUND.class_id, **more)


def publish(view: LiveView, value: int = 90, found: Any = FOUND) -> None:
    view.publish(np.full((240, 320, 3), value, np.uint8), found, {"source": "test"})


@contextmanager
def shows(found: Any, token: str = "") -> Iterator[tuple[LiveView, Server]]:
    """A view with a new frame every 50 ms, and its server."""
    view, ended = LiveView(["cat", "dog"]), threading.Event()

    def feed() -> None:
        while not ended.wait(0.05):
            publish(view, found=found)

    thread = threading.Thread(target=feed)
    thread.start()
    status = {
        "fps": 20.0, "phase ms": {"run": 3.5}, "busy percent": {"core 0": 40.0, "core 1": 60},
        "dropped": 7, "failed": 0, "warning": "look at this",
    }  # fmt: skip
    try:
        with Server(view, lambda: status, token=token) as server:
            yield view, server
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def shown():
    """It shows a box."""
    with shows(FOUND) as each:
        yield each


def chromium() -> webdriver.Chrome:
    """Start Chromium."""
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(word)
    options.page_load_strategy = "none"  # the image never ends
    return webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))


@pytest.fixture(params=[chromium, Firefox], ids=["chromium", "firefox"])
def browser(request):
    """Opens browsers, and closes them."""
    opened = []

    def open_page(port: int, ending: str = "") -> Any:
        opened.append(request.param())
        opened[-1].set_window_size(1000, 700)
        opened[-1].get(f"http://127.0.0.1:{port}/{ending}")
        wait(opened[-1], "document.getElementById('boxes') !== null")
        return opened[-1]

    yield open_page
    for each in opened:
        each.quit()


def wait(page: Any, condition: str) -> Any:
    """Wait until JavaScript says that something is so."""
    return WebDriverWait(page, 60).until(lambda page: page.execute_script(f"return {condition}"))


IMAGE = "document.getElementById('image').width === 320"
#: The colours in the middle of the box's upper edge on the canvas, and outside of the box.
PEN = "document.getElementById('over').getContext('2d')"


def at(x: int, y: int) -> str:
    """How the canvas looks in a pixel of the image: red, green, blue, and 255 where it is drawn on.

    It has as many pixels as the screen.
    """
    place = ", ".join(f"{each + 0.5} * {PEN}.canvas.width / 320" for each in (x, y))
    return f"Array.from({PEN}.getImageData({place}, 1, 1).data)"


EDGE, OUTSIDE = at(120, 60), at(10, 10)


def test_image_and_boxes_are_there(shown, browser, tmp_path):
    """The page shows the image, the box over it, counts and numbers."""
    page = browser(shown[1].port)
    wait(page, IMAGE)
    wait(page, f"{EDGE}[3] === 255")
    assert "run 3.5" in wait(page, "document.getElementById('status').textContent")
    assert page.execute_script(f"return {OUTSIDE}") == [0, 0, 0, 0]
    text = page.execute_script(
        "return Object.fromEntries(Array.from(document.querySelectorAll('[id]'), "
        "(each) => [each.id, each.innerText]))"
    )
    assert text["found"].split() == ["dog", "1"]
    assert text["fps"] == "20"
    assert text["lost"].split() == ["dropped", "frames", "7"]
    assert text["note"] == "look at this"
    assert text["cores"].split("\n") == ["core 0, 40 % busy", "core 1, 60 % busy"]
    page.execute_script("document.getElementById('boxes').click()")
    wait(page, f"{EDGE}[3] === 0")
    image = tmp_path / "page.png"
    page.save_screenshot(str(image))
    assert image.read_bytes().startswith(b"\x89PNG")


def test_it_looks_as_drawn_images_do(shown, browser):
    """The colours of a box and of its filled caption, and no scrolling on a phone."""
    page = browser(shown[1].port)
    wait(page, f"{EDGE}[3] === 255")
    assert page.execute_script(f"return {EDGE}")[:3] == list(class_color(1))
    assert page.execute_script(f"return {at(82, 57)}")[:3] == list(class_color(1))
    page.set_window_size(390, 844)
    assert wait(page, "innerWidth <= 700 && document.body.scrollWidth <= innerWidth")


def test_masks(browser):
    """Pixels of an object's mask are coloured, half transparent; others keep their colour."""
    mask = np.zeros((1, 240, 320), bool)
    mask[0, 70:170, 90:120] = True
    with shows(whole(mask=mask)) as (_, server):
        page = browser(server.port)
        wait(page, f"{at(100, 120)}[3] === 115")
        assert page.execute_script(f"return {at(140, 120)}[3]") == 0


def test_skeletons(browser):
    """Keypoints that are seen are drawn, and joined as COCO's are."""
    points = np.zeros((1, 17, 3), np.float32)
    points[0, 5], points[0, 6] = (90, 100, 0.9), (150, 100, 0.9)  # the shoulders
    points[0, 9] = (120, 150, 0.1)  # a wrist that is not seen
    with shows(whole(keypoints=points)) as (_, server):
        page = browser(server.port)
        wait(page, f"{at(90, 100)}[3] === 255")
        assert page.execute_script(f"return {at(120, 100)}[3]") > 0
        assert page.execute_script(f"return {at(120, 150)}[3]") == 0


def test_other_tasks(browser):
    """The server draws them; the page lists the results."""
    found = Segmentation(np.repeat(np.uint8([[0, 1, 1, 1]]), 240, 0).repeat(80, 1))
    with shows(found) as (_, server):
        page = browser(server.port)
        wait(page, "document.getElementById('found').innerText.includes('75.0%')")
        assert page.execute_script("return document.getElementById('found').rows.length") == 2
        assert page.execute_script(f"return {EDGE}[3]") == 0
        assert page.execute_script("return document.getElementById('drawn').offsetHeight") == 0


def test_oriented_boxes(browser):
    """Four corners are joined, without the upright box around them."""
    corners = np.array([[[120, 60], [160, 120], [120, 180], [80, 120]]], np.float32)
    with shows(whole(xyxyxyxy=corners)) as (_, server):
        page = browser(server.port)
        wait(page, f"{at(140, 90)}[3] > 0")
        assert page.execute_script(f"return {at(82, 178)}[3]") == 0


def test_a_token_in_the_address_serves_the_whole_page(browser):
    """The page asks for image, events and snapshot with the token."""
    with shows(FOUND, token="secret") as (_, server):
        page = browser(server.port, "?token=secret")
        wait(page, IMAGE)
        wait(page, f"{EDGE}[3] === 255")
        shot = page.execute_script(
            "return fetch('snapshot.jpg' + location.search)"
            ".then((got) => got.headers.get('content-type'))"
        )
        assert shot == "image/jpeg"


def test_objects_belong_to_the_picture(browser):
    """Of two frames of different sizes the page never shows the one's objects on the other."""
    view = LiveView()
    frames = [
        (np.full((240, 320, 3), 40, np.uint8), FOUND),
        (np.full((480, 640, 3), 200, np.uint8), Detections.empty()),
    ]
    look = """
        const [image, over] = ["image", "over"].map((id) => document.getElementById(id));
        const at = (canvas, x, y) => Array.from(canvas.getContext("2d")
            .getImageData(x * canvas.width, y * canvas.height, 1, 1).data);
        return [image.width, at(image, 0.1, 0.1)[0], at(over, 0.376, 0.252)[3],
                document.body.dataset.objects];
    """
    with Server(view, dict) as server:
        page = browser(server.port)
        for number in range(1, 21):
            picture, found = frames[number % 2]
            view.publish(picture, found, {})
            wait(page, f"document.body.dataset.frames === '{number}'")
            width, value, drawn, objects = page.execute_script(look)
            assert abs(value - picture[0, 0, 0]) < 5
            assert width == picture.shape[1]
            assert (drawn == 255, objects) == (len(found) == 1, str(len(found)))


def test_it_connects_again(browser):
    """After the server was away: the page goes on by itself."""
    view = LiveView()
    with Server(view, dict) as server:
        page = browser(server.port)
        wait(page, "document.getElementById('state').textContent === 'live'")
        port = server.port
    wait(page, "document.getElementById('state').textContent.startsWith('lost')")
    view = LiveView(["cat", "dog"])
    with Server(view, lambda: json.loads("{}"), port=port):
        wait(page, "document.getElementById('state').textContent === 'live'")
        publish(view)
        wait(page, "document.body.dataset.objects === '1'")


@pytest.fixture
def two_frames():
    """Two images of different sizes, each with its object drawn into it, and one with none."""
    return [
        (np.full((240, 320, 3), 40, np.uint8), FOUND),
        (np.full((480, 640, 3), 200, np.uint8), FOUND[:0]),
    ]


def is_green(pixel: Any) -> bool:
    """Whether the box's edge is there, whose colour JPEG keeps roughly."""
    red, green, blue = map(int, pixel)
    return green > max(red, blue) + 40


def test_an_image_element_alone(two_frames, browser):
    """The stream in an ``<img>`` shows each frame with its own objects before the next comes."""
    view = LiveView(draw=True)
    script = """
        const canvas = document.createElement("canvas"), image = document.images[0];
        canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
        const pen = canvas.getContext("2d"); pen.drawImage(image, 0, 0);
        const at = (x, y) => Array.from(pen.getImageData(x, y, 1, 1).data).slice(0, 3);
        return [canvas.width, at(5, 5)[0], at(120, 60)];
    """
    with Server(view, dict, browser_draws=False) as server:
        page = browser(server.port)
        page.execute_script(
            "document.body.replaceChildren(document.createElement('img'));"
            "document.images[0].src = '/stream'"
        )
        for number in range(20):
            picture, found = two_frames[number % 2]
            view.publish(picture, found, {})
            # Firefox knows the new size before it shows the new pixels.
            value = int(picture[0, 0, 0])
            wait(page, f"Math.abs((() => {{{script}}})()[1] - {value}) < 5")
            width, _, edge = page.execute_script(script)
            assert width == picture.shape[1]
            assert is_green(edge) == bool(found)


def test_ffmpeg(two_frames, tmp_path):
    """It reads the stream: every frame once, with its own objects."""
    view = LiveView(draw=True)
    ended = threading.Event()

    def feed() -> None:
        number = 0
        while not ended.wait(0.05):
            view.publish(*two_frames[number % 2], {})
            number += 1

    with Server(view, dict) as server:
        thread = threading.Thread(target=feed)
        thread.start()
        try:
            command = ["ffmpeg", "-loglevel", "error", "-f", "mpjpeg", "-i",
                       f"http://127.0.0.1:{server.port}/stream", "-codec", "copy",
                       "-frames:v", "20", "-f", "image2", str(tmp_path / "%02d.jpg")]  # fmt: skip
            subprocess.run(command, check=True, timeout=60)
        finally:
            ended.set()
            thread.join()
    sizes = []
    for path in sorted(tmp_path.iterdir()):
        image = np.asarray(Image.open(path).convert("RGB"), int)
        sizes.append(image.shape[1])
        assert is_green(image[60, 120]) == (sizes[-1] == 320)
    assert set(sizes) == {320, 640}
    assert len(sizes) == 20
