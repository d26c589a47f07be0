"""``rknn-runtime detect``: sources, forms of results, drawn images, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import warnings

import numpy as np
import pytest
from bundles import image, one_object
from planting import keypoints, scene
from planting import text as texts
from rtsp import RtspServer
from videos import write_video
from web import serving

from rknn_runtime import Detections
from rknn_runtime.cli import main, reports, sources
from rknn_runtime.sim import Record, bundle_from_arrays, describe_output
from rknn_runtime.vision.drawing import class_color

Image = pytest.importorskip("PIL.Image")
LABELS = ["disc", "star"]


@pytest.fixture
def model(tmp_path):
    """A detector of 64x64 that always sees a star in the middle."""
    path = tmp_path / "model.rknn"
    path.write_bytes(one_object(json.dumps({"labels": LABELS})))
    return path


@pytest.fixture
def classifier(tmp_path):
    """A classifier of three classes that is always sure of the last."""
    scores = describe_output("scores", (1, 3), zero_point=-128, scale=1 / 255)
    path = tmp_path / "classifier.rknn"
    record = Record([np.array([[0, 0.2, 0.8]], np.float32)])
    path.write_bytes(bundle_from_arrays([image((1, 3, 32, 32))], [scores], [record]))
    return path


@pytest.fixture
def photos(tmp_path):
    """Two images of 128x64, and a file that is none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("1.png", "b.jpg"):
        Image.new("RGB", (128, 64), (10, 20, 30)).save(folder / name)
    (folder / "readme.txt").write_text("no image", encoding="utf-8")
    return folder


def detect(capsys, *arguments, status=0):
    """Run the command and return its output."""
    assert main(["detect", *map(str, arguments), "--sim"]) == status
    captured = capsys.readouterr()
    detect.complaints = captured.err
    return captured.out


def test_text_of_a_folder(model, photos, capsys):
    """Each image, then each object: name, confidence, left, top, width and height."""
    lines = detect(capsys, model, photos).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        f"{photos / '1.png'}: 1 object",
        f"{photos / 'b.jpg'}: 1 object",
    ]
    assert lines[1].split() == ["star", "89.8%", "48,16", "32x32"]


def test_json_lines(model, photos, capsys):
    """One object a line, with the size of the image."""
    rows = [json.loads(line) for line in detect(capsys, model, photos, "--json").splitlines()]
    assert [row["source"] for row in rows] == [str(photos / "1.png"), str(photos / "b.jpg")]
    for row in rows:
        assert (row["width"], row["height"]) == (128, 64)
        (found,) = row["detections"]
        assert (found["class_id"], found["label"]) == (1, "star")
        np.testing.assert_allclose(found["xyxy"], [48, 16, 80, 48], atol=0.6)


def test_csv(model, photos, capsys):
    """A header, then a line per object."""
    rows = list(csv.DictReader(io.StringIO(detect(capsys, model, photos, "--format", "csv"))))
    assert [(row["source"], row["label"]) for row in rows] == [
        (str(photos / "1.png"), "star"),
        (str(photos / "b.jpg"), "star"),
    ]


def test_csv_obeys_no_escape_sequence(tmp_path, photos, capsys):
    """Escape sequences in labels and file names are shown, as a terminal would obey them."""
    model, name = tmp_path / "model.rknn", "a\x1b[31m\nb.png"
    model.write_bytes(one_object(json.dumps({"labels": ["disc", "\x1b]0;star\x07"]})))
    (photos / "1.png").rename(photos / name)
    out = detect(capsys, model, photos / name, "--format", "csv")
    assert "\x1b" not in out and out.count("\n") == 2
    assert "a\\x1b[31m\\nb.png" in out and "\\x1b]0;star\\x07" in out


