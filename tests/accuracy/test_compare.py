"""Two runs of a model side by side: outputs, detections, mAP."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from native_tensors import quantize
from paths import PROJECT
from planting import Scene, faces
from planting.rows import as_rows
from reference.yolo import sigmoid

from rknn_runtime import Detector, GeneralModel, Model, TensorType
from rknn_runtime.cli.main import main
from rknn_runtime.conversion.accuracy import average_precision, compare
from rknn_runtime.conversion.html import for_page
from rknn_runtime.conversion.sides import Decoding, OnnxSide
from rknn_runtime.conversion.verdict import Advice, example_of, verdict_part
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import (
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
    record,
)
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.readers import from_yolo

MODELS = PROJECT / "examples" / "models"
ONNX, RKNN = MODELS / "shapes.onnx", MODELS / "shapes_rk3588.rknn"
SCENES = PROJECT / "examples" / "scenes"
SCENE = SCENES / "scene.png"
RANDOM = np.random.default_rng(0)


def recorded(*frames: list[list[float]]) -> list[list[np.ndarray]]:
    """A recording: per frame the values of each output."""
    return [[np.float32(values)[None] for values in frame] for frame in frames]


def inputs(count: int) -> list[np.ndarray]:
    """Frames that a recording ignores."""
    return [np.zeros((1, 2, 2, 3), np.uint8)] * count


def test_the_numbers_are_those_of_their_definitions() -> None:
    """Cosine, errors and signal to noise over all frames, and the worst frame."""
    a = RANDOM.normal(size=(5, 1, 3, 4)).astype(np.float32)
    b = a + RANDOM.normal(0, 0.1, a.shape).astype(np.float32)
    b[3] *= -1
    (row,) = compare([[x] for x in a], [[x] for x in b], inputs(5)).outputs
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    assert row.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert row.max_error == pytest.approx(np.abs(x - y).max())
    assert row.mean_error == pytest.approx(np.abs(x - y).mean())
    assert row.snr_db == pytest.approx(10 * math.log10((x**2).sum() / ((x - y) ** 2).sum()))
    assert row.worst_frame == 3
    assert -1 <= row.worst_cosine < -0.9
    assert (row.name, row.shape) == ("output 0", (1, 3, 4))


def test_equal_and_empty_outputs() -> None:
    """Equal outputs have no noise; zeros equal zeros and nothing else."""
    report = compare(
        recorded([[1, 2], [0, 0], [0, 0]]), recorded([[1, 2], [0, 0], [0, 1]]), inputs(1)
    )
    first, second, third = report.outputs
    assert (first.cosine, first.snr_db, first.max_error) == (pytest.approx(1), math.inf, 0)
    assert (second.cosine, second.snr_db) == (1, math.inf)
    assert (third.cosine, third.snr_db) == (0, -math.inf)
    assert report.worst(1) == (third,)
    said = json.loads(report.to_json())
    assert said["outputs"][0]["snr_db"] is None
    assert said["detections"] is None
    verdict, title, _, worst, *_ = str(report).splitlines()
    assert verdict.startswith("do not use: the smallest cosine is")
    assert title == "a (recorded) beside b (recorded), 1 frame"
    assert worst.endswith("output 2")


@pytest.mark.parametrize(("value", "snr"), [(math.nan, math.nan), (3e38, -math.inf)])
def test_what_is_not_finite_is_so_in_its_row(value: float, snr: float) -> None:
    """An output that overflowed is told, without a warning; JSON says null."""
    a, b = recorded([[0, 0]], [[1, 2]]), recorded([[0, 0]], [[1, value]])
    if value == 3e38:
        a = recorded([[0, 0]], [[0, 0]])
    (row,) = (report := compare(a, b, inputs(2))).outputs
    assert row.snr_db == snr or (math.isnan(row.snr_db) and math.isnan(snr))
    if math.isinf(value) or math.isnan(value):
        assert math.isnan(row.cosine)
        assert row.worst_frame == 1
        assert not math.isfinite(row.max_error)
        assert report.to_dict()["outputs"][0]["cosine"] is None


def test_outputs_are_paired_by_name(tmp_path: Path) -> None:
    """Where both have names; in another order they are the same."""
    x, y = RANDOM.normal(size=(2, 3, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.savez(tmp_path / "b.npz", y=y, x=x)
    report = compare(str(tmp_path / "a.npz"), tmp_path / "b.npz", inputs(3))
    assert [(row.name, row.max_error) for row in report.outputs] == [("x", 0), ("y", 0)]
    assert report.frames == 3


def test_float_beside_the_emulated_commands() -> None:
    """The example in float and on the emulated NPU: the same objects, from images of any size."""
    pytest.importorskip("onnxruntime")
    done = []
    report = compare(
        ONNX,
        RKNN,
        [SCENE, SCENES / "wide.jpg"],
        detect=True,
        conf_threshold=0.3,
        progress=lambda *now: done.append(now),
    )
    assert done == [(1, 2), (2, 2)]
    assert report.outputs[0].cosine > 0.9999
    assert report.outputs[0].snr_db > 40
    found = report.detections
    assert found is not None
    assert found.count == found.other_count == len(found.matches) > 10
    assert (found.missed, found.extra) == ((), ())
    assert found.mean_iou > 0.9
    assert found.max_confidence_difference < 0.06
    assert f"detections: {found.count} and {found.count}, {found.count} in both" in str(report)


def test_pictures_of_large_photos_are_small(tmp_path: Path) -> None:
    """Photos of any size have pictures for a page, with boxes, points and masks in their places."""
    size = (1200, 2400)
    mask = np.zeros((1, *size), np.bool_)
    mask[0, 100:300, 200:1000] = True
    found = Detections(
        np.array([[200, 100, 1000, 300]], np.float32), np.ones(1, np.float32),
        np.zeros(1, np.int32), mask=mask, keypoints=np.array([[[250, 200, 1]]], np.float32),
    )  # fmt: skip
    decoded = np.zeros((600, 1200, 3), np.uint8)
    pixels, placed = for_page(decoded, found, size, 960)
    assert pixels.shape == (480, 960, 3)
    assert placed.xyxy.tolist() == [[80, 40, 400, 120]]
    assert placed.keypoints is not None and placed.keypoints.tolist() == [[[100, 80, 1]]]
    rows, columns = np.nonzero(placed.mask[0])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (40, 119, 80, 399)
    example = example_of("photo", decoded, size, (found, found), (set(), {0}))
    assert example.reference.shape == (480, 960, 3)
    small = np.zeros((*size, 3), np.uint8)[:100, :100]
    assert for_page(small, found, (100, 100))[0] is small


def test_keypoints_are_compared_in_pixels() -> None:
    """Faces whose points all lie 3 pixels to the right and 4 below, or not at all apart."""
    size = (192, 160)
    scales = faces.yunet(Scene(3, size, (8, 16, 32), 1), True)
    sides = []
    for moved in (0, 1):
        arrays = [x.copy() for scale in scales for x in scale]
        for points, stride in zip(arrays[3::4], (8, 16, 32)):
            points[::2] += moved * 3 / stride
            points[1::2] += moved * 4 / stride
        floats = {"dtype": TensorType.FLOAT32, "zero_point": None, "scale": None}
        outputs = [describe_output(f"o{i}", (1, *x.shape), **floats) for i, x in enumerate(arrays)]
        given = describe_input("image", (1, 3, *size), zero_point=-128, scale=1 / 255)
        said = json.dumps({"head": "yunet", "options": {"logits": True}, "labels": ["face"]})
        record_of = Record([x[None] for x in arrays])
        sides.append(bundle_from_arrays([given], outputs, [record_of], custom_string=said))
    image = np.zeros((1, *size, 3), np.uint8)
    report = compare(*sides, [image], detect=True)
    found = report.detections
    assert found is not None and len(found.matches) > 5
    assert found.mean_points_apart == pytest.approx(5, abs=0.02)
    assert found.max_points_apart == pytest.approx(5, abs=0.02)
    assert "keypoints: 5.00 pixels apart on average, 5.00 at most" in str(report)
    assert report.to_dict()["detections"]["mean_points_apart"] == pytest.approx(5, abs=0.02)
    assert "5.00 pixels" in report.to_html()
    same = compare(sides[0], sides[0], [image], detect=True).detections
    assert same is not None and same.max_points_apart == 0


def test_a_whole_graph_keeps_its_sigmoid_beside_a_cut_one() -> None:
    """SCRFD's export, with probabilities as rows, and its int8 file, with logits."""
    size = (192, 160)
    scales = faces.scrfd(Scene(4, size, (8, 16, 32), 1), True, 2)
    whole = []
    for part, channels in enumerate((1, 4, 10)):
        for scale in scales:
            rows = as_rows(scale[part], channels)[..., 0].T[None]
            whole.append(sigmoid(rows) if part == 0 else rows)
    quantized = [quantize(x[None], "int8") for scale in scales for x in scale]
    outputs = [
        describe_output(f"o{i}", q.shape, zero_point=zero_point, scale=scale)
        for i, (q, zero_point, scale) in enumerate(quantized)
    ]
    given = describe_input("image", (1, 3, *size), zero_point=-128, scale=1 / 255)
    cut = bundle_from_arrays([given], outputs, [Record([q for q, _, _ in quantized])])
    image = np.zeros((1, *size, 3), np.uint8)
    found = compare([whole], cut, [image], detect=True).detections
    assert found is not None
    assert found.count == found.other_count == len(found.matches) > 5
    assert found.max_confidence_difference < 0.05


