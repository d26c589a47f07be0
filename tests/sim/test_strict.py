"""Misuse that would break a board's run is detected and reported, and never crashes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sim_api import Api, bytes_of, computed_bundle

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Control, describe_input, describe_output

MINI, FULL = "rv1106", "rk3588"
TO_DEVICE, FROM_DEVICE = lib.RKNN_MEMORY_SYNC_TO_DEVICE, lib.RKNN_MEMORY_SYNC_FROM_DEVICE
BOTH_WAYS = lib.RKNN_MEMORY_SYNC_BIDIRECTIONAL


def bundle(soc: str, **changes: Any) -> bytes:
    """An image in, 20 channels of 3x7 out; the executor sums and copies."""
    return computed_bundle(
        [describe_input("image", (1, 3, 4, 20), soc=soc)],
        [describe_output("output", (1, 20, 3, 7), soc=soc)],
        soc,
        **changes,
    )


def first_pixel(inputs: Any, outputs: Any) -> None:
    outputs[0][...] = inputs[0][0, 0, 0, 0]


@pytest.fixture
def control() -> Iterator[Control]:
    control = Control()
    control.reset()
    before = control.live
    yield control
    assert control.live == before
    control.reset()


@pytest.fixture(params=[MINI, FULL])
def api(request: pytest.FixtureRequest, control: Control) -> Iterator[Api]:
    with Api(bundle(request.param)) as api:
        api.set_executor(first_pixel)
        yield api


def violation(control: Control) -> str:
    """The one violation since the last look."""
    assert control.violations == 1
    text = control.last_violation
    control.reset()
    return text


# ---- coherence -----------------------------------------------------------------------


def value_after(api: Api, source: Any, target: Any, value: int, *modes: int) -> int:
    """Write a pixel, run, and return the output as the CPU sees it."""
    bytes_of(source)[0] = value
    if TO_DEVICE in modes:
        assert api.sync(source, TO_DEVICE) == 0
    assert api.run() == 0, api.control.last_message
    for mode in modes:
        if mode != TO_DEVICE:
            assert api.sync(target, mode) == 0
    return int(bytes_of(target)[0])


def test_rv1106_sees_nothing_without_the_right_sync(control: Control) -> None:
    """Input needs TO_DEVICE, output FROM_DEVICE (or BIDIRECTIONAL); else old bytes."""
    with Api(bundle(MINI)) as api:
        api.set_executor(first_pixel)
        source, target = api.bind("in"), api.bind("out")
        assert value_after(api, source, target, 11, TO_DEVICE, FROM_DEVICE) == 11
        assert value_after(api, source, target, 12, FROM_DEVICE) == 11  # input not synced
        assert value_after(api, source, target, 13, TO_DEVICE) == 11  # output not synced
        assert api.sync(target, TO_DEVICE) == 0  # the wrong direction
        assert bytes_of(target)[0] == 11
        assert "from the device" in control.last_message
        assert api.sync(target, FROM_DEVICE) == 0
        assert bytes_of(target)[0] == 13
        assert value_after(api, source, target, 14, TO_DEVICE, BOTH_WAYS) == 14
        bytes_of(source)[0] = 15
        assert api.sync(source, BOTH_WAYS) == 0
        assert value_after(api, source, target, 15, FROM_DEVICE) == 15
        bytes_of(source)[0] = 16
        assert api.sync(source, FROM_DEVICE) == 0  # drops what the CPU wrote
        assert bytes_of(source)[0] == 15
        assert [api.destroy_mem(mem) for mem in (source, target)] == [0, 0]


def test_mem_sync_of_null_or_in_no_known_direction(api: Api) -> None:
    """NULL is invalid; an odd mode moves nothing and succeeds, as on librknnmrt."""
    assert api.sync(ffi.NULL, TO_DEVICE) == lib.RKNN_ERR_PARAM_INVALID
    mem = api.create_mem(64)
    assert api.sync(mem, 8) == 0
    assert api.destroy_mem(mem) == 0


# ---- memories ------------------------------------------------------------------------


def test_create_mem_gives_zeroed_aligned_memory_with_a_file(api: Api) -> None:
    """Page-aligned, zeroed, a real descriptor at offset 0, flags 1, the size as asked."""
    for size in (1, 100, 4096, 4097):
        mem = api.create_mem(size)
        assert mem.size == size
        assert int(ffi.cast("uintptr_t", mem.virt_addr)) % os.sysconf("SC_PAGE_SIZE") == 0
        assert not bytes_of(mem).any()
        assert mem.flags == lib.RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE
        assert mem.offset == 0
        bytes_of(mem)[0] = 7
        assert os.pread(mem.fd, 1, 0) == b"\x07"
        assert api.destroy_mem(mem) == 0
    assert api.create_mem(0) == ffi.NULL


@pytest.mark.parametrize("size", [100, 4096])
@pytest.mark.parametrize("offset", [0, 63])
def test_a_write_past_the_end_is_detected(
    api: Api, control: Control, size: int, offset: int
) -> None:
    """By the next sync, and again when the memory is destroyed."""
    mem = api.create_mem(size)
    ffi.cast("uint8_t *", mem.virt_addr)[size + offset] = 1
    assert api.sync(mem, TO_DEVICE) == lib.RKNN_ERR_FAIL
    assert f"{size} bytes was written past its end" in violation(control)
    assert api.destroy_mem(mem) == 0
    assert "past its end" in violation(control)


def test_an_overrun_fails_the_run(api: Api, control: Control) -> None:
    """rknn_run looks at the memories that it uses."""
    mem = api.bind("in", type=TensorType.UINT8)
    ffi.cast("uint8_t *", mem.virt_addr)[mem.size] = 1
    assert api.run() == lib.RKNN_ERR_FAIL
    assert "past its end" in violation(control)
    assert api.destroy_mem(mem) == 0


def test_a_memory_is_destroyed_once(api: Api, control: Control) -> None:
    """The second time is reported and changes nothing."""
    mem = api.create_mem(64)
    assert api.destroy_mem(mem) == 0
    assert api.destroy_mem(mem) == lib.RKNN_ERR_PARAM_INVALID
    assert "destroyed before" in violation(control)


def test_a_foreign_pointer_is_not_touched(api: Api, control: Control) -> None:
    """A rknn_tensor_mem of the client's own making is refused everywhere."""
    foreign = ffi.new("rknn_tensor_mem *", {"size": 1 << 20})
    attr = api.good_attr("in", "native")
    for call in (
        lambda: api.destroy_mem(foreign),
        lambda: api.destroy_mem(ffi.cast("rknn_tensor_mem *", 16)),
        lambda: api.sync(foreign, TO_DEVICE),
        lambda: api.set_io_mem(foreign, attr),
    ):
        assert call() == lib.RKNN_ERR_PARAM_INVALID
        assert "not a memory of this runtime" in violation(control)