def test_what_a_folder_has_besides_is_told(model, photos, capsys):
    """Folders in it, and pictures of other formats; not files that are no pictures."""
    detect(capsys, model, photos)
    assert detect.complaints == ""
    (photos / "more").mkdir()
    (photos / "c.GIF").write_bytes(b"GIF89a")
    detect(capsys, model, photos)
    said = f"{photos}: 2 images; not read: 1 folder in it ('{photos}/**/*' reads what is there)"
    assert detect.complaints == f"rknn-runtime: {said} and files ending in .gif\n"


@pytest.mark.parametrize("content", [b"RKNN" + bytes(60), b"nothing", b""])
def test_a_damaged_model_is_named(tmp_path, photos, capsys, content):
    """The message has the file's name."""
    model = tmp_path / "best.rknn"
    model.write_bytes(content)
    detect(capsys, model, photos, status=1)
    assert detect.complaints.startswith(f"rknn-runtime: {model}: ")


def test_coco(model, photos, tmp_path, capsys):
    """A JSON array; numbers as ids where the names are such, and COCO's classes on request."""
    path = tmp_path / "results.json"
    assert detect(capsys, model, photos, "--format", "coco", "--output", path) == ""
    rows = json.loads(path.read_text("utf-8"))
    assert [(row["image_id"], row["category_id"]) for row in rows] == [(1, 1), ("b", 1)]
    rows = json.loads(detect(capsys, model, photos, "--format", "coco", "--coco-ids"))
    assert [row["category_id"] for row in rows] == [2, 2]
    nothing = detect(capsys, model, photos, "--format", "coco", "--conf", "0.99")
    assert json.loads(nothing) == []


def test_what_an_error_ends_leaves_the_old_results(model, photos, tmp_path, capsys, monkeypatch):
    """The new file replaces the old one at the end only, also after Ctrl-C."""
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "results.jsonl"
    path.write_text("old", encoding="utf-8")
    from rknn_runtime.cli import reports

    ends = RuntimeError

    def end(*_: object) -> None:
        raise ends

    monkeypatch.setattr(reports.JsonLines, "flush", end)
    with pytest.raises(RuntimeError):
        detect(capsys, model, photos, "--json", "-o", path)
    assert [each.read_text("utf-8") for each in folder.iterdir()] == ["old"]
    ends = KeyboardInterrupt
    detect(capsys, model, photos, "--json", "-o", path, status=130)
    (new,) = folder.iterdir()
    assert json.loads(new.read_text("utf-8"))["source"].endswith("1.png")


