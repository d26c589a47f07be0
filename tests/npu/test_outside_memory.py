"""Memory from cameras and heaps: bound in turn, copied by nobody, released once."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import mmap
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from bundles import WHOLE, detecting, image, output, recorded

from rknn_runtime import Detector, Model, TensorMemory
from rknn_runtime.errors import (
    AllocationError,
    ClosedError,
)
from rknn_runtime.npu import dma_heap
from rknn_runtime.sim import Record, bundle_from_arrays

FRAME = np.random.default_rng(3).integers(0, 256, (1, 8, 20, 3)).astype(np.uint8)
SOCS = ["rk3588", "rv1106"]


def shared_file(size, data=b""):
    """A file in memory, which stands in for a DMA-BUF."""
    fd = os.memfd_create("buffer", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    os.pwrite(fd, data, 0)
    return fd


def descriptors():
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def padded(model, frame=FRAME):
    """The bytes of a frame as the NPU wants them: rows padded to the stride."""
    attr = model.inputs[0]
    rows = np.zeros((frame.shape[1], attr.w_stride or frame.shape[2], frame.shape[3]), np.uint8)
    rows[:, : frame.shape[2]] = frame[0]
    return rows.tobytes()


def case_of(soc="rk3588", frame=FRAME):
    return recorded(soc, inputs=[image(soc=soc)], input_arrays=[frame])


@contextlib.contextmanager
def loaded(soc="rk3588", **options):
    case = case_of(soc)
    with Model(case.data, library="sim", **options) as model:
        yield model, case.expected[0]


# File descriptors


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("offset", [0, 64, 4096, 5000])
def test_a_frame_in_a_dma_buf_is_run(control, soc, offset):
    """The NPU reads the bytes of another device, at any offset."""
    with loaded(soc) as (model, expected):
        data = padded(model)
        size = model.input_memory().size_bytes
        fd = shared_file(offset + size)
        os.pwrite(fd, data, offset)
        memory = TensorMemory.from_fd(model, fd, size, offset)
        assert (memory.fd, memory.offset, memory.size_bytes) == (fd, offset, size)
        model.bind_input("image", memory)
        model.run()
        np.testing.assert_array_equal(model.output_f32(), expected)
        assert bytes(memory.array()[: len(data)]) == data
    assert is_open(fd)
    os.close(fd)


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("end", ["close", "collect", "model", "cycle"])
def test_a_descriptor_is_closed_by_its_owner(control, owned, end):
    """A borrowed one stays open, an owned one is closed with the memory, however that ends."""
    fd = shared_file(4096)
    model = Model(case_of().data, library="sim")
    memory = TensorMemory.from_fd(model, fd, 4096, owned=owned)
    if end == "close":
        memory.close()
        memory.close()
    elif end == "model":
        model.close()
        memory.close()
    elif end == "cycle":
        memory.cycle = memory
    del memory
    gc.collect()
    assert is_open(fd) is not owned
    model.close()
    if not owned:
        os.close(fd)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fd": -1}, ValueError, "fd: expected 0 to"),
        ({"fd": "3"}, TypeError, "fd: expected an integer"),
        ({"size_bytes": 0}, ValueError, "size_bytes: expected 1 to"),
        ({"size_bytes": 2**32}, ValueError, "size_bytes: expected 1 to"),
        ({"offset": -1}, ValueError, "offset: expected 0 to"),
        ({"offset": 2**31}, ValueError, "offset: expected 0 to"),
        ({"offset": 1}, ValueError, "the file has 4096 bytes"),
        ({"size_bytes": 4097}, ValueError, "the file has 4096 bytes"),
        ({"owned": 1}, TypeError, "owned: expected a bool, got 1"),
        ({"mapped": None}, TypeError, "mapped: expected a bool"),
    ],
)
def test_wrong_arguments_are_refused(control, arguments, error, message):
    """The descriptor stays the caller's, and nothing is made."""
    fd = shared_file(4096)
    given = {"fd": fd, "size_bytes": 4096, "owned": True, **arguments}
    with loaded() as (model, _):
        before = control.live
        with pytest.raises(error, match=message):
            TensorMemory.from_fd(model, **given)
        assert control.live == before
    assert is_open(fd)
    os.close(fd)