def test_every_side_gives_the_same_numbers(tmp_path: Path) -> None:
    """A path, loaded models of both flows, a bundle, arrays and an .npz of one model are equal."""
    image = RANDOM.integers(0, 256, (1, 320, 320, 3), np.uint8)
    bundle = record(RKNN, [image])
    with Model(RKNN, library="sim") as model, GeneralModel(RKNN, library="sim") as general:
        outputs = model(image)
        np.savez(tmp_path / "a.npz", output0=np.concatenate(outputs))
        for side in (model, general, bundle, [outputs], tmp_path / "a.npz"):
            (row,) = compare(RKNN, side, [image]).outputs
            assert row.max_error <= 1e-6, side
        model(image)  # it is still open


def test_mean_and_std_come_from_the_model_beside_it() -> None:
    """Or are given: with others the outputs differ."""
    pytest.importorskip("onnxruntime")
    image = RANDOM.integers(0, 256, (1, 320, 320, 3), np.uint8)
    right = compare(ONNX, RKNN, [image]).outputs[0]
    wrong = compare(ONNX, RKNN, [image], std_values=[[1, 1, 1]]).outputs[0]
    same = compare(
        ONNX, RKNN, [image], mean_values=[[0, 0, 0]], std_values=[[255, 255, 255]]
    ).outputs[0]
    assert same == right
    assert wrong.max_error > 10 * right.max_error