def test_a_memory_belongs_to_its_context(api: Api, control: Control) -> None:
    """Another context can neither bind, sync nor destroy it, nor one around a file."""
    with Api(bundle(FULL)) as other, tempfile.TemporaryFile() as file:
        file.truncate(1 << 16)
        out, attr = ffi.new("rknn_tensor_mem **"), api.good_attr("in", "native")
        context = other.handle, other.context
        assert lib.rkr_create_mem_from_fd(*context, file.fileno(), ffi.NULL, 1 << 16, 0, out) == 0
        for mem in (other.create_mem(1 << 16), out[0]):
            for call, *arguments in (
                (api.destroy_mem, mem),
                (api.sync, mem, TO_DEVICE),
                (api.set_io_mem, mem, attr),
            ):
                assert call(*arguments) == lib.RKNN_ERR_PARAM_INVALID
                assert "of another context" in violation(control)
            assert other.destroy_mem(mem) == 0


def test_a_bound_memory_that_was_destroyed_fails_the_run(api: Api, control: Control) -> None:
    """A board would read freed memory; binding another one repairs it."""
    first = api.bind("in", type=TensorType.UINT8)
    assert api.destroy_mem(first) == 0
    assert api.run() == lib.RKNN_ERR_FAIL
    assert "memory bound to image was destroyed" in violation(control)
    second = api.bind("in", type=TensorType.UINT8)
    assert api.run() == 0
    assert api.destroy_mem(second) == 0


