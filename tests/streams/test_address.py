"""The parts of an address that may be shown."""

from __future__ import annotations

import pytest

from rknn_runtime.streams.address import is_image, path_of, shown


@pytest.mark.parametrize(
    "address",
    [
        "rtsp://user:SECRET@camera/stream",
        "rtsp://user:SECRET@[fe80::1]:554/stream",
        "rtsp://:SECRET@camera",
        "rtsp://user:@SECRET:/#?SECRET@camera:554/stream?x=1",
        "RTSP://user:SECRET@camera/a?b=c",
        "http://camera:8080/video.cgi?user=me&pwd=SECRET&x=1",
        "http://camera/video?access_token=SECRET#there",
        "rtsp://camera:554/user=me_password=SECRET_channel=1_stream=0.sdp",
        'rtspsrc location=rtsp://user:SECRET@camera/x user-pw="SECRET one" ! appsink',
    ],
)
def test_what_is_secret_is_hidden(address):
    """A password before the host, in the query, in the path, in a pipeline; the rest stays."""
    text = shown(address)
    assert "SECRET" not in text and "***" in text
    assert "camera" in text or "fe80" in text
    assert shown(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "rtsp://camera", "rtsp://user@camera/stream", "http://camera:8080/a@b?mail=a@b",
        "http://camera/monkey=7", "photos/user:password@home.jpg", "0", "", "://", "http://[",
    ],
)  # fmt: skip
def test_what_is_not_stays(text):
    """Whether it is an address or not."""
    assert shown(text) == text


def test_names_of_files():
    """Of an address without a query, and of its host where there is no path."""
    assert path_of("http://user:pw@host/a/bus.jpg?key=1").name == "bus.jpg"
    assert path_of("rtsp://user:pw@host:554/").name == "host"
    assert path_of("http://[").name == "stream"
    assert is_image("http://host/bus.JPG?x=1") and is_image("bus.png")
    assert not is_image("http://host/video?image=bus.jpg")