def test_what_is_no_descriptor_is_an_os_error(control):
    """With the kernel's reason."""
    reader, writer = os.pipe()
    fd = 1 << 20
    with loaded() as (model, _):
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            TensorMemory.from_fd(model, fd, 64)
        assert caught.value.errno == errno.EBADF
        with pytest.raises(OSError, match="rknn_create_mem_from_fd"):
            TensorMemory.from_fd(model, reader, 64)
        with pytest.raises(TypeError, match="model: expected a Model, got bytes"):
            TensorMemory.from_fd(b"", reader, 64)
    os.close(reader)
    os.close(writer)


def test_a_runtime_that_refuses_leaves_the_descriptor(control):
    """NULL is an `AllocationError`, and the mapping is gone."""
    fd = shared_file(4096)
    with loaded() as (model, _):
        control.fail("rknn_create_mem_from_fd")
        with pytest.raises(AllocationError, match=r"from_fd\(fd \d+, 4096 bytes at 0\)"):
            TensorMemory.from_fd(model, fd, 4096, owned=True)
    assert is_open(fd)
    os.close(fd)


# Rings of buffers, and the CPU's copies


@pytest.mark.parametrize("soc", SOCS)
def test_a_ring_of_camera_buffers_costs_one_call_a_frame(control, soc):
    """Each buffer is bound in turn: one rknn_set_io_mem, one rknn_run, the right result."""
    frames = [np.full((1, 8, 20, 3), value, np.uint8) for value in (1, 2, 3)]
    answers = [np.full((1, 5, 4, 6), value, np.int8) for value in (1, 2, 3)]
    records = [Record([answer], [frame]) for answer, frame in zip(answers, frames)]
    data = bundle_from_arrays(
        [image(soc=soc)],
        [output("map", (1, 5, 4, 6), soc)],
        records,
        soc=soc,
        preprocessing=[WHOLE],
    )
    with Model(data, library="sim") as model:
        ring = []
        for frame in frames:
            fd = shared_file(4096, padded(model, frame))
            ring.append(TensorMemory.from_fd(model, fd, 4096, owned=True, mapped=False))
        control.reset()
        for turn in range(9):
            model.bind_input(0, ring[turn % 3], sync=False)
            model.run()
            assert (model.output_raw()[:, 0, 0, 0, 0] == turn % 3 + 1).all()
        assert control.calls("rknn_set_io_mem") == control.calls("rknn_run") == 9
        assert control.calls("rknn_create_mem_from_fd") == 0
        assert control.calls("rknn_mem_sync") == 9  # of the output alone
        assert control.last_violation == ""


def no_access(memory):
    """Take every access to a memory away from this process: a touch is a SIGSEGV."""
    libc = ctypes.CDLL(None, use_errno=True)
    begin = memory.array().__array_interface__["data"][0] & -mmap.PAGESIZE
    size = -(-memory.size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    change = lambda rights: libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), rights)  # noqa: E731
    assert change(0) == 0
    return lambda: change(mmap.PROT_READ | mmap.PROT_WRITE)