@pytest.mark.parametrize("soc", [MINI, FULL])
def test_a_memory_around_a_file_of_the_client(soc: str, control: Control) -> None:
    """rknn_create_mem_from_fd: the NPU reads through the file, at the offset."""
    with Api(bundle(soc)) as api, tempfile.TemporaryFile() as file:
        api.set_executor(first_pixel)
        attr = api.good_attr("in", "native")
        attr.type = TensorType.UINT8
        size, offset = attr.size_with_stride, 4096 + 64
        file.truncate(offset + size)
        out = ffi.new("rknn_tensor_mem **")
        create = lib.rkr_create_mem_from_fd
        status = create(api.handle, api.context, file.fileno(), ffi.NULL, size + 1, offset, out)
        assert status == lib.RKR_ERR_NULL
        assert "behind the end of the file" in violation(control)
        assert create(api.handle, api.context, -1, ffi.NULL, size, 0, out) == lib.RKR_ERR_NULL
        assert create(api.handle, api.context, file.fileno(), ffi.NULL, size, offset, out) == 0
        source = out[0]
        assert source.flags == lib.RKNN_TENSOR_MEMORY_FLAGS_FROM_FD
        assert api.set_io_mem(source, attr) == 0
        target = api.bind("out")
        os.pwrite(file.fileno(), b"\x2a", offset)
        assert api.sync(source, TO_DEVICE) == 0
        assert api.run() == 0
        assert api.sync(target, FROM_DEVICE) == 0
        assert bytes_of(target)[0] == 42
        assert [api.destroy_mem(mem) for mem in (source, target)] == [0, 0]
        assert os.fstat(file.fileno()).st_size == offset + size


@pytest.mark.parametrize("soc", [MINI, FULL])
def test_a_memory_at_a_physical_address_needs_a_virtual_one(soc: str, control: Control) -> None:
    """rknn_create_mem_from_phys: the simulated NPU reads what virt_addr points to."""
    with Api(bundle(soc)) as api:
        api.set_executor(first_pixel)
        out = ffi.new("rknn_tensor_mem **")
        create = lib.rkr_create_mem_from_phys
        # An emulator answers for the pages that it keeps free for a 32-bit program.
        for address in () if os.environ.get("RKNN_TEST_EMULATED") else (0, 16):
            pointer = ffi.cast("void *", address)
            assert create(api.handle, api.context, 1 << 20, pointer, 64, out) == lib.RKR_ERR_NULL
            assert "not 64 bytes of mapped memory" in violation(control)
        attr = api.good_attr("in", "native")
        attr.type = TensorType.UINT8
        pixels = np.full(attr.size_with_stride, 43, np.uint8)
        pointer = ffi.from_buffer(pixels)
        assert create(api.handle, api.context, 1 << 20, pointer, pixels.size, out) == 0
        assert out[0].flags == (3 if soc == MINI else 1)
        assert api.set_io_mem(out[0], attr) == 0
        target = api.bind("out")
        assert api.sync(out[0], TO_DEVICE) == 0
        assert api.run() == 0
        assert api.sync(target, FROM_DEVICE) == 0
        assert bytes_of(target)[0] == 43
        assert [api.destroy_mem(mem) for mem in (out[0], target)] == [0, 0]


def test_a_memory_without_a_context_may_vanish_while_it_is_bound(control: Control) -> None:
    """Two contexts bind it, one destroys it: the other's run is refused, not a crash."""
    with Api(bundle(FULL)) as first, Api(bundle(FULL)) as second:
        out = ffi.new("rknn_tensor_mem **")
        flag = lib.RKNN_MEM_FLAG_ALLOC_NO_CONTEXT
        assert lib.rkr_create_mem2(first.handle, 0, 1 << 16, flag, out) == 0
        attr = first.good_attr("in", "native")
        attr.type = TensorType.UINT8
        for api in (first, second):
            api.set_executor(first_pixel)
            assert api.set_io_mem(out[0], attr) == 0
            assert api.run() == 0
        assert first.destroy_mem(out[0]) == 0
        assert second.run() == lib.RKNN_ERR_FAIL
        assert "was destroyed" in violation(control)
        assert second.destroy_mem(out[0]) == lib.RKNN_ERR_PARAM_INVALID
        assert "destroyed before" in violation(control)


