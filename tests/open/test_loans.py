"""Images that the NPU reads in the client's memory."""

from __future__ import annotations

import pytest
from paths import DATA, PROJECT

SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
NARROW = DATA / "models" / "ic3_w37_rk3588.rknn"

BEGIN = """\
import mmap, os
from rknn_runtime import TensorMemory
from rknn_runtime.npu import dma_heap

frames = []
with Model(sys.argv[1], library="sim") as model:
    for seed in range(3):
        (frame,) = inputs(model, seed)
        frames.append((frame, answers(model, frame)))

def read(model):
    model.run()
    for i in range(len(model.outputs)):
        model.output_memory(i).sync_from_device()
    return [model.output_f32(i).copy() for i in range(len(model.outputs))]

def which(model):
    answer = read(model)
    return [i for i, (_, expected) in enumerate(frames) if same(answer, expected)]

def put(model, frame, is_synced=True):
    model.input_view()[...] = frames[frame][0]
    if is_synced:
        model.input_memory().sync_to_device()

def buffer(size):
    fd = os.memfd_create("dma-buf")
    os.ftruncate(fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
    return fd
"""

IN_PLACE = """\
found = []
with Model(sys.argv[1], library="open") as model:
    memory = TensorMemory(model, model.input_memory().size_bytes)
    model.bind_input(0, memory, sync=False)
    put(model, 0)
    found += [which(model), which(model)]
    put(model, 1, is_synced=False)
    found.append(which(model))
    memory.sync_to_device()
    found.append(which(model))
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("driver", "path", "unsynced"),
    [("rknpu", SHAPES, [0]), ("rocket", SHAPES, [1]), ("rknpu", NARROW, [1])],
)
def test_an_image_in_place_needs_a_sync(run, driver, path, unsynced):
    """Without one the NPU sees old bytes; a copy by the CPU, as of rows to be filled, new ones."""
    found = run(driver, "rk3588", BEGIN + IN_PLACE, path)
    assert found == [[0], [0], unsynced, [1]]


CAMERA = """\
found = []
with Model(sys.argv[1], library="open") as model, Model(sys.argv[1], library="open") as other:
    size = model.input_memory().size_bytes
    camera = [buffer(size + 8192) for _ in range(3)]
    offset = int(sys.argv[2])
    memories = [TensorMemory.from_fd(model, fd, size, offset) for fd in camera]
    theirs = TensorMemory.from_fd(other, camera[0], size, offset)
    for i, memory in enumerate(memories):
        model.bind_input(0, memory)
        put(model, i)
    for fd in camera:
        os.close(fd)
    taken = [os.open("/dev/null", os.O_RDWR) for _ in range(3)]  # the same numbers
    for i in (0, 1, 2, 0, 2, 1, 1, 0):
        model.bind_input(0, memories[i])
        found.append(which(model) == [i])
    other.bind_input(0, theirs)
    found += [which(other) == [0], which(other) == [0]]
    other.close()
    theirs.close()
    found += [which(model) == [0]]
    model.bind_input(0, memories[1])
    memories[0].close()
    found += [which(model) == [1], which(model) == [1]]
print("closed", file=sys.stderr)
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("driver", "offset"), [("rknpu", 0), ("rknpu", 4096), ("rknpu", 4100), ("rocket", 0)]
)
def test_buffers_of_a_camera_take_turns(start, driver, offset):
    """Also at an offset that no NPU takes, with closed descriptors, and shared by two models."""
    program = start(driver, "rk3588", BEGIN + CAMERA, SHAPES, offset, RKNN_BOARD_LOG="1")
    out, said = program.communicate(timeout=300)
    assert out.count("true") == 13, (out, said[-2000:])
    alive = 0
    for line in said.splitlines():
        alive += line.startswith("rknn_board: memory ") * (-1 if "back" in line else 1)
    assert alive == 0 or driver == "rocket"


HOSTILE = """\
found = []
with Model(sys.argv[1], library="open") as model:
    size = model.input_memory().size_bytes
    for kind in ("dma-buf", "camera"):
        fd = os.memfd_create(kind)
        os.ftruncate(fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        with TensorMemory.from_fd(model, fd, size) as memory:
            model.bind_input(0, memory)
            put(model, 2)
            found += [which(model), which(model)]
            model.bind_input(0, TensorMemory(model, size))
        os.close(fd)
    fd = buffer(size // 2)
    for length, offset in ((size, 0), (size // 2, 0), (size // 2, 1 << 30)):
        try:
            memory = TensorMemory.from_fd(model, fd, length, offset)
            model.bind_input(0, memory)
            found.append("taken")
        except Exception as error:
            found.append(type(error).__name__)
    put(model, 1)
    found.append(which(model))
print(json.dumps(found))
"""


def test_a_buffer_that_does_not_fit_is_refused_or_copied(run):
    """A short one, one that is no dma-buf, one behind its end."""
    found = run("rknpu", "rk3588", BEGIN + HOSTILE, SHAPES)
    assert found[:4] == [[2]] * 4
    assert "taken" not in found[4:7]
    assert found[7] == [1]
