"""The examples for one image and for a video, on the trained detector of the examples."""

from __future__ import annotations

import re
import runpy

import pytest
from paths import PROJECT

pytest.importorskip("PIL")
EXAMPLES = PROJECT / "examples"
SCENE = EXAMPLES / "scenes" / "scene.png"


def run(monkeypatch, capsys, name, *arguments):
    monkeypatch.setattr("sys.argv", [name, *map(str, arguments), "--library", "sim"])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_coco_test_finds_the_shapes(soc, monkeypatch, capsys):
    """The converted model of either SoC finds at least 6 shapes that it is sure of."""
    model = EXAMPLES / "models" / f"shapes_{soc}.rknn"
    lines = run(monkeypatch, capsys, "coco_test.py", model, SCENE)
    assert lines[2] == "Output: [1, 1, 1, 2100, 16] NC1HWC2"
    pattern = (
        r" +\d+\. (circle|square|triangle|star|cross|ring) \(\d+\.\d%\) at \(\d+, \d+\) \d+x\d+"
    )
    found = [re.fullmatch(pattern, line) for line in lines[7:]]
    assert len(found) >= 6 and all(found)