@pytest.mark.parametrize(
    ("sides", "frames", "options", "error", "message"),
    [
        ((3, []), [], {}, TypeError, "a: expected a path, a bundle, a model or recorded outputs"),
        (([[1]], []), inputs(1), {}, TypeError, "a .recorded.: expected a list of arrays"),
        ((recorded([[1]]),) * 2, [], {}, ValueError, "frames: expected at least one, got none"),
        ((recorded([[1]]),) * 2, inputs(2), {}, ValueError, "frames: expected at most the 1 of a"),
        ((recorded([[1]]),) * 2, "frames", {}, TypeError, "frames: expected a list of frames"),
        ((recorded([[1]]),) * 2, [3], {}, TypeError, "paths, arrays or lists of them, got int"),
        ((recorded([[1]]),) * 2, [SCENE], {}, ValueError, "expected arrays, as no side has one"),
        (
            (recorded([[1]]), recorded([[1, 2]])),
            inputs(1),
            {},
            ValueError,
            "--detect",
        ),
        ((recorded([[1]]),) * 2, inputs(1), {"head": "yolov8"}, TypeError, "without detect=True"),
        ((recorded([[1]]),) * 2, inputs(1), {"match_iou": 0}, ValueError, "match_iou: expected"),
        ((recorded([[1]]),) * 2, inputs(1), {"match_iou": "1"}, TypeError, "match_iou"),
        ((recorded([[1]]),) * 2, inputs(1), {"detect": True}, ValueError, "cannot tell how to dec"),
        (
            (recorded([[1]]),) * 2,
            inputs(1),
            {"mean_values": [[0]], "std_values": []},
            ValueError,
            "as many in both, got 1 and 0",
        ),
        (("no.onnx", []), inputs(1), {}, FileNotFoundError, "no.onnx"),
        ((b"x", []), inputs(1), {}, InvalidModelError, "these bytes are no model"),
    ],
)
def test_misuse_is_told(sides, frames, options, error, message) -> None:
    """The error names the expected value."""
    with pytest.raises(error, match=message):
        compare(*sides, frames, **options)


