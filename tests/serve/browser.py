"""The page in a real browser: ``make test-browser``, as Chromium is too large for `make test`."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from rknn_runtime import Detections
from rknn_runtime.serve import LiveView, Server

FOUND = Detections(
    np.array([[80, 60, 160, 180]], np.float32), np.array([0.9], np.float32), np.array([1], np.int32)
)


def publish(view: LiveView, value: int = 90) -> None:
    view.publish(np.full((240, 320, 3), value, np.uint8), FOUND, {"source": "test"})


@pytest.fixture
def shown():
    """A view to which a frame comes every 50 ms, and a server of it."""
    view, ended = LiveView(["cat", "dog"]), threading.Event()

    def feed() -> None:
        while not ended.wait(0.05):
            publish(view)

    thread = threading.Thread(target=feed)
    thread.start()
    with Server(view, lambda: {"fps": 20.0, "phase ms": {"run": 3.5}}) as server:
        yield view, server
    ended.set()
    thread.join()


@pytest.fixture
def browser():
    """Opens browsers, and closes them."""
    opened = []

    def open_page(port: int) -> webdriver.Chrome:
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,700"):
            options.add_argument(word)
        options.page_load_strategy = "none"  # the picture never ends
        opened.append(webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver")))
        opened[-1].get(f"http://127.0.0.1:{port}/")
        return opened[-1]

    yield open_page
    for each in opened:
        each.quit()


def wait(page: webdriver.Chrome, condition: str) -> object:
    """Wait until JavaScript says that something is so."""
    return WebDriverWait(page, 60).until(lambda page: page.execute_script(f"return {condition}"))


PICTURE = "document.getElementById('image').naturalWidth === 320"
#: The colour of the middle of the box's upper edge on the canvas, and of what lies outside.
PEN = "document.getElementById('over').getContext('2d')"
EDGE = f"Array.from({PEN}.getImageData(120, 60, 1, 1).data)"
OUTSIDE = EDGE.replace("120, 60", "10, 10")


def test_picture_and_boxes_are_there(shown, browser, tmp_path):
    """The image has come, the box is drawn over it, names and numbers stand beside."""
    page = browser(shown[1].port)
    wait(page, PICTURE)
    wait(page, f"{EDGE}[3] === 255")
    assert page.execute_script(f"return {OUTSIDE}") == [0, 0, 0, 0]
    assert "dog" in page.find_element(By.ID, "found").text
    assert "90 %" in page.find_element(By.ID, "found").text
    assert "run 3.5" in wait(page, "document.getElementById('status').innerText")
    page.find_element(By.ID, "boxes").click()
    wait(page, f"{EDGE}[3] === 0")
    picture = tmp_path / "page.png"
    page.save_screenshot(str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_two_viewers(shown, browser):
    """Both see frames go on."""
    for page in (browser(shown[1].port), browser(shown[1].port)):
        wait(page, PICTURE)
        first = int(str(wait(page, "document.body.dataset.frames")))
        wait(page, f"Number(document.body.dataset.frames) > {first + 3}")
    assert shown[0].watchers == 2


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