def resident_bytes(memory):
    """How much of a mapping this process has ever touched, by the kernel's page tables."""
    begin = memory.array().__array_interface__["data"][0] // mmap.PAGESIZE
    count = -(-memory.size_bytes // mmap.PAGESIZE)
    with Path("/proc/self/pagemap").open("rb") as table:
        table.seek(8 * begin)
        entries = struct.unpack(f"={count}Q", table.read(8 * count))
    return sum(entry >> 63 for entry in entries) * mmap.PAGESIZE


@pytest.mark.parametrize("mapped", [True, False])
def test_the_cpu_copies_no_byte_of_a_frame(control, mapped):
    """100 frames from a ring through a Detector: 0 bytes of the buffers were touched by the CPU."""
    frame = np.random.default_rng(1).integers(0, 256, (1, 64, 64, 3)).astype(np.uint8)
    with Model(detecting(frame), library="sim") as model:
        detector = Detector(model)
        expected = detector(frame[0])
        ring = []
        for _ in range(4):
            fd = shared_file(frame.nbytes, frame.tobytes())
            ring.append(TensorMemory.from_fd(model, fd, frame.nbytes, owned=True, mapped=mapped))
        copied = 0
        gates = [no_access(memory) for memory in ring] if mapped else []
        for turn in range(100):
            found = detector(ring[turn % 4])
            np.testing.assert_array_equal(found.xyxy, expected.xyxy)
        for memory, open_gate in zip(ring, gates):
            open_gate()
            copied += resident_bytes(memory)
        assert copied == 0
        assert len(expected) == 1
        if mapped:  # the frame itself, through the CPU, is found as well
            ring[0].array()
            found = detector(frame[0])
            np.testing.assert_array_equal(found.xyxy, expected.xyxy)
            assert resident_bytes(ring[3]) > 0


def test_a_detector_follows_what_is_bound(control):
    """Another input or output memory: the detector writes and reads there."""
    frame = np.zeros((64, 64, 3), np.uint8)
    with Model(detecting(), library="sim") as model:
        detector = Detector(model)
        first = detector(frame)
        old_input, old_output = model.input_memory(), model.output_memory(1)
        model.bind_input(0, TensorMemory(model, old_input.size_bytes))
        model.bind_output(1, TensorMemory(model, old_output.size_bytes))
        old_output.array()[:] = 127
        old_input.close()
        gc.collect()
        again = detector(frame + 9)
        np.testing.assert_array_equal(again.xyxy, first.xyxy)
        assert (model.input_view() == 9).all()
        fd = shared_file(12288)
        model.bind_input(0, TensorMemory.from_fd(model, fd, 12288, owned=True, mapped=False))
        with pytest.raises(BufferError, match="the CPU does not see it"):
            detector(frame)
        model.bind_input(0, TensorMemory(model, 12288))
        np.testing.assert_array_equal(detector(frame).xyxy, first.xyxy)
        wrong = TensorMemory(model, 64)
        with pytest.raises(ValueError, match="memory: expected at least 12288 bytes"):
            detector(wrong)
        view = old_output.array()
        assert (view == 127).all()
        del view


def test_a_camera_frame_in_a_dma_buf_goes_through_the_detector(control):
    """NV12 in a mapped DMA-BUF: read there, converted and scaled once."""
    with Model(detecting(), library="sim") as model:
        fd = shared_file(128 * 96 * 3 // 2, bytes([128]) * (128 * 96 * 3 // 2))
        with TensorMemory.from_fd(model, fd, 128 * 96 * 3 // 2, owned=True) as memory:
            nv12 = memory.array().reshape(96 * 3 // 2, 128)
            assert len(Detector(model)(nv12, color="NV12")) == 1
            del nv12


def test_the_planes_of_nv12_are_two_inputs(control):
    """A model with inputs for Y and UV takes both planes of one buffer by their offsets."""
    y = image((1, 1, 8, 32), "rv1106", "y")
    uv = image((1, 2, 4, 16), "rv1106", "uv", 1)
    planes = [np.arange(n).astype(np.uint8).reshape(s) for n, s in
              ((256, (1, 8, 32, 1)), (128, (1, 4, 16, 2)))]  # fmt: skip
    case = recorded("rv1106", inputs=[y, uv], input_arrays=planes)
    with Model(case.data, library="sim") as model:
        sizes = [model.input_memory(i).size_bytes for i in range(2)]
        assert sizes == [256, 128]
        fd = shared_file(384, b"".join(plane.tobytes() for plane in planes))
        model.bind_input("y", TensorMemory.from_fd(model, fd, 256))
        model.bind_input("uv", TensorMemory.from_fd(model, fd, 128, 256, owned=True))
        model.run()
        np.testing.assert_array_equal(model.output_f32(), case.expected[0])


# Binding


def test_what_cannot_be_bound_is_refused(control):
    """Too small, another model's, used twice, closed, or nothing of the kind."""
    with loaded() as (model, _), loaded() as (other, _):
        small = TensorMemory(model, 16)
        closed = TensorMemory(model, 4096)
        closed.close()
        foreign = TensorMemory(other, 4096)
        before = control.calls("rknn_set_io_mem")
        for memory, error, message in (
            (small, ValueError, r"memory: expected at least \d+ bytes for input 0 'image', got 16"),
            (closed, ClosedError, "memory is closed"),
            (foreign, ValueError, "expected one of this model .*shared_with"),
            (model.output_memory(), ValueError, "expected one that nothing uses .* output 0 'map'"),
            (b"", TypeError, "memory: expected a TensorMemory, got bytes"),
        ):
            with pytest.raises(error, match=message):
                model.bind_input(0, memory)
        with pytest.raises(TypeError, match="sync: expected a bool, got 1"):
            model.bind_input(0, small, sync=1)
        with pytest.raises(ValueError, match="input: expected 'image', got 'map'"):
            model.bind_input("map", small)
        assert control.calls("rknn_set_io_mem") == before
        model.run(FRAME)


def test_a_memory_is_free_again_when_another_is_bound(control):
    """Until then it cannot be closed; the same is true of the model's own memory."""
    with loaded() as (model, expected):
        own, memory = model.input_memory(), TensorMemory(model, 4096)
        model.bind_input(0, memory)
        with pytest.raises(BufferError, match="is input 0 'image' of a model"):
            memory.close()
        model.bind_input(0, memory)
        model.bind_input(0, own)
        memory.close()
        np.testing.assert_array_equal(model(FRAME)[0], expected)


@pytest.mark.parametrize("soc", SOCS)
def test_an_output_goes_where_it_is_bound(control, soc):
    """To a buffer of another device, whole, synced or not as was said."""
    with loaded(soc) as (model, expected):
        size = model.output_memory().size_bytes
        fd = shared_file(size)
        model.bind_output("map", TensorMemory.from_fd(model, fd, size, owned=True))
        np.testing.assert_array_equal(model(FRAME)[0], expected)
        raw = model.output_raw().tobytes()
        assert os.pread(fd, len(raw), 0) == raw
        control.reset()
        memory = model.output_memory()
        model.bind_output(0, memory, sync=False)
        model.run(FRAME)
        assert control.calls("rknn_mem_sync") == 1  # of the input alone
        memory.sync_from_device()
        np.testing.assert_array_equal(model.output_f32(), expected)


def test_out_may_not_lie_in_memory_that_was_bound(control):
    """As little as in the model's own."""
    with loaded() as (model, _):
        memory = TensorMemory(model, 8192)
        model.bind_output(0, memory)
        out = memory.array()[: 120 * 4].view(np.float32).reshape(1, 5, 4, 6)
        with pytest.raises(ValueError, match=r"out\[0\]: expected memory of its own"):
            model(FRAME, out=[out])
        del out


# Bus addresses


@pytest.mark.parametrize("soc", SOCS)
def test_a_frame_at_a_bus_address_is_run(control, soc):
    """With the same bytes as the CPU sees them, which stay alive with the memory."""
    with loaded(soc) as (model, expected):
        block = mmap.mmap(-1, 8192)
        array = np.frombuffer(block, np.uint8)
        memory = TensorMemory.from_physical(model, 0x4000_0000, 8192, array)
        assert memory.physical_address == 0x4000_0000
        data = padded(model)
        memory.array()[: len(data)] = np.frombuffer(data, np.uint8)
        del array
        gc.collect()
        model.bind_input(0, memory)
        model.run()
        np.testing.assert_array_equal(model.output_f32(), expected)


@pytest.mark.parametrize(
    ("address", "array", "error", "message"),
    [
        (-1, None, ValueError, "address: expected 0 to"),
        (2**64, None, ValueError, "address: expected 0 to"),
        (0, np.zeros(63, np.uint8), ValueError, r"array: expected shape \(64,\)"),
        (0, np.zeros(128, np.uint8)[::2], ValueError, "C-contiguous"),
        (0, np.zeros(64, np.int8), TypeError, "array: expected dtype uint8"),
        (0, bytearray(64), TypeError, "array: expected a numpy.ndarray"),
    ],
)
def test_a_wrong_bus_address_is_refused(control, address, array, error, message):
    """Nothing reaches the runtime."""
    with loaded() as (model, _):
        with pytest.raises(error, match=message):
            TensorMemory.from_physical(model, address, 64, array)
        assert control.calls("rknn_create_mem_from_phys") == 0


# rknn_create_mem2


# Heaps


@pytest.fixture
def heap(monkeypatch, tmp_path):
    """A stand-in for /dev/dma_heap/system: its allocations are files in memory."""
    path = tmp_path / "heap"
    path.touch()
    calls = []

    def ioctl(device, command, data):
        calls.append(command)
        if command == dma_heap._SYNC:
            return 0
        size, fd, flags, heap_flags = dma_heap._ALLOCATION.unpack(data)
        assert (command, fd, heap_flags) == (0xC0184800, 0, 0)
        assert flags == os.O_RDWR | os.O_CLOEXEC
        if size > 1 << 20:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        data[:] = dma_heap._ALLOCATION.pack(size, shared_file(size), flags, 0)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    return str(path)


def test_memory_comes_from_a_heap(control, heap):
    """Allocated, owned, mapped, and closed with the memory."""
    with loaded() as (model, expected):
        memory = TensorMemory.from_dma_heap(model, 4096, heap)
        assert memory.fd >= 0
        assert not os.get_inheritable(memory.fd)
        model.bind_input(0, memory)
        np.testing.assert_array_equal(model(FRAME)[0], expected)
        control.fail("rknn_create_mem_from_fd")
        before = descriptors()
        with pytest.raises(AllocationError):
            TensorMemory.from_dma_heap(model, 4096, heap)
        assert descriptors() == before
    assert not is_open(memory.fd)


def test_a_heap_that_fails_says_so(control, heap):
    """Which heap, and how much was asked for."""
    with loaded() as (model, _):
        with pytest.raises(OSError, match=r"Cannot allocate memory: 2097152 bytes from .*heap"):
            TensorMemory.from_dma_heap(model, 1 << 21, heap)
        with pytest.raises(FileNotFoundError, match="/dev/dma_heap/no-such-heap"):
            TensorMemory.from_dma_heap(model, 64, "no-such-heap")
        with pytest.raises(TypeError, match="heap: expected a str, got int"):
            dma_heap.allocate(64, 3)
        with pytest.raises(ValueError, match="size_bytes: expected 1 to"):
            dma_heap.allocate(0, heap)


def test_a_signal_behind_the_allocation_loses_no_descriptor(control, heap, monkeypatch):
    """It is closed before the exception goes on."""
    inner = fcntl.ioctl

    def interrupted(device, command, data):
        inner(device, command, data)
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "ioctl", interrupted)
    before = descriptors()
    with pytest.raises(KeyboardInterrupt):
        dma_heap.allocate(4096, heap)
    assert descriptors() == before


def test_a_buffer_holds_a_file(heap, tmp_path):
    """Its bytes, until it is closed; a view forbids that."""
    path = tmp_path / "data"
    path.write_bytes(b"bytes of a file")
    with dma_heap.DmaBuffer.of_file(path, heap) as buffer:
        fd = buffer.fd
        assert bytes(buffer.data()) == b"bytes of a file"
        view = buffer.data()
        with pytest.raises(BufferError):
            buffer.close()
        del view
    assert buffer.is_closed
    assert not is_open(fd)
    buffer.close()
    with pytest.raises(ValueError, match="closed"):
        buffer.data()
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        buffer.__reduce__()
    unused = dma_heap.DmaBuffer(64, heap)
    fd = unused.fd
    del unused
    gc.collect()
    assert not is_open(fd)


# Flush flags


@pytest.mark.parametrize(
    ("flags", "syncs"), [(0, 2), (0x4000, 2), (0x8000, 2), (0xC000, 2)], ids=hex
)
def test_flush_flags_leave_the_syncs_to_the_model(control, flags, syncs):
    """Of inputs, of outputs, or of both: it syncs either, once a frame."""
    with loaded("rv1106", flags=flags) as (model, expected):
        control.reset()
        np.testing.assert_array_equal(model(FRAME)[0], expected)
        assert control.calls("rknn_mem_sync") == syncs
        model.bind_output(0, model.output_memory(), sync=False)
        control.reset()
        model.run(FRAME)
        assert control.calls("rknn_mem_sync") == 1
        model.bind_input(0, model.input_memory(), sync=False)
        control.reset()
        model.run()
        assert control.calls("rknn_mem_sync") == 0
        model.output_memory().sync_from_device()
        np.testing.assert_array_equal(model.output_f32(), expected)