def test_frames_that_do_not_fit_a_network_in_float() -> None:
    """Their number, the number of normalizations, and what is no image to detect in."""
    pytest.importorskip("onnxruntime")
    onnx, frame = (PROJECT / "examples/models/shapes.onnx").read_bytes(), np.zeros((1, 224, 224, 3))
    one = Preprocessing((0.0,) * 3, (255.0,) * 3, rgb2bgr=False)
    with pytest.raises(ValueError, match="frames: expected 1 arrays each, got 2"):
        OnnxSide(onnx, "x", None).feed([frame, frame])
    with pytest.raises(ValueError, match=r"expected one per input \(1\), got 2"):
        OnnxSide(onnx, "x", (one, one)).feed([frame])
    decoding = Decoding([OnnxSide(onnx, "x", (one,))], {})
    for frames in ([frame, frame], [frame[0, 0]], [frame[..., :2]]):
        with pytest.raises(ValueError, match="expected one image to detect in"):
            decoding.decode([[]], frames, None)


def test_an_npz_that_is_no_recording(tmp_path: Path) -> None:
    """Damaged, empty, or with other numbers of frames."""
    path = tmp_path / "a.npz"
    path.write_bytes(b"x")
    with pytest.raises(InvalidModelError, match=r"a\.npz: expected an \.npy or \.npz file"):
        compare(path, [], inputs(1))
    for arrays in ({}, {"a": np.zeros((2, 1)), "b": np.zeros((3, 1))}, {"a": np.float32(1)}):
        np.savez(path, **arrays)
        with pytest.raises(InvalidModelError, match=r"all with as many frames|holds no array"):
            compare(path, [], inputs(1))


def boxes(rows: list[tuple[float, ...]]) -> Detections:
    """Left, top, right, bottom, confidence, class."""
    table = np.float32(rows).reshape(-1, 6)
    return Detections(table[:, :4].copy(), table[:, 4].copy(), table[:, 5].astype(np.int32))


def test_average_precision_by_hand() -> None:
    """One of two objects found, with one false detection before it: precision 1/2 to recall 1/2."""
    truth = [boxes([(0, 0, 10, 10, 1, 3), (50, 50, 60, 60, 1, 3)])]
    found = [boxes([(20, 20, 30, 30, 0.9, 3), (0, 0, 10, 10, 0.8, 3), (0, 0, 9, 9, 0.9, 1)])]
    result = average_precision(found, truth)
    assert result.mean == pytest.approx(51 / 101 / 2)  # recalls 0.00 to 0.50
    assert result.per_class == {3: pytest.approx(51 / 101 / 2)}
    assert average_precision(truth, truth).mean == 1
    assert average_precision([Detections.empty()], truth).mean == 0
    assert math.isnan(average_precision(truth, [Detections.empty()]).mean)