def test_a_memory_without_a_context() -> None:
    """rknn_create_mem2 with the flag for it: any context may use and destroy it."""
    with Api(bundle(FULL)) as api:
        out = ffi.new("rknn_tensor_mem **")
        create = lib.rkr_create_mem2
        assert create(api.handle, 0, 64, 0, out) == lib.RKR_ERR_NULL
        assert create(api.handle, 0, 64, lib.RKNN_MEM_FLAG_ALLOC_NO_CONTEXT, out) == 0
        assert lib.rkr_destroy_mem(api.handle, 0, out[0]) == 0
        assert create(api.handle, api.context, 64, lib.RKNN_FLAG_MEMORY_CACHEABLE, out) == 0
        assert api.destroy_mem(out[0]) == 0


# ---- sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize("soc", [MINI, FULL])
@pytest.mark.parametrize("view", ["logical", "native", "nhwc"])
def test_an_output_memory_must_have_its_size_with_stride(
    soc: str, view: str, control: Control
) -> None:
    """One byte less is refused, although the vendor's runtimes check nothing."""
    with Api(bundle(soc)) as api:
        attr = api.good_attr("out", view)
        attr.size_with_stride = attr.size = 1  # what the caller claims does not matter
        need = api.good_attr("out", view).size_with_stride
        mem = api.create_mem(need)
        assert api.set_io_mem(mem, attr) == 0
        assert api.destroy_mem(mem) == 0
        short = api.create_mem(need - 1)
        assert api.set_io_mem(short, attr) == lib.RKNN_ERR_PARAM_INVALID
        assert f"{need - 1} bytes, the NPU would access {need}" in violation(control)
        assert api.destroy_mem(short) == 0


@pytest.mark.parametrize("soc", [MINI, FULL])
def test_a_converted_output_needs_room_for_what_is_written(soc: str, control: Control) -> None:
    """float32 in NCHW takes 4 bytes per element."""
    with Api(bundle(soc)) as api:
        attr = api.good_attr("out", "logical")
        attr.type, need = TensorType.FLOAT32, 4 * 20 * 3 * 7
        mems = [api.create_mem(need - 1), api.create_mem(need)]
        statuses = [api.set_io_mem(mem, attr) for mem in mems]
        assert statuses == [lib.RKNN_ERR_PARAM_INVALID, 0]
        assert "the NPU would access" in violation(control)
        assert [api.destroy_mem(mem) for mem in mems] == [0, 0]


@pytest.mark.parametrize(("soc", "code"), [(MINI, -5), (FULL, -1)])
def test_an_input_memory_must_hold_its_padded_rows(soc: str, code: int) -> None:
    """Pixels need N*H*w_stride*C bytes; refused with each runtime's own code."""
    with Api(bundle(soc)) as api:
        attr = api.good_attr("in", "logical")
        attr.type = TensorType.UINT8
        mems = [api.create_mem(4 * 32 * 3 - 1), api.create_mem(4 * 32 * 3)]
        assert [api.set_io_mem(mem, attr) for mem in mems] == [code, 0]
        assert [api.destroy_mem(mem) for mem in mems] == [0, 0]


def test_rv1106_trusts_the_attribute_but_not_beyond_its_memory(control: Control) -> None:
    """An edited size_with_stride disarms librknnmrt's check; the overrun is refused here."""
    with Api(bundle(MINI)) as api:
        attr = api.good_attr("in", "logical")
        attr.size_with_stride = 1
        mem = api.create_mem(64)
        assert api.set_io_mem(mem, attr) == lib.RKNN_ERR_PARAM_INVALID
        assert "the NPU would access 384" in violation(control)
        assert api.destroy_mem(mem) == 0


