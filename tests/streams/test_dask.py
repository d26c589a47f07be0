"""A fleet on loopback: every frame once, also when a worker dies in the middle."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal

import numpy as np
import pytest
from bundles import one_object
from planting import classification, keypoints, scene, text
from videos import write_video

distributed = pytest.importorskip("distributed")
Image = pytest.importorskip("PIL.Image")

from rknn_runtime.streams.dask import (  # noqa: E402
    _FORMATS,
    NpuPlugin,
    Segment,
    _format_of,
    detect,
    segments,
)

#: Dask's threads leave sockets for the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def model() -> bytes:
    return one_object(json.dumps({"labels": ["cat", "dog"]}))


def image(width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, 64)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def client():
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "threads_per_worker": 1}
    cluster = distributed.LocalCluster(n_workers=3, processes=True, **options)
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def plugin():
    return NpuPlugin(model(), library="sim", contexts=2, conf_threshold=0.5)


def test_every_frame_once(client, plugin, tmp_path):
    """Images by path and by bytes, in chunks; a damaged one says so and stops nothing."""
    path, damaged = tmp_path / "here.png", tmp_path / "damaged.png"
    path.write_bytes(image(48))
    damaged.write_bytes(b"nothing")
    items = [(f"{n}.png", image(32 + n)) for n in range(30)]
    sent = ("sent.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n")
    records = list(detect(client, plugin, [sent, *items, path, str(damaged)], chunk=7))
    by_name = {record["source"]: record for record in records}
    assert len(records) == len(by_name) == 33
    for name in ("sent.eps", str(damaged)):
        assert "cannot be decoded as an image" in by_name.pop(name)["error"]
    for record in by_name.values():
        (found,) = record["detections"]
        assert found["label"] == "dog"
        assert found["confidence"] == pytest.approx(0.9, abs=0.01)


def test_a_worker_dies_in_the_middle(client, plugin, tmp_path):
    """Its chunks are done by others; every frame is there once, on disk, too."""
    items = [(f"{n}.png", image(32)) for n in range(200)]
    seen = []
    for record in detect(client, plugin, items, chunk=5, folder=tmp_path):
        seen.append(record["source"])
        if len(seen) == 20:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
    assert sorted(seen) == sorted(name for name, _ in items)
    lines = [line for path in tmp_path.iterdir() for line in path.read_text("utf-8").splitlines()]
    assert sorted(json.loads(line)["source"] for line in lines) == sorted(seen)
    assert all(path.suffix == ".jsonl" for path in tmp_path.iterdir())


def test_a_stopped_job_goes_on(client, plugin, tmp_path):
    """Chunks that are on disk are read, not computed again."""
    items = [(f"{n}.png", image(32)) for n in range(20)]
    first = list(detect(client, plugin, items, chunk=5, folder=tmp_path))
    (kept, *others) = sorted(tmp_path.iterdir())
    marked = [{**json.loads(line), "kept": True} for line in kept.read_text("utf-8").splitlines()]
    kept.write_text("".join(json.dumps(record) + "\n" for record in marked), "utf-8")
    for other in others:
        other.unlink()
    again = list(detect(client, plugin, items, chunk=5, folder=tmp_path))
    assert sorted(r["source"] for r in again) == sorted(r["source"] for r in first)
    assert sum("kept" in record for record in again) == 5


def test_progress_is_told_chunk_by_chunk(client, plugin, tmp_path):
    """Those that are kept count, too; the total is known of a list, not of an iterator."""
    items = [(f"{n}.png", image(32)) for n in range(10)]
    told = []
    for _ in range(2):
        records = detect(
            client, plugin, items, chunk=4, folder=tmp_path, progress=lambda *n: told.append(n)
        )
        assert len(list(records)) == 10
    assert told == [(1, 3), (2, 3), (3, 3)] * 2
    told.clear()
    list(detect(client, plugin, iter(items), chunk=10, progress=lambda *n: told.append(n)))
    assert told == [(1, None)]


def test_records_as_tables(client, plugin, tmp_path):
    """All files are one table; read back, the records are those that came."""
    parquet = pytest.importorskip("pyarrow.parquet")
    items = [*((f"{n}.png", image(32)) for n in range(6)), str(tmp_path / "none.png")]
    folder = tmp_path / "tables"
    first = list(detect(client, plugin, items, chunk=2, folder=folder, format="parquet"))
    assert len(list(folder.iterdir())) == 4
    table = parquet.read_table(folder)
    assert sorted(table.column("source").to_pylist()) == sorted(r["source"] for r in first)
    again = list(detect(client, plugin, items, chunk=2, folder=folder, format="parquet"))
    assert sorted(again, key=str) == sorted(first, key=str)
    assert sum("error" in record for record in again) == 1


def test_damaged_records_are_computed_again(client, plugin, tmp_path, caplog):
    """An empty file, one cut at a line, one cut in it, and no records at all; each is logged."""
    items = [(f"{n}.png", image(32)) for n in range(16)]
    first = list(detect(client, plugin, items, chunk=4, folder=tmp_path))
    files = sorted(tmp_path.iterdir())
    lines = files[1].read_bytes().splitlines(keepends=True)
    for file, content in zip(files, (b"", lines[0], lines[0] + lines[1][:9], b"\xff\n")):
        file.write_bytes(content)
    again = list(detect(client, plugin, items, chunk=4, folder=tmp_path))
    assert sorted(r["source"] for r in again) == sorted(r["source"] for r in first)
    assert all(any(str(file) in record for record in caplog.messages) for file in files)


@pytest.mark.parametrize("name", sorted(_FORMATS))
def test_a_file_is_whole_or_not_there(tmp_path, name):
    """A file that cannot be written leaves nothing new; an old file stays."""
    if name == "parquet":
        pytest.importorskip("pyarrow")
    kind = _format_of(name)
    point = {"class_id": 3, "confidence": 0.1, "xyxy": [0.1, 0.2, 0.3, 0.4]}
    more = {"label": "x", "keypoints": [[1.0, 2.0, 0.5]], "mask": {"size": [2, 2], "counts": [4]}}
    place = {"source": "a", "frame": 0, "time_s": 0.0}
    records = [
        {**place, "detections": []},
        {**place, "detections": [point, {**point, **more}]},
        {**place, "error": "no image"},
    ]
    path = tmp_path / f"chunk{kind.suffix}"
    kind.keep(path, records)
    assert kind.read(path.read_bytes()) == records
    with pytest.raises(Exception, match=r"(?i)json|convert|expected"):
        kind.keep(path, [{**place, "source": object()}])
    assert list(tmp_path.iterdir()) == [path]
    assert kind.read(path.read_bytes()) == records


def test_segments_of_a_video(client, plugin, tmp_path):
    """Each frame once, with its number and time."""
    path = str(tmp_path / "video.avi")
    write_video(path, [np.full((48, 64, 3), 10 * n, np.uint8) for n in range(25)], 25)
    parts = segments(path, 10)
    assert parts == [Segment(path, 0, 10), Segment(path, 10, 20), Segment(path, 20, 25)]
    records = sorted(detect(client, plugin, parts), key=lambda record: record["frame"])
    assert [record["frame"] for record in records] == list(range(25))
    assert [record["time_s"] for record in records] == [n / 25 for n in range(25)]
    with pytest.raises(OSError, match="count"):
        segments(tmp_path / "none.avi")
    with pytest.raises(OSError, match=r"'http://me:\*\*\*@127.0.0.1:1/x.mp4'"):
        segments("http://me:HIDDEN@127.0.0.1:1/x.mp4")
    with pytest.raises(ValueError, match="frames"):
        segments(path, 0)


def test_another_model_is_refused(client, tmp_path):
    """A path on the workers with another SHA-256 says what to do."""
    path = tmp_path / "model.bundle"
    path.write_bytes(model())
    wrong = NpuPlugin(path, sha256="0" * 64, library="sim")
    with pytest.raises(ValueError, match="copy the right model"):
        detect(client, wrong, [])
    assert list(detect(client, NpuPlugin(path, library="sim"), [("a", image(9))]))


@pytest.mark.parametrize(
    ("made", "task", "expected"),
    [
        (classification.bundle(labels=list("abcd")), "classify", "classes"),
        (scene.bundle(), "semantic", "classes"),
        (text.recognizer(characters="abc"), "text-recognition", "text"),
        (keypoints.embedding(np.array([3, 4], np.float32)), "embed", "embedding"),
    ],
)
def test_other_tasks(client, made, task, expected):
    """Give what their results say of themselves, which JSON holds."""
    plugin = NpuPlugin(made, library="sim", task=task)
    (record,) = detect(client, plugin, [("a.png", image(48))])
    found = json.loads(json.dumps(record))[expected]
    if task == "classify":
        assert found[0]["label"] == "b"
    elif task == "semantic":
        assert found[0]["class_id"] == 1 and found[0]["area"] == 48 * 64  # of the middle stripe
    else:
        assert found in ("cab", [0.6, 0.8])
    with pytest.raises(ValueError, match=f'format: expected "jsonl" for the task {task}'):
        detect(client, plugin, [], format="parquet")


def test_tasks_that_are_not_known():
    """Unknown tasks are refused at once, as are tasks that need two models."""
    for task in ("text", "detection"):
        with pytest.raises(ValueError, match="task: expected one of detect, classify"):
            NpuPlugin(b"", task=task)


def test_wrong_arguments(client, plugin):
    """Each is refused before anything is sent."""
    with pytest.raises(TypeError, match="model"):
        NpuPlugin(7)
    with pytest.raises(TypeError, match="client"):
        detect(None, plugin, [])
    with pytest.raises(ValueError, match="chunk"):
        detect(client, plugin, [], chunk=0)
    with pytest.raises(ValueError, match="format: expected one of jsonl, parquet"):
        detect(client, plugin, [], format="csv")
    with pytest.raises(TypeError, match="progress: expected a function, got bool"):
        detect(client, plugin, [], progress=True)
    with pytest.raises(TypeError, match="items"):
        list(detect(client, plugin, [7]))
    with pytest.raises(RuntimeError, match="register_plugin"):
        plugin.pool  # noqa: B018
    assert pickle.loads(pickle.dumps(plugin)).name == plugin.name