#: Five images of three classes, made with seed 5, and what pycocotools 2.0.11 says of them: AP,
#: AP50, AP75.
PYCOCOTOOLS = (0.20000235737859498, 0.45516265912305504, 0.13554926921263555)


def scene(seed: int) -> tuple[list[Detections], list[Detections]]:
    """Objects, and detections around them: moved, missing, doubled, of another class."""
    random = np.random.default_rng(seed)
    found, truth = [], []
    for _ in range(5):
        count = int(random.integers(0, 12))
        first = random.integers(0, 80, (count, 2))
        objects = np.concatenate([first, first + random.integers(8, 40, (count, 2))], axis=1)
        classes = random.integers(0, 3, count)
        truth.append(boxes([(*o, 1, c) for o, c in zip(objects.tolist(), classes.tolist())]))
        rows = []
        for o, c in zip(objects.tolist(), classes.tolist()):
            for _ in range(int(random.integers(0, 3))):
                moved = [value + int(random.integers(-3, 4)) for value in o]
                other = int(random.integers(0, 3)) if random.random() < 0.2 else c
                rows.append((*moved, float(random.integers(1, 100)) / 100, other))
        found.append(boxes(rows))
    return found, truth


def test_average_precision_is_that_of_pycocotools() -> None:
    """To the last digit that was written down."""
    result = average_precision(*scene(5))
    assert (result.mean, result.at_50, result.at_75) == pytest.approx(PYCOCOTOOLS, abs=1e-9)