def test_yolo(model, photos, tmp_path, capsys):
    """A file for each image, with a number where two have the same name."""
    folder = tmp_path / "labels"
    detect(capsys, model, photos, "--format", "yolo", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1.txt", "b.txt"]
    detect(capsys, model, photos, photos / "1.png", "--format", "yolo", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1.txt", "b.txt"]
    other = tmp_path / "b.png"
    Image.new("RGB", (64, 64)).save(other)
    detect(capsys, model, photos, other, "--format", "yolo", "--output", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["1.txt", "b-2.txt", "b.txt"]
    numbers = [float(word) for word in (folder / "b.txt").read_text("utf-8").split()]
    np.testing.assert_allclose(numbers, [1, 0.5, 0.5, 0.25, 0.5, 0.898], atol=0.01)


def test_images_are_drawn(model, photos, tmp_path, capsys):
    """Under their names, with a number where two have the same."""
    other = tmp_path / "1.png"
    Image.new("RGB", (64, 64)).save(other)
    folder = tmp_path / "drawn"
    detect(capsys, model, photos, other, "--save", folder)
    assert detect.complaints.endswith(f"3 images, 3 objects, drawn in {folder}\n")
    assert sorted(path.name for path in folder.iterdir()) == ["1-2.png", "1.png", "b.jpg"]
    with Image.open(folder / "1.png") as drawn:
        assert drawn.size == (128, 64) and len(drawn.getcolors()) > 1


@pytest.mark.parametrize(
    ("name", "begin"),
    [("x.csv", "source,"), ("x.jsonl", '{"source"'), ("X.JSON", '[\n{"image_id"'), ("x.txt", "/")],
)
def test_the_ending_of_the_file_tells_its_format(model, photos, tmp_path, capsys, name, begin):
    """A file is no text that calls itself JSON; --format counts more."""
    path = tmp_path / name
    detect(capsys, model, photos / "1.png", "-o", path)
    assert path.read_text().startswith(begin)
    detect(capsys, model, photos / "1.png", "-o", path, "--format", "text")
    assert path.read_text().startswith("/")


def test_a_video(model, tmp_path, capsys):
    """Frames are counted and timed, and the drawn ones make a video again."""
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "video.avi"
    write_video(path, [np.full((48, 64, 3), 40 * i, np.uint8) for i in range(5)], 10)
    folder = tmp_path / "drawn"
    out = detect(capsys, model, path, "--json", "--save", folder, "--frames", "4")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["frame"], row["time_s"]) for row in rows] == [(i, i / 10) for i in range(4)]
    told = json.loads(detect.complaints)
    assert told["level"] == "info"
    assert told["message"].endswith(f"video.avi: 4 frames, 4 objects, drawn in {folder}")
    capture = cv2.VideoCapture(str(folder / "video.mp4"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 4
    assert capture.get(cv2.CAP_PROP_FPS) == 10
    capture.release()
    assert detect(capsys, model, path).splitlines() == [
        f"{path} {i}: 1 object: star" for i in range(5)
    ]


def test_objects_are_numbered_over_frames(model, photos, classifier, tmp_path, capsys):
    """Of each video by itself, from the second frame on; images are the frames of one video."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports are none of ours
        pytest.importorskip("trackers")
    path = tmp_path / "video.avi"
    write_video(path, [np.full((48, 64, 3), 40 * i, np.uint8) for i in range(3)], 10)
    rows = [
        json.loads(line)
        for line in detect(capsys, model, path, path, "--track", "--json").splitlines()
    ]
    # The second run through the source starts from the beginning.
    numbers = [row["detections"][0]["tracker_id"] for row in rows]
    assert numbers == [-1, 0, 0] * 2
    lines = detect(capsys, model, photos, "--track").splitlines()
    assert [line.split()[:2] for line in lines[1::2]] == [["star", "89.8%"], ["star", "#0"]]
    detect(capsys, classifier, photos, "--track", status=1)
    assert "--track: expected a model that detects, got a classifier" in detect.complaints


def test_a_camera_on_the_network(model, tmp_path, capsys):
    """By RTSP, through OpenCV's own client: the newest frames, and the drawn ones make a video."""
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path / "drawn"
    frames = [np.full((48, 64, 3), 40 * i, np.uint8) for i in range(6)]
    with RtspServer(frames, is_endless=True) as server:
        out = detect(capsys, model, server.url, "--json", "--save", folder, "--frames", "5")
    rows = [json.loads(line) for line in out.splitlines()]
    numbers = [row["frame"] for row in rows]
    assert len(set(numbers)) == 5 and numbers == sorted(numbers)
    assert [(row["source"], len(row["detections"])) for row in rows] == [(server.url, 1)] * 5
    (path,) = folder.iterdir()
    capture = cv2.VideoCapture(str(path))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 5
    capture.release()


def with_password(url):
    return url.replace("://", "://me:HIDDEN@")


@pytest.mark.parametrize("form", ["text", "yolo"])
def test_no_password_is_shown(model, tmp_path, monkeypatch, capsys, caplog, form):
    """No result, file name, file, error or log contains it."""
    pytest.importorskip("cv2")
    monkeypatch.setattr(sources, "RECONNECT_S", 0.6)
    folder = tmp_path / "written"
    arguments = ["--format", form, "--every-frame", "--save", folder / "drawn"]
    if form == "yolo":
        arguments += ["--output", folder / "labels"]
    with RtspServer([np.full((48, 64, 3), 90, np.uint8)] * 3) as server:
        out = detect(capsys, model, with_password(server.url), *arguments, status=1)
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) == (4 if form == "yolo" else 1)
    for text in (out, detect.complaints, caplog.text, *map(str, written)):
        assert "HIDDEN" not in text
    assert not any(b"HIDDEN" in path.read_bytes() for path in written)
    assert "rtsp://me:***@127.0.0.1" in caplog.text and "rtsp://me:***@" in detect.complaints
    assert ("rtsp://me:***@" in out) == (form in ("text", "jsonl", "csv"))
    capsys.readouterr()
    detect(capsys, model, "rtsp://me:HIDDEN@127.0.0.1:1/camera", status=1)
    assert "HIDDEN" not in detect.complaints and "rtsp://me:***@" in detect.complaints


def test_a_video_of_a_live_source_lasts_as_long_as_what_it_shows(tmp_path):
    """Images of a slow source are repeated, some of a fast one left out; files keep all images."""
    cv2 = pytest.importorskip("cv2")

    def frames_of(name, times, **source):
        with reports.Gallery(tmp_path, None) as drawn:
            for i, time_s in enumerate(times):
                pixels = np.zeros((48, 64, 3), np.uint8)
                drawn.add(sources.Item(name, i, time_s, pixels, **source), Detections.empty())
        capture = cv2.VideoCapture(str(tmp_path / f"{name}.mp4"))
        found = capture.get(cv2.CAP_PROP_FRAME_COUNT), capture.get(cv2.CAP_PROP_FPS)
        capture.release()
        return found

    live = {"is_live": True}
    assert frames_of("slow", [7 + i / 5 for i in range(11)], fps=30, **live) == (61, 30)
    assert frames_of("even", [i / 10 for i in range(20)], fps=10, **live) == (20, 10)
    assert frames_of("unknown", [i / 10 for i in range(11)], **live) == (26, 25)
    count, _ = frames_of("fast", [i / 100 for i in range(400)], fps=10, **live)
    assert 40 <= count <= 46
    assert frames_of("burst", [0.0] * 5, fps=30, **live) == (5, 30)
    assert frames_of("file", [0.0] * 5, fps=30) == (5, 30)
    with reports.Gallery(tmp_path, None) as drawn:  # the size changes after a reconnection
        for i, side in enumerate((64, 96, 64)):
            item = sources.Item("camera", i, i / 25, np.zeros((side, side, 3), np.uint8), 25, True)
            drawn.add(item, Detections.empty())
    capture = cv2.VideoCapture(str(tmp_path / "camera.mp4"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 3
    capture.release()


def test_an_image_of_a_server(model, tmp_path, capsys):
    """One image, which is drawn in its colours under its name."""
    pytest.importorskip("cv2")
    Image.new("RGB", (64, 48), (250, 0, 0)).save(tmp_path / "red.png")

    folder = tmp_path / "drawn"
    with serving(tmp_path) as host:
        url = f"http://{host}/red.png?size=1"
        out = detect(capsys, model, url, "--save", folder, "--conf", "0.99")
    assert out == f"{url}: 0 objects\n"
    with Image.open(folder / "red.png") as drawn:
        assert drawn.getpixel((20, 20)) == (250, 0, 0)


def test_a_camera_that_goes(model, monkeypatch, capsys):
    """Earlier results are kept, a message tells that the camera is gone, and the status is 1."""
    pytest.importorskip("cv2")
    monkeypatch.setattr(sources, "RECONNECT_S", 0.0)
    with RtspServer([np.full((48, 64, 3), 40 * i, np.uint8) for i in range(6)]) as server:
        out = detect(capsys, model, server.url, "--json", "--every-frame", status=1)
    *rows, last = map(json.loads, out.splitlines())
    assert [row["frame"] for row in rows] == list(range(6))
    assert (last["source"], "did not come back" in last["error"]) == (server.url, True)
    assert detect.complaints.count(f"{server.url}: it broke off") == 1


def test_a_classifier(classifier, photos, capsys):
    """The most likely classes are printed; formats that need boxes are refused."""
    lines = detect(capsys, classifier, photos / "1.png", "--top", "2").splitlines()
    assert lines[0] == f"{photos / '1.png'}:"
    assert [line.split()[1] for line in lines[1:]] == ["2", "1"]
    (line,) = detect(capsys, classifier, photos / "1.png", "--json", "--top", "1").splitlines()
    (found,) = json.loads(line)["classes"]
    assert found["class_id"] == 2 and found["confidence"] == pytest.approx(0.8, abs=0.01)
    rows = detect(capsys, classifier, photos, "--format", "csv").splitlines()
    assert rows[0] == "source,frame,class_id,label,confidence" and len(rows) == 7
    drawn = photos.parent / "drawn"
    detect(capsys, classifier, photos / "1.png", "--save", drawn)
    with Image.open(drawn / "1.png") as written:
        assert written.getpixel((1, 1)) == class_color(0)
    detect(capsys, classifier, photos, "--format", "coco", status=1)
    assert "expected a model that detects, got a classifier" in detect.complaints
    detect(capsys, classifier, photos, "--task", "detect", status=1)


def test_classes_of_pixels(photos, tmp_path, capsys):
    """Areas and masks are printed and drawn; formats with boxes and unknown tasks are refused."""
    path, drawn = tmp_path / "scene.rknn", tmp_path / "drawn"
    path.write_bytes(scene.bundle(labels=["sky", "road", "tree"]))
    lines = detect(capsys, path, photos / "1.png", "--save", drawn).splitlines()
    assert lines[0] == f"{photos / '1.png'}:"
    assert [line.split() for line in lines[1:]] == [
        ["road", "50.0%"], ["sky", "25.0%"], ["tree", "25.0%"],
    ]  # fmt: skip
    assert Image.open(drawn / "1.png").getpixel((127, 0)) != (10, 20, 30)
    (line,) = detect(capsys, path, photos / "1.png", "--json").splitlines()
    found = json.loads(line)
    assert (found["width"], found["height"]) == (128, 64) and found["classes"][0]["area"] == 4096
    rows = detect(capsys, path, photos, "--format", "csv").splitlines()
    assert rows[0] == "source,frame,class_id,label,area" and len(rows) == 7
    for words in (["--format", "coco"], ["--iou", "0.5"]):
        detect(capsys, path, photos, *words, status=1)
        assert "expected a model that detects, got a segmenter" in detect.complaints
    path.write_bytes(scene.bundle([scene.scores()[:, 1:2]]))
    detect(capsys, path, photos, status=1)
    assert "--task: expected semantic or map or text-detection, or another" in detect.complaints
    lines = detect(capsys, path, photos / "1.png", "--task", "semantic", "--conf", "0.4")
    assert "foreground        5" in lines
    lines = detect(capsys, path, photos / "1.png", "--task", "map", "--save", drawn)
    assert lines.splitlines()[1] == "  -4 to 4"
    rows = detect(capsys, path, photos / "1.png", "--task", "map", "--format", "csv").splitlines()
    assert rows == ["source,frame,lowest,highest", f"{photos / '1.png'},,-4.0,4.0"]


def test_text(photos, tmp_path, capsys):
    """Boxes of a text detector, the text of a line, and both with a recognizer."""
    finder, reader = tmp_path / "finder.rknn", tmp_path / "reader.rknn"
    finder.write_bytes(texts.detector(task="text-detection"))
    reader.write_bytes(texts.recognizer(characters="abc"))
    photo = photos / "1.png"
    lines = detect(capsys, finder, photo, "--conf", "0.82").splitlines()
    assert lines[0] == f"{photo}: 2 objects" and lines[1].split()[:2] == ["text", "90.0%"]
    assert detect(capsys, reader, photo) == f"{photo}:\n  cab  94.0%\n"
    (line,) = detect(capsys, reader, photo, "--json").splitlines()
    assert json.loads(line)["text"] == "cab"
    words = ["--recognizer", reader, "--save", tmp_path / "drawn"]
    found = detect(capsys, finder, photo, *words)
    assert found.count("  cab  94.0%") == 3
    assert Image.open(tmp_path / "drawn" / "1.png").getextrema() != ((10, 10), (20, 20), (30, 30))
    (line,) = detect(capsys, finder, photo, "--json", "--recognizer", reader).splitlines()
    assert [row["text"] for row in json.loads(line)["lines"]] == ["cab"] * 3
    keys = tmp_path / "keys.txt"
    keys.write_text("x\ny\nz\n", encoding="utf-8")
    csv_of = detect(capsys, finder, photo, "--format", "csv", *words[:2], "--labels", keys)
    assert csv_of.splitlines()[1].split(",")[2] == "zxy"
    for model, more, told in (
        (reader, ["--recognizer", reader], "expected a text detector, got a text recognizer"),
        (finder, ["--task", "text"], "--recognizer: expected one with --task text alone"),
        (finder, ["--labels", keys], "labels: expected None, as the results have no classes"),
    ):
        detect(capsys, model, photo, *more, status=1)
        assert told in detect.complaints


def test_vectors_and_keypoints(photos, tmp_path, capsys):
    """Embeddings as JSON and CSV; keypoints of what fills the image."""
    path, photo = tmp_path / "net.rknn", photos / "1.png"
    path.write_bytes(keypoints.embedding(np.array([3, 4], np.float32), task="embed"))
    assert detect(capsys, path, photo) == f"{photo}: a vector of 2 numbers\n"
    (line,) = detect(capsys, path, photo, "--json").splitlines()
    np.testing.assert_allclose(json.loads(line)["embedding"], [0.6, 0.8], rtol=1e-6)
    rows = list(csv.reader(detect(capsys, path, photo, "--format", "csv").splitlines()))
    assert rows[0] == ["source", "frame", "0", "1"] and rows[1][2][:3] == "0.6"
    detect(capsys, path, photo, "--save", tmp_path / "drawn", status=1)
    assert "--save: expected a model that detects, got an embedder" in detect.complaints
    path.write_bytes(keypoints.simcc())
    (line,) = detect(capsys, path, photo, "--json", "--save", tmp_path / "drawn").splitlines()
    (found,) = json.loads(line)["detections"]
    assert found["xyxy"] == [0, 0, 128, 64] and len(found["keypoints"]) == keypoints.COUNT


def test_options_of_the_other_task_are_refused(model, classifier, photos, tmp_path, capsys):
    """No option is accepted and ignored, whether the file or ``--task`` names the task."""
    folder = tmp_path / "sort_rknn_model"
    folder.mkdir()
    (folder / "sort.rknn").write_bytes(classifier.read_bytes())
    (folder / "metadata.yaml").write_text(
        "task: classify\nimgsz:\n- 32\n- 32\nnames:\n  0: a\n  1: b\n  2: c\n", encoding="utf-8"
    )
    for path, words, told in (
        (model, ["--top", "3"], "--top: expected a classifier, got a model that detects"),
        (model, ["--top", "3", "--task", "detect"], "--top: expected a classifier"),
        (classifier, ["--conf", "0.5"], "--conf: expected a model that detects, got a classifier"),
        (classifier, ["--iou", "0.5", "--task", "classify"], "--iou: expected a model that"),
        (classifier, ["--head", "yolov8", "--task", "classify"], "--head: expected a model that"),
        (folder, ["--head", "yolov8"], "--head: expected a model that detects"),
    ):
        assert detect(capsys, path, photos / "1.png", *words, status=1) == ""
        assert detect.complaints.startswith(f"rknn-runtime: {told}")
    assert detect(capsys, model, photos / "1.png", "--conf", "0.25", "--iou", "0.45")


def test_an_image_that_cannot_be_read_stops_nothing(model, photos, capsys):
    """It is told, has a line with its error, and the exit status says so."""
    (photos / "a.png").write_bytes(b"nothing")
    out = detect(capsys, model, photos, "--json", status=1)
    rows = [json.loads(line) for line in out.splitlines()]
    assert ["error" in row for row in rows] == [False, True, False]
    assert detect.complaints.count("\n") == 1 and "a.png" in detect.complaints


def test_a_source_that_cannot_be_opened_stops_nothing(model, photos, capsys):
    """A missing video, a missing camera and a dead link are reported; other sources go on."""
    pytest.importorskip("cv2")
    (photos / "gone.png").symlink_to("nowhere")
    broken = [photos / "readme.txt", "/dev/video99", photos / "gone.png"]
    out = detect(capsys, model, *broken, photos / "b.jpg", "--json", status=1)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["source"] for row in rows] == [*map(str, broken), str(photos / "b.jpg")]
    assert ["error" in row for row in rows] == [True, True, True, False]
    assert detect.complaints.count("\n") == 3
    for text in ("it is not a video that OpenCV reads", "no such camera", "gone.png"):
        assert text in detect.complaints


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "none.png"], "none.png: no such file"),
        (["MODEL", "EMPTY"], "expected images in the folder"),
        (["MODEL", "IMAGE", "--format", "yolo"], "expected --output with a folder"),
        (["MODEL", "IMAGE", "--coco-ids"], "expected --format coco"),
        (["MODEL", "IMAGE", "--frames", "0"], "--frames: expected 1 or more, got 0"),
        (["MODEL", "IMAGE", "--conf", "7"], "--conf: expected 0 to 1"),
        (["MODEL", "IMAGE", "--head", "nothing"], "head"),
        (["MODEL", "IMAGE", "--labels", "nowhere.txt"], "nowhere.txt"),
        (["none.rknn", "IMAGE"], "none.rknn"),
        (["EMPTY", "IMAGE"], "expected one .rknn file in the folder"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    model, photos, tmp_path, capsys, arguments, message
):
    """In one line without a traceback, and the exit status is 1."""
    empty = tmp_path / "empty"
    empty.mkdir()
    words = {"MODEL": model, "IMAGE": photos / "1.png", "EMPTY": empty}
    assert detect(capsys, *(words.get(word, word) for word in arguments), status=1) == ""
    assert detect.complaints.startswith("rknn-runtime: ") and message in detect.complaints


@pytest.mark.parametrize(
    "options", [["--output", "IMAGE"], ["--output", "MODEL"], ["--save", "FOLDER"]]
)
def test_nothing_is_written_over_what_is_read(model, photos, tmp_path, capsys, options):
    """The images and the model stay, by whatever name they are called."""
    (tmp_path / "again").symlink_to(photos)
    words = {"IMAGE": tmp_path / "again" / "1.png", "MODEL": model, "FOLDER": tmp_path / "again"}
    before = [path.read_bytes() for path in (model, photos / "1.png")]
    detect(capsys, model, photos, *(words.get(word, word) for word in options), status=1)
    assert f"{options[0]}: expected another f" in detect.complaints
    assert [path.read_bytes() for path in (model, photos / "1.png")] == before


def test_patterns_that_the_shell_left_alone(model, photos, capsys):
    """Quoted patterns, and patterns on shells without them, are expanded."""
    assert detect(capsys, model, photos / "*.png").count(": 1 object") == 1
    whole = detect(capsys, model, photos / ".." / "**", "--conf", "0.99", status=1).splitlines()
    assert whole == [f"{photos}/../photos/{name}: 0 objects" for name in ("1.png", "b.jpg")]
    assert "model.rknn': it is not a video" in detect.complaints