@pytest.mark.parametrize(("soc", "code"), [(MINI, -5), (FULL, -1)])
def test_an_unknown_name_is_refused(soc: str, code: int, control: Control) -> None:
    """Librknnmrt would say 0 and bind nothing."""
    with Api(bundle(soc)) as api:
        attr = api.good_attr("in", "native")
        attr.name = b"nobody"
        mem = api.create_mem(1 << 16)
        assert api.set_io_mem(mem, attr) == code
        assert "named 'nobody'" in violation(control)
        assert api.set_io_mem(mem, ffi.NULL) == lib.RKNN_ERR_PARAM_INVALID
        assert api.set_io_mem(ffi.NULL, attr) == lib.RKNN_ERR_PARAM_INVALID
        assert api.destroy_mem(mem) == 0


def test_a_short_prealloc_buffer_is_refused(control: Control) -> None:
    """rknn_outputs_get would write past its end."""
    with Api(bundle(FULL)) as api:
        api.set_executor(first_pixel)
        mem = api.bind("in", type=TensorType.UINT8)
        assert api.run() == 0
        own = np.full(420, 0x77, np.uint8)
        outputs = ffi.new("rknn_output[1]", [{"is_prealloc": 1, "size": 419}])
        outputs[0].buf = ffi.from_buffer(own)
        assert api.outputs_get(outputs) == lib.RKNN_ERR_PARAM_INVALID
        assert "419 bytes, it needs 420" in violation(control)
        assert (own == 0x77).all()
        assert api.destroy_mem(mem) == 0


def test_released_outputs_must_come_from_outputs_get(control: Control) -> None:
    """A foreign buffer is not freed, a second release is reported."""
    with Api(bundle(FULL)) as api:
        api.set_executor(first_pixel)
        mem = api.bind("in", type=TensorType.UINT8)
        outputs = ffi.new("rknn_output[1]")
        assert api.outputs_get(outputs) == lib.RKNN_ERR_FAIL  # nothing was run
        assert api.run() == 0
        assert api.outputs_get(outputs) == 0
        again = ffi.new("rknn_output[1]", [{"buf": outputs[0].buf}])
        assert api.outputs_release(outputs) == 0
        assert api.outputs_release(again) == lib.RKNN_ERR_PARAM_INVALID
        assert "released before" in violation(control)
        assert api.destroy_mem(mem) == 0


# ---- contexts ------------------------------------------------------------------------


def test_a_context_destroyed_before_its_memories(control: Control) -> None:
    """Reported, and again at each memory, which is released all the same."""
    api = Api(bundle(FULL))
    context = api.context
    mem = api.create_mem(64)
    assert api.destroy() == lib.RKNN_ERR_FAIL
    assert "1 memories of the context are still alive" in violation(control)
    bytes_of(mem)[0] = 1  # still mapped
    status = lib.rkr_destroy_mem(api.handle, context, mem)
    assert status == lib.RKNN_ERR_CTX_INVALID
    assert control.violations == 2  # of the context, and of its memory
    assert "destroyed before its memory" in control.last_violation


def test_outputs_not_released_are_reported(control: Control) -> None:
    """rknn_destroy frees them; on a board they leak."""
    api = Api(bundle(FULL))
    api.set_executor(first_pixel)
    mem = api.bind("in", type=TensorType.UINT8)
    assert api.run() == 0
    assert api.outputs_get(ffi.new("rknn_output[1]")) == 0
    assert api.destroy_mem(mem) == 0
    assert api.destroy() == lib.RKNN_ERR_FAIL
    assert "not released" in violation(control)


def test_a_context_is_destroyed_once(control: Control) -> None:
    """Afterwards, and with a number that never was a context, every call is refused."""
    api = Api(bundle(FULL))
    context = api.context
    assert api.destroy() == 0
    for wrong, text in ((context, "destroyed before"), (12345678, "not a context")):
        api.context = wrong
        for call in (
            api.destroy,
            api.run,
            lambda: api.attr("in", "native")[0],
            lambda: api.outputs_get(ffi.new("rknn_output[1]")),
            lambda: lib.rkr_set_core_mask(api.handle, api.context, 1),
        ):
            api.context = wrong
            assert call() == lib.RKNN_ERR_CTX_INVALID
            assert text in violation(control)
        api.context = wrong
        assert api.create_mem(64) == ffi.NULL
        assert text in violation(control)


