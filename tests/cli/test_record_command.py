"""The command line: what ``rknn-runtime record`` takes and refuses."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import Detector
from rknn_runtime.cli import main

MODEL = str(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")


@pytest.fixture
def sample(tmp_path, monkeypatch) -> bytes:
    """The bytes of ``sample.npy`` in the working folder."""
    monkeypatch.chdir(tmp_path)
    np.save("sample.npy", np.zeros((1, 320, 320, 3), np.uint8))
    return Path("sample.npy").read_bytes()


def test_no_file_is_taken_for_a_sample_that_is_none(sample, capsys) -> None:
    """Another kind, cut, damaged, with a claim of 90 TB: each told, with its name."""
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999,), }\n"
    np.savez_compressed("zipped.npz", np.zeros((1, 320, 320, 3), np.uint8))
    zipped = bytearray(Path("zipped.npz").read_bytes())
    zipped[100:130] = b"x" * 30
    files = {
        "photo.gif": b"GIF89a no photo",
        "pickled.npy": sample.replace(b"'|u1'", b"'|O' "),
        "cut.npy": sample[:1000],
        "huge.npy": b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header,
        "cut.npz": bytes(zipped[:200]),
        "damaged.npz": bytes(zipped),
    }  # fmt: skip
    for name, content in files.items():
        Path(name).write_bytes(content)
        assert main(["record", MODEL, name, "-o", "made"]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"rknn-runtime: {name}: expected an .npy or .npz file")
    Path("empty.npy").write_bytes(b"")
    os.mkfifo("fifo")
    for name, told in (("empty.npy", "expected content"), ("fifo", "expected a regular file")):
        assert main(["record", MODEL, name, "-o", "made"]) == 1
        assert capsys.readouterr().err.startswith(f"rknn-runtime: {name}: {told}")
    assert not Path("made").exists()


def test_what_is_read_is_not_written_over(sample, capsys) -> None:
    """Neither by its name nor by another one."""
    Path("link").symlink_to("sample.npy")
    for name in ("sample.npy", "link"):
        assert main(["record", MODEL, "sample.npy", "-o", name]) == 1
        assert "expected another file than sample.npy" in capsys.readouterr().err
    assert Path("sample.npy").read_bytes() == sample


def test_a_place_that_cannot_be_written_is_told_before_the_runs(
    sample, monkeypatch, capsys
) -> None:
    """A folder that is missing, and a folder."""

    def record(*arguments: object, **named: object) -> None:
        raise AssertionError("ran")

    monkeypatch.setattr("rknn_runtime.sim.record", record)
    for place, reason in (("nowhere/made", "nowhere: no such folder"), (".", ".: is a directory")):
        assert main(["record", MODEL, "sample.npy", "-o", place]) == 1
        assert reason in capsys.readouterr().err


def test_photos(sample, capsys) -> None:
    """They are letterboxed as by Detector, which finds the same in the bundle as in the model."""
    pytest.importorskip("PIL")
    photo = str(PROJECT / "examples" / "scenes" / "wide.jpg")
    assert main(["record", MODEL, photo, "sample.npy", "-o", "x.bundle"]) == 0
    assert capsys.readouterr().out.startswith("x.bundle: 2 samples")
    found = []
    for path in (MODEL, "x.bundle"):
        with Detector.open(path, library="sim") as detector:
            found.append(detector(photo).to_dict())
    assert found[0] == found[1]
    Path("no.jpg").write_bytes(b"no photo")
    assert main(["record", MODEL, "no.jpg", "-o", "y.bundle"]) == 1
    assert "no.jpg cannot be decoded" in capsys.readouterr().err
