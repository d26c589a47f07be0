"""The C shim: the functions that it needs, and its message if one is missing."""

from __future__ import annotations

import pytest
import stub

from rknn_runtime._ffi import ffi, lib

REQUIRED = ["init", "destroy", "query", "run", "create_mem", "destroy_mem", "set_io_mem"]
#: Every optional function with arguments of the right types.
OPTIONAL = {
    "dup_context": (ffi.NULL, ffi.NULL),
    "inputs_set": (77, 0, ffi.NULL),
    "set_batch_core_num": (77, 1),
    "set_core_mask": (77, 1),
    "wait": (77, ffi.NULL),
    "outputs_get": (77, 0, ffi.NULL, ffi.NULL),
    "outputs_release": (77, 0, ffi.NULL),
    "create_mem_from_phys": (77, 0, ffi.NULL, 1, ffi.new("rknn_tensor_mem **")),
    "create_mem_from_fd": (77, 0, ffi.NULL, 1, 0, ffi.new("rknn_tensor_mem **")),
    "create_mem_from_mb_blk": (77, ffi.NULL, 0, ffi.new("rknn_tensor_mem **")),
    "create_mem2": (77, 1, 0, ffi.new("rknn_tensor_mem **")),
    "set_weight_mem": (77, ffi.NULL),
    "set_internal_mem": (77, ffi.NULL),
    "set_input_shape": (77, ffi.NULL),
    "set_input_shapes": (77, 0, ffi.NULL),
    "mem_sync": (77, ffi.NULL, 1),
}


def opened(path):
    out, message = ffi.new("rkr_library **"), ffi.new("char[]", 512)
    status = lib.rkr_library_open(str(path).encode(), out, message, 512)
    return status, out[0], ffi.string(message).decode()


@pytest.fixture
def library(tmp_path):
    """A library with the required functions only."""
    status, handle, message = opened(stub.build(tmp_path))
    assert (status, message) == (lib.RKR_OK, "")
    return handle


def test_a_missing_file_is_reported_in_the_linkers_words(tmp_path):
    """The message names the file, and no handle comes out."""
    status, handle, message = opened(tmp_path / "none.so")
    assert (status, handle) == (lib.RKR_ERR_LOAD, ffi.NULL)
    assert "none.so" in message


@pytest.mark.parametrize("function", REQUIRED)
def test_a_library_without_a_required_function_is_refused(tmp_path, function):
    """A library without a function that every runtime has is refused; the message names it."""
    status, handle, message = opened(stub.build(tmp_path, f"OMIT_{function}"))
    assert (status, handle) == (lib.RKR_ERR_LOAD, ffi.NULL)
    assert f"rknn_{function}" in message


@pytest.mark.parametrize("function", OPTIONAL)
def test_an_optional_function_is_missed_at_the_call_only(library, function):
    """A library without it opens; the call says that it is unavailable."""
    assert lib.rkr_library_has(library, f"rknn_{function}".encode()) == 0
    assert getattr(lib, f"rkr_{function}")(library, *OPTIONAL[function]) == lib.RKR_ERR_UNAVAILABLE


@pytest.mark.parametrize("name", ["rknn_", "init", "", "rknn_initx", "stub_contexts"])
def test_other_names_are_not_functions_of_the_api(library, name):
    """Only whole names of the vendor's API count, not other exports."""
    assert lib.rkr_library_has(library, name.encode()) == 0


def test_null_arguments_are_refused():
    """No null pointer reaches the vendor's code or is followed."""
    null = ffi.NULL
    message = ffi.new("char[]", 8)
    out = ffi.new("rkr_library **")
    assert lib.rkr_library_open(null, out, message, 8) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_library_open(b"x", null, message, 8) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_library_open(b"x", out, null, 8) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_library_open(b"x", out, message, 0) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_library_has(null, b"rknn_init") == 0
    assert lib.rkr_library_symbol(null, b"rknn_init") == null
    assert lib.rkr_library_path(null) == null
    assert lib.rkr_run(null, 0, null) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_create_mem(null, 0, 1, ffi.new("rknn_tensor_mem **")) == lib.RKR_ERR_ARGUMENT


def test_a_small_message_buffer_is_not_overrun(tmp_path):
    """The reason is cut to the buffer and still terminated."""
    message = ffi.new("char[]", b"#" * 15)
    status = lib.rkr_library_open(
        str(tmp_path / "none.so").encode(), ffi.new("rkr_library **"), message, 8
    )
    assert status == lib.RKR_ERR_LOAD
    assert bytes(ffi.buffer(message))[7:] == b"\0" + b"#" * 7 + b"\0"


def test_null_from_the_vendor_becomes_a_status(tmp_path):
    """A function that returns a pointer returns RKR_ERR_NULL for NULL."""
    _, handle, _ = opened(stub.build(tmp_path, "NO_MEMORY"))
    out = ffi.new("rknn_tensor_mem **")
    assert lib.rkr_create_mem(handle, 77, 16, out) == lib.RKR_ERR_NULL
    assert out[0] == ffi.NULL


SYNCING = r"""
static int syncs, runs, failing = -1, fail_run;
int rknn_mem_sync(rknn_context c, rknn_tensor_mem *m, rknn_mem_sync_mode mode) {
    (void)c;
    return syncs++ == failing ? -40 - (int)mode : (m == NULL ? -99 : 0);
}
int stub_syncs(int at, int run) { const int n = syncs; syncs = 0; failing = at; fail_run = run;
                                  return n; }
#define OMIT_run
int rknn_run(rknn_context c, rknn_run_extend *e) { (void)c; (void)e; runs++; return fail_run; }
int stub_runs(void) { return runs; }
"""