def test_truth_gives_map_of_both() -> None:
    """The detections of the float network as truth: it has all of them right."""
    pytest.importorskip("onnxruntime")
    with Model(RKNN, library="sim") as model:
        truth = [Detector(model, conf_threshold=0.3)(SCENE)]
    report = compare(ONNX, RKNN, [SCENE], truth=truth, conf_threshold=0.3)
    assert report.average_precision is not None
    ours, theirs = report.average_precision
    assert theirs.mean == 1
    assert 0.5 < ours.mean < 1
    assert report.to_dict()["average_precision"][1]["mean"] == 1
    assert str(report).splitlines()[-1].startswith("mAP 1.0000, at IoU 0.50 1.0000")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the table, or JSON, of a folder of images with labels."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("PIL")
    labels = tmp_path / "labels"
    labels.mkdir()
    text = "2 0.5 0.5 0.25 0.25\n"
    (labels / "scene.txt").write_text(text)
    assert len(from_yolo(text, (320, 320))) == 1
    command = ["accuracy", str(ONNX), str(RKNN), "--images", str(SCENES), "--limit", "1"]
    assert main([*command, "--labels", str(labels)]) == 0
    printed = capsys.readouterr().out
    assert "shapes.onnx (float) beside shapes_rk3588.rknn (simulated), 1 frame" in printed
    assert printed.count("\nmAP ") == 2
    assert printed.startswith("do not use: the reference reaches an mAP of 0.000 only")
    assert main([*command, "--json", "--detect", "--quiet"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["frames"] == 1
    assert said["detections"]["count"] > 0
    frames = tmp_path / "frames"
    frames.mkdir()
    np.save(frames / "a.npy", np.zeros((1, 320, 320, 3), np.uint8))
    assert (
        main(["accuracy", str(ONNX), str(RKNN), "--images", str(frames), "--std", "255,255,255"])
        == 0
    )


def test_the_command_limits_evenly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The chosen images are spread over the folder: here every second one."""
    pytest.importorskip("onnxruntime")
    for i in range(6):
        pixels = np.full((1, 320, 320, 3), 40 * i, np.uint8)
        np.save(tmp_path / f"{i}.npy", pixels if i % 2 == 0 else pixels[:, 1:])  # these do not fit
    command = ["accuracy", str(ONNX), str(RKNN), "--images", str(tmp_path), "--json", "--quiet"]
    assert main([*command, "--std", "255,255,255", "--limit", "3"]) == 0
    assert json.loads(capsys.readouterr().out)["frames"] == 3
    assert main([*command, "--std", "255,255,255"]) == 1


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, and ends with 1."""
    command = ["accuracy", str(RKNN), str(RKNN), "--images"]
    for more, message in (
        (
            [str(tmp_path)],
            "expected images (.bmp, .jpeg, .jpg, .png, .ppm, .tif, .tiff, .webp) or .npy",
        ),
        ([str(tmp_path / "no")], "no: no such folder"),
        ([str(SCENES), "--limit", "0"], "limit: expected"),
        ([str(SCENES), "--labels", str(SCENE)], ": not a directory"),
    ):
        assert main([*command, *more]) == 1
        assert message in capsys.readouterr().err
    labels = tmp_path / "scene.txt"
    for content, message in (
        (b"1 2\n", "scene.txt: line 1: expected a class and the numbers"),
        (b"1 80 60 20 20\n", "scene.txt: line 1: expected fractions of the image's width"),
        (b"1 .5 .5 -.1 .1\n", "scene.txt: line 1: expected fractions of the image's width"),
        (b"1 1e308 0 0 0\n", "scene.txt: line 1: expected fractions of the image's width"),
        (b"\xff\xfe", "scene.txt: 'utf-8' codec can't decode"),
        (b"", f"--labels: expected labels such as scene.txt in {tmp_path}, got none"),
    ):
        labels.write_bytes(content)
        assert main([*command, str(SCENES), "--limit", "1", "--labels", str(tmp_path)]) == 1
        assert message in capsys.readouterr().err


def test_the_verdict_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keep what agrees; the page has it, the pictures of both sides, and titled axes."""
    pytest.importorskip("PIL")
    page = tmp_path / "page.html"
    command = ["accuracy", str(ONNX), str(RKNN), "--images", str(SCENES), "--detect"]
    assert main([*command, "--html", str(page)]) == 0
    assert capsys.readouterr().out.startswith("keep: ")
    text = page.read_text("utf-8")
    assert text.index("<b>keep</b>") < text.index("<figure>") < text.index("Outputs")
    assert text.count("<figure>") == 4
    assert "confidence of the judged side" in text


def test_little_evidence_is_no_reason_to_keep_a_model() -> None:
    """A few objects prove nothing, nor does a cosine that boxes in pixels make."""
    assert compare(ONNX, RKNN, [SCENE]).verdict.word == "look"
    pixels = np.zeros((1, 8, 8, 3), np.uint8)
    outputs = np.zeros((1, 10, 1, 2100), np.float32)
    outputs[0, :4, 0, 0], outputs[0, 5, 0, 0] = 0.5, 0.9
    report = compare([[outputs]], [[outputs]], [pixels])
    assert report.outputs[0].cosine == pytest.approx(1)
    assert "hides small values" in report.verdict.reason
    vector = np.arange(10, dtype=np.float32)[None]
    assert compare([[vector]], [[vector]], [pixels]).verdict.word == "keep"


def test_a_page_does_not_ask_for_itself() -> None:
    """The text says how to get the pictures; the page has them."""
    advice = Advice("look", "8 are missed", "look at the pictures, with --html report.html")
    assert verdict_part(advice).endswith("Next: look at the pictures</p>")


def test_implausible_objects_are_the_verdict() -> None:
    """A network read in the wrong unit agrees with itself, which proves nothing."""
    report = compare(ONNX, RKNN, [SCENE], detect=True, normalized=False)
    assert report.verdict.word == "do not use"
    assert "no area" in report.verdict.reason
    assert "rknn-runtime doctor" in report.verdict.next
    assert report.to_dict()["verdict"]["word"] == "do not use"


def test_objects_of_one_side_are_marked() -> None:
    """A side that misses all objects gets other pictures than one that finds them."""
    empty = [np.zeros((1, 10, 1, 2100), np.float32)]
    report = compare([empty], RKNN, [SCENE], detect=True)
    assert report.verdict.word == "do not use"
    assert len(report.detections.extra) >= 5
    (example,) = report.examples
    assert example.name == "scene.png"
    assert (example.reference != example.other).any()
