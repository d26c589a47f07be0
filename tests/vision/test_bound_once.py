"""Objects that are bound to a model's memory once, and use it only while it exists."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from rknn_runtime import Classifier, Detector, Model
from rknn_runtime.errors import ClosedError
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.vision import letterbox

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 90, 3), np.uint8)


def boxes(soc="rk3588", channels=3):
    """A split head of 64 x 64 pixels, which finds one object whatever it sees."""
    tensors = []
    for cells in (8, 4, 2):
        score = np.zeros((1, 2, cells, cells), np.float32)
        tensors += [np.full((1, 4, cells, cells), 1.5, np.float32), score]
    tensors[1][0, 1, 3, 3] = 0.8
    return tensors, bundle_from_arrays(
        [describe_input("image", (1, channels, 64, 64), soc=soc, zero_point=-128, scale=1 / 255)],
        [
            describe_output(f"o{i}", x.shape, soc=soc, index=i, zero_point=-128, scale=0.01)
            for i, x in enumerate(tensors)
        ],
        [Record(tensors)],
        soc=soc,
    )


def classes():
    """Two classes, of which the second is the more likely."""
    scores = np.array([[0.25, 0.75]], np.float32)
    return bundle_from_arrays(
        [describe_input("image", (1, 3, 32, 32), zero_point=-128, scale=1 / 255)],
        [describe_output("scores", scores.shape, zero_point=-128, scale=1 / 255)],
        [Record([scores])],
    )


def made(kind):
    """Return a model and the object bound to it."""
    model = Model(boxes()[1] if kind is Detector else classes(), library="sim")
    return model, kind(model)


both = pytest.mark.parametrize("kind", [Detector, Classifier])


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip((a.class_id, a.confidence), (b[0], b[1])))


@both
def test_a_frame_is_decoded_where_the_model_keeps_it(kind):
    """Also after the same decoder read, or refused, other arrays."""
    model, user = made(kind)
    with model:
        first = user(IMAGE)
        expected = first.class_id, first.confidence
        assert expected[0].tolist()[:1] == [1]
        empty = [np.full_like(model.output_raw(i), -128) for i in range(len(model.outputs))]
        raw = empty if kind is Detector else empty[0]
        other = user.decoder(raw)
        assert not same(other, expected)
        assert same(user(IMAGE), expected)
        wrong = [*empty[:-1], empty[-1][..., :1]]
        with pytest.raises(ValueError, match="native shape"):
            user.decoder(wrong if kind is Detector else wrong[0])
        del empty, raw, wrong
        gc.collect()
        assert same(user(IMAGE), expected)


@both
def test_nobody_runs_the_model_between_the_image_and_its_results(kind, monkeypatch):
    """The model's lock is held from the first byte written to the last one of the results."""
    model, user = made(kind)
    with model:
        held, lock = [], model._context._owned.lock._lock
        run, results = type(user._frame).run_frame, user.decoder.results

        def seen(function):
            def call(*arguments):
                held.append(lock._is_owned())
                return function(*arguments)

            return call

        monkeypatch.setattr(type(user._frame), "run_frame", seen(run))
        monkeypatch.setattr(user.decoder, "results", seen(results))
        user(IMAGE)
        assert held == [True, True]
        assert not lock._is_owned()


@both
def test_what_is_alive_does_not_keep_the_model_open(kind):
    """`close` works, and frames are refused afterwards; the decoder goes on."""
    model, user = made(kind)
    user(IMAGE)
    raw = [model.output_raw(i).copy() for i in range(len(model.outputs))]
    model.close()
    for image in (IMAGE, IMAGE[:, ::-1], np.zeros((4, 4, 3), np.uint8)):
        with pytest.raises(ClosedError):
            user(image)
    assert len(user.decoder(raw if kind is Detector else raw[0]).class_id) > 0


@both
def test_a_close_that_is_refused_changes_nothing(kind):
    """`BufferError` while an array is held; frames and the next close work."""
    model, user = made(kind)
    expected = user(IMAGE)
    held = model.output_raw(0)
    with pytest.raises(BufferError):
        model.close()
    assert same(user(IMAGE), (expected.class_id, expected.confidence))
    del held
    model.close()


def test_a_wrong_pad_value_is_refused_at_once():
    """Not at the first frame; and the model can be closed."""
    with Model(boxes()[1], library="sim") as model:
        with pytest.raises(ValueError, match="pad_value"):
            Detector(model, pad_value=256)
        model.close()


SHAPES = [(50, 90), (50, 90, 1), (50, 90, 3), (50, 90, 4), (90, 50, 3), (64, 64, 3), (1, 1, 3)]


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
@pytest.mark.parametrize("color", ["RGB", "BGR"])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_is_written_as_letterbox_writes_it(soc, color, channels):
    """Of any shape, order and strides, in turns and again; the same bytes."""
    random = np.random.default_rng(1)
    with Model(boxes(soc, channels)[1], library="sim") as model:
        detector = Detector(model, pad_value=7)
        for shape in SHAPES * 2:
            image = random.integers(0, 256, shape, np.uint8)
            for view in (image, image[::-1], image[:, ::-1], image[..., ::-1]):
                found = detector(view, color=color)
                expected, transform = letterbox(
                    view, (64, 64), pad_value=7, color=color, out_color=detector.input_color
                )
                assert np.array_equal(model.input_view()[0], expected)
                assert found.xyxy.max() <= max(transform.image_size)


def test_images_of_many_sizes_and_colours_in_turns():
    """Values computed for an image are used for the next only if that is of the same kind."""
    with Model(boxes()[1], library="sim") as model:
        detector = Detector(model)
        for height in (1, 20, 20, 40, 20, 1):
            for color in ("RGB", "RGB", "BGR"):
                detector(np.full((height, 20, 3), (height, 0, 7), np.uint8), color=color)
                pixel = (height, 0, 7) if color == "RGB" else (7, 0, height)
                pixels = {*map(tuple, model.input_view().reshape(-1, 3).tolist())}
                assert pixels == ({pixel} if height == 20 else {pixel, (114, 114, 114)})
        for shape in ((0, 20, 3), (20, 20, 2), (20, 20, 3)):
            image = np.zeros(shape, np.uint8)
            if shape == (20, 20, 3):
                assert len(detector(image)) == 1
            else:
                with pytest.raises(ValueError, match="image"):
                    detector(image)


def test_an_image_in_the_models_own_memory_is_refused():
    """It would be overwritten while it is read."""
    with Model(boxes()[1], library="sim") as model:
        detector = Detector(model)
        with pytest.raises(ValueError, match="expected memory of its own"):
            detector(model.input_view()[0])
        assert len(detector(IMAGE)) == 1