def letterbox_of(pixel):
    """Return the letterbox of one pixel that fills its frame."""
    return ffi.new("rkr_letterbox *", (pixel, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1))


def test_an_image_that_cannot_be_scaled_does_not_run(tmp_path):
    """The step says so; neither a sync nor a run was called."""
    source = stub.SOURCE.replace('#include "rkr.h"\n', '#include "rkr.h"\n' + SYNCING, 1)
    _, handle, _ = opened(stub.build(tmp_path, source=source))
    pixel, no_decoder = ffi.new("uint8_t[]", 1), (ffi.NULL, ffi.NULL)
    model = ffi.new("rkr_bound_model *", (handle, 77))
    box = letterbox_of(pixel)
    for image, status in ((ffi.NULL, lib.RKR_ERR_ARGUMENT), (pixel, lib.RKR_ERR_OVERLAP)):
        model.steps.failed = -1
        assert lib.rkr_run_frame(model, box, image, *no_decoder) == status
        assert model.steps.failed == lib.RKR_STEP_IMAGE
    assert lib.rkr_run_frame(ffi.NULL, box, b"\7", *no_decoder) == lib.RKR_ERR_ARGUMENT
    runs = ffi.cast("int(*)(void)", lib.rkr_library_symbol(handle, b"stub_runs"))
    assert (pixel[0], runs()) == (0, 0)


def test_a_frame_ends_with_the_decoder(tmp_path):
    """A run without an image goes on to it, and its status is the frame's."""
    source = stub.SOURCE.replace('#include "rkr.h"\n', '#include "rkr.h"\n' + SYNCING, 1)
    _, handle, _ = opened(stub.build(tmp_path, source=source))
    model = ffi.new("rkr_bound_model *", (handle, 77))
    model.steps.failed = -1
    decoder = ffi.new("rkr_yolo_decoder *")
    status = lib.rkr_run_frame(model, ffi.NULL, ffi.NULL, decoder, ffi.NULL)
    assert (status, model.steps.failed) == (lib.RKR_ERR_ARGUMENT, lib.RKR_STEP_DECODE)
    runs = ffi.cast("int(*)(void)", lib.rkr_library_symbol(handle, b"stub_runs"))
    assert runs() == 1


@pytest.mark.parametrize(
    ("failing_sync", "run_status", "expected"),
    [
        (-1, 0, (0, None, None, 5, 1)),
        (0, 0, (-41, "RKR_STEP_SYNC_INPUT", 0, 1, 0)),
        (1, 0, (-41, "RKR_STEP_SYNC_INPUT", 1, 2, 0)),
        (-1, -6, (-6, "RKR_STEP_RUN", 0, 2, 1)),
        (2, 0, (-42, "RKR_STEP_SYNC_OUTPUT", 0, 3, 1)),
        (4, 0, (-42, "RKR_STEP_SYNC_OUTPUT", 2, 5, 1)),
    ],
)
@pytest.mark.parametrize("with_image", [False, True])
def test_a_frame_stops_at_its_first_failure(
    tmp_path, with_image, failing_sync, run_status, expected
):
    """Sync inputs, run, sync outputs: the first failure's status, step and position come out."""
    source = stub.SOURCE.replace('#include "rkr.h"\n', '#include "rkr.h"\n' + SYNCING, 1)
    _, handle, _ = opened(stub.build(tmp_path, source=source))
    steer = ffi.cast("int(*)(int, int)", lib.rkr_library_symbol(handle, b"stub_syncs"))
    runs = ffi.cast("int(*)(void)", lib.rkr_library_symbol(handle, b"stub_runs"))
    steer(failing_sync, run_status)
    memory = ffi.new("rknn_tensor_mem *")
    inputs = ffi.new("rknn_tensor_mem *[]", [memory] * 2)
    outputs = ffi.new("rknn_tensor_mem *[]", [memory] * 3)
    steps = {"failed": -1, "failed_index": 99, "done_ns": 7}
    model = ffi.new("rkr_bound_model *", (handle, 77, inputs, 2, outputs, 3))
    model.steps = steps
    steps = model.steps
    if with_image:
        pixel = ffi.new("uint8_t[]", 1)
        status = lib.rkr_run_frame(model, letterbox_of(pixel), b"\7", ffi.NULL, ffi.NULL)
        assert pixel[0] == 7
    else:
        status = lib.rkr_run_synced(model)
    code, step, position, syncs, run_count = expected
    assert (status, steer(-1, 0), runs()) == (code, syncs, run_count)
    if step is not None:
        assert (steps.failed, steps.failed_index) == (getattr(lib, step), position)
        assert steps.done_ns == 0


def test_a_frame_without_sync_function_only_runs(library):
    """A library without rknn_mem_sync has coherent caches: the frame just runs."""
    memories = []
    for name in (b"in", b"out"):
        out = ffi.new("rknn_tensor_mem **")
        assert lib.rkr_create_mem(library, 77, 48, out) == 0
        attr = ffi.new("rknn_tensor_attr *", {"name": name})
        assert lib.rkr_set_io_mem(library, 77, out[0], attr) == 0
        memories.append(out[0])
    ffi.buffer(memories[0].virt_addr, 8)[:] = bytes(range(8))
    inputs, outputs = (
        ffi.new("rknn_tensor_mem *[]", each) for each in (memories[:1], memories[1:])
    )
    assert (
        lib.rkr_run_synced(ffi.new("rkr_bound_model *", (library, 77, inputs, 1, outputs, 1))) == 0
    )
    assert ffi.buffer(memories[1].virt_addr, 8)[:] == bytes(range(1, 9))
    for memory in memories:
        assert lib.rkr_destroy_mem(library, 77, memory) == 0
