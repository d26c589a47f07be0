"""Models that were converted for NV12: camera frames go in plane by plane, or not at all."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
from bundles import WHOLE, image, output
from flows import buffer

from rknn_runtime import Classifier, Detector, InputSpec, Model, TensorMemory
from rknn_runtime.errors import ClosedError
from rknn_runtime.sim import Record, bundle_from_arrays, describe_output

HEIGHT, WIDTH = 64, 32
FRAME = np.random.default_rng(5).integers(0, 256, (HEIGHT * 3 // 2, WIDTH)).astype(np.uint8)
OTHER = FRAME[::-1].copy()
SOCS = pytest.mark.parametrize("soc", ["rk3588", "rv1106"])


def inputs(soc="rk3588", chroma_rows=HEIGHT // 2, names=("x_y_channel", "x_uv_channel")):
    return [
        image((1, 1, HEIGHT, WIDTH), soc, names[0]),
        image((1, 1, chroma_rows, WIDTH), soc, names[1], 1),
    ]


def answering(soc, frame, confidence):
    """The outputs of a split head for one frame: one object of class 1."""
    tensors = []
    for cells in ((8, 4), (4, 2), (2, 1)):
        tensors.append(np.full((1, 4, *cells), 1.5, np.float32))
        tensors.append(np.zeros((1, 2, *cells), np.float32))
    tensors[1][0, 1, 3, 2] = confidence
    planes = [frame[None, :HEIGHT, :, None], frame[None, HEIGHT:, :, None]]
    return Record(tensors, planes)


def detecting(soc="rk3588"):
    """A detector that sees something in two frames, and fails on any other bytes."""
    records = [answering(soc, FRAME, 0.8), answering(soc, OTHER, 0.5)]
    outputs = [
        output(f"o{i}", x.shape, soc, i, zero_point=-128, scale=0.01)
        for i, x in enumerate(records[0].outputs)
    ]
    return bundle_from_arrays(inputs(soc), outputs, records, soc=soc, preprocessing=[WHOLE, WHOLE])


@SOCS
def test_frames_as_cameras_have_them(control, soc):
    """One array, or two planes with rows apart: the NPU gets each byte of them."""
    with Model(detecting(soc), library="sim") as model:
        detector = Detector(model)
        assert (detector.input_size, detector.input_color) == ((HEIGHT, WIDTH), "NV12")
        found = detector(FRAME, color="NV12")
        assert found.class_id.tolist() == [1]
        np.testing.assert_allclose(found.confidence, [0.8], atol=0.01)
        apart = np.zeros((HEIGHT * 3 // 2 + 8, WIDTH + 8), np.uint8)
        luma, chroma = apart[:HEIGHT, :WIDTH], apart[HEIGHT + 8 :, :WIDTH]
        luma[...], chroma[...] = OTHER[:HEIGHT], OTHER[HEIGHT:]
        for planes in ((luma, chroma), (luma, np.ascontiguousarray(chroma).reshape(32, 16, 2))):
            found = detector(planes, color="NV12")
            np.testing.assert_allclose(found.confidence, [0.5], atol=0.01)


def memory_of(model, frame, rows=None, **options):
    """A DMA-BUF with a frame behind 4096 other bytes, its rows as far apart as the model's."""
    stride = model.inputs[0].w_stride
    padded = np.zeros((rows or HEIGHT * 3 // 2, stride), np.uint8)
    padded[: len(frame), :WIDTH] = frame[: len(padded)]
    fd = buffer(4096 + padded.nbytes, bytes(4096) + padded.tobytes())
    try:
        return TensorMemory.from_fd(model, fd, padded.nbytes, 4096, owned=True, **options)
    except BaseException:
        os.close(fd)
        raise


@SOCS
@pytest.mark.parametrize("mapped", [True, False])
def test_a_ring_of_dma_bufs(control, soc, mapped):
    """Each is bound by a call for each plane when its turn comes, and not again when it stays."""
    with Model(detecting(soc), library="sim") as model:
        detector = Detector(model)
        ring = [memory_of(model, frame, mapped=mapped) for frame in (FRAME, OTHER)]
        for memory, confidence in list(zip(ring, (0.8, 0.5))) * 2:
            before = control.calls("rknn_set_io_mem")
            for _ in range(2):
                found = detector(memory)
                np.testing.assert_allclose(found.confidence, [confidence], atol=0.01)
            assert control.calls("rknn_set_io_mem") == before + 2
        assert control.calls("rknn_create_mem_from_fd") == 4
        if mapped:  # an array then goes where the NPU reads
            detector(FRAME, color="NV12")
            assert ring[1].array()[:WIDTH].tolist() == FRAME[0].tolist()
        else:
            with pytest.raises(BufferError, match="the CPU does not see it"):
                detector(FRAME, color="NV12")


@pytest.mark.parametrize(
    ("given", "options", "error", "words"),
    [
        (FRAME, {}, ValueError, 'color: expected "NV12", as the model was converted for it'),
        (FRAME, {"color": "NV21"}, ValueError, 'color: expected "NV12"'),
        (
            FRAME[:48],
            {"color": "NV12"},
            ValueError,
            r"expected NV12 of the model's size \(64, 32\)",
        ),
        (FRAME[:95], {"color": "NV12"}, ValueError, "an array .* of even height"),
        (FRAME.astype(float), {"color": "NV12"}, TypeError, "array of uint8"),
        ("frame.png", {"color": "NV12"}, TypeError, "array of uint8"),
    ],
)
def test_other_frames_are_refused(control, given, options, error, words):
    """The message names the accepted frames; the model never runs."""
    with Model(detecting(), library="sim") as model:
        detector = Detector(model)
        with pytest.raises(error, match=words):
            detector(given, **options)
        assert control.calls("rknn_run") == 0


def test_other_memories_are_refused(control):
    """Too small for both planes, without descriptor, closed, or of another model."""
    data = detecting()
    with Model(data, library="sim") as model, Model(data, library="sim") as other:
        detector = Detector(model)
        stride = model.inputs[0].w_stride
        with pytest.raises(ValueError, match=f"NV12 frame of 32 x 64 in rows of {stride}"):
            detector(memory_of(model, FRAME, rows=HEIGHT))
        with pytest.raises(ValueError, match="see TensorMemory"):
            detector(memory_of(other, FRAME))
        memory = memory_of(model, FRAME)
        memory.close()
        with pytest.raises(ClosedError):
            detector(memory)
        array = np.zeros(8192, np.uint8)
        physical = TensorMemory.from_physical(model, 0x4000_0000, 8192, array)
        if physical.fd < 0:
            with pytest.raises(ValueError, match="expected one with a file descriptor"):
                detector(physical)
        assert control.calls("rknn_run") == 0
        np.testing.assert_allclose(detector(FRAME, color="NV12").confidence, [0.8], atol=0.01)


def test_a_memory_that_is_gone_takes_its_half_along(control):
    """No descriptor and no memory stays of a frame that nobody has."""
    with Model(detecting(), library="sim") as model:
        detector, kept = Detector(model), memory_of(model, FRAME)
        detector(kept)
        detector(kept)  # releases what the first call let go
        alive = control.live.memories
        for _ in range(3):
            detector(memory_of(model, OTHER))
            detector(kept)
        gc.collect()
        detector(kept)
        assert control.live.memories == alive


def test_what_is_no_nv12(control):
    """Two inputs of other names or sizes, or that take no pixels, are two inputs; BGR is none."""
    outputs = [describe_output("y", (1, 10), zero_point=0, scale=0.05)]
    records = [Record([np.zeros((1, 10), np.float32)])]
    whole = {"preprocessing": [WHOLE, WHOLE]}
    for tensors in (inputs(names=("a", "b")), inputs(chroma_rows=HEIGHT)):
        other = bundle_from_arrays(tensors, outputs, records, **whole)
        with (
            Model(other, library="sim") as model,
            pytest.raises(ValueError, match="expected a model with one image input"),
        ):
            Classifier(model)
    data = bundle_from_arrays(inputs(), outputs, records, **whole)
    specs = [InputSpec(pass_through=True), None]
    with (
        Model(data, library="sim", inputs=specs) as model,
        pytest.raises(ValueError, match="expected a model with one image input"),
    ):
        Classifier(model)
    with Model(data, library="sim") as model:
        with pytest.raises(ValueError, match="input_color: expected None"):
            Classifier(model, input_color="BGR")
        assert Classifier(model)(FRAME, color="NV12").class_id.shape == (5,)