def test_the_executor_may_not_use_its_context(api: Api, control: Control) -> None:
    """It would wait for itself; it is refused instead."""
    statuses = []

    def reenter(_: Any, __: Any) -> None:
        statuses.append(api.run())
        statuses.append(lib.rkr_destroy(api.handle, api.context))

    mem = api.bind("in", type=TensorType.UINT8)
    api.set_executor(reenter)
    assert api.run() == 0
    assert statuses == [lib.RKNN_ERR_CTX_INVALID] * 2
    assert control.violations == 2
    assert "executor uses the context" in control.last_violation
    assert api.destroy_mem(mem) == 0


def test_a_run_with_nothing_set_gives_garbage(api: Api) -> None:
    """As on a board: it succeeds, and the outputs mean nothing."""
    mem = api.bind("out")
    seen = []
    for _ in range(2):
        assert api.run() == 0
        assert api.sync(mem, FROM_DEVICE) == 0
        seen.append(bytes_of(mem)[:300].tobytes())
    assert seen[0] != seen[1]
    assert api.destroy_mem(mem) == 0


# ---- rknn_init -----------------------------------------------------------------------


def init(api: Api, model: Any, size: int, flags: int = 0, extend: Any = ffi.NULL) -> int:
    context = ffi.new("rknn_context *")
    status = lib.rkr_init(api.handle, context, model, size, flags, extend)
    if status == 0:
        assert lib.rkr_destroy(api.handle, context[0]) == 0
    return int(status)


def test_init_takes_bytes_or_a_path(api: Api, tmp_path: Path) -> None:
    """Size 0 makes the model a path."""
    path = tmp_path / "b.rknnsim"
    path.write_bytes(bundle(FULL))
    assert init(api, ffi.new("char[]", os.fsencode(path)), 0) == 0
    missing = ffi.new("char[]", os.fsencode(tmp_path / "missing"))
    assert init(api, missing, 0) == lib.RKNN_ERR_MODEL_INVALID
    assert "missing" in api.control.last_message
    folder = ffi.new("char[]", os.fsencode(tmp_path))
    assert init(api, folder, 0) == lib.RKNN_ERR_MODEL_INVALID
    assert init(api, ffi.NULL, 0) == lib.RKNN_ERR_MODEL_INVALID
    assert (
        lib.rkr_init(api.handle, ffi.NULL, ffi.from_buffer(b"x" * 64), 64, 0, ffi.NULL)
        == lib.RKNN_ERR_MODEL_INVALID
    )


def test_shared_weights_need_a_living_context(api: Api) -> None:
    """RKNN_FLAG_SHARE_WEIGHT_MEM on librknnrt; other flags are accepted."""
    data = bundle(FULL)
    model, size = ffi.from_buffer(data), len(data)
    share = lib.RKNN_FLAG_SHARE_WEIGHT_MEM
    assert init(api, model, size, share) == lib.RKNN_ERR_PARAM_INVALID
    extend = ffi.new("rknn_init_extend *", {"ctx": 99})
    assert init(api, model, size, share, extend) == lib.RKNN_ERR_PARAM_INVALID
    extend.ctx = api.context
    assert init(api, model, size, share, extend) == 0
    for bit in range(32):
        if 1 << bit != share:
            assert init(api, model, size, 1 << bit) == 0


@pytest.mark.parametrize(
    ("soc", "asked"),
    [(MINI, None), (MINI, "2.3.2"), (FULL, None), (FULL, "2.3.2"), (FULL, "1.5.2")],
)
def test_the_version_says_that_it_is_simulated(soc: str, asked: str | None) -> None:
    """Both strings of RKNN_QUERY_SDK_VERSION; the version is the one that was asked for."""
    with Api(bundle(soc, runtime_version=asked)) as api:
        version = ffi.new("rknn_sdk_version *")
        assert api.query(lib.RKNN_QUERY_SDK_VERSION, version) == 0
        text = ffi.string(version.api_version).decode()
        assert text.startswith(f"{asked or '2.3.2'} ")
        assert "simulated" in text
        assert soc in text
        assert "simulated" in ffi.string(version.drv_version).decode()
