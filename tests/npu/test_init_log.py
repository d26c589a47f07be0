"""What a runtime prints about a model that it refuses comes into the exception."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import stub
from threads import in_threads

from rknn_runtime import Model, open_library
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import ModelRefusedError
from rknn_runtime.modelfile.compatibility import Runtime, newer_toolkit
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.reader import ModelFile

MODEL = Path(__file__).resolve().parent.parent / "data" / "models" / "ic3_w37_rk3588.rknn"
#: Refuses every model, in words; with LATER it takes one the second time.
TALKING = (
    """
#define OMIT_init
#include <stdio.h>
static int inits;
int stub_inits(void) { return inits; }
"""
    + stub.SOURCE
    + """
int rknn_init(rknn_context *c, void *m, uint32_t s, uint32_t f, rknn_init_extend *e) {
    (void)m; (void)s; (void)f; (void)e;
    inits++;
    printf("I RKNN: version 2.3.2\\n");
    printf("E RKNN: [10:00:00.000] no such operator\\n");
    fprintf(stderr, "E RKNN: rknn_init, load model failed!\\n");
#ifdef LATER
    if (inits % 2 == 0) { contexts++; *c = 77; return 0; }
#endif
    return RKNN_ERR_MODEL_INVALID;
}
"""
)
needs_models = pytest.mark.skipif(
    not MODEL.exists(), reason="needs the models, which lie in the checkout"
)


@pytest.fixture
def talking(tmp_path: Path) -> Path:
    return stub.build(tmp_path, source=TALKING)


def test_its_lines_are_in_the_exception_and_on_stderr(talking, capfd):
    """Errors of both streams, in their order; what only informs is left to the streams."""
    with pytest.raises(ModelRefusedError) as caught:
        Model(b"anything", library=talking, check=False)
    assert "the runtime says: E RKNN: [10:00:00.000] no such operator; " in str(caught.value)
    assert "E RKNN: rknn_init, load model failed!" in str(caught.value)
    assert "I RKNN" not in str(caught.value)
    err = capfd.readouterr().err
    assert "load model failed" in err
    lib.rkr_init_log(ffi.NULL, ffi.NULL, 0, 0, ffi.NULL, 0)
    print("still there", flush=True)
    assert "still there" in capfd.readouterr().out


def test_it_can_be_left_alone(talking, monkeypatch, capfd):
    """Then the model is refused once, and the streams have it."""
    monkeypatch.setenv("RKNN_RUNTIME_CAPTURE", "0")
    library = open_library(talking)
    count = ffi.cast("int (*)(void)", library.symbol("stub_inits"))
    with pytest.raises(ModelRefusedError) as caught:
        Model(b"anything", library=library, check=False)
    assert count() == 1
    assert "the runtime says" not in str(caught.value)
    assert "load model failed" in capfd.readouterr().err


def test_a_context_that_is_made_after_all_is_destroyed(tmp_path):
    """Nothing is left of the second time."""
    library = open_library(stub.build(tmp_path, "LATER", source=TALKING))
    with pytest.raises(ModelRefusedError):
        Model(b"anything", library=library, check=False)
    assert ffi.cast("int (*)(void)", library.symbol("stub_contexts"))() == 0


def test_threads_get_their_own_lines(talking, capfd):
    """8 at a time; afterwards both streams lead where they led, and no descriptor is left."""
    library = open_library(talking)
    before = len(list(Path("/proc/self/fd").iterdir()))
    said = []

    def load() -> None:
        with pytest.raises(ModelRefusedError) as caught:
            Model(b"anything", library=library, check=False)
        said.append(str(caught.value).count("load model failed!"))

    in_threads(load, [()] * 8)
    assert len(said) == 8
    assert all(said)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    os.write(1, b"one")
    os.write(2, b"two")
    out, err = capfd.readouterr()
    assert out.endswith("one")
    assert err.endswith("two")


def test_c_refuses_null():
    """As every function."""
    text = ffi.new("char[]", 8)
    handle = open_library("sim").handle
    for arguments in (
        (ffi.NULL, text, 1, 0, text, 8),
        (handle, ffi.NULL, 1, 0, text, 8),
        (handle, text, 1, 0, ffi.NULL, 8),
        (handle, text, 1, 0, text, 0),
    ):
        assert lib.rkr_init_log(*arguments) == lib.RKR_ERR_ARGUMENT


@needs_models
def test_a_toolkit_newer_than_the_runtime_is_told():
    """As librknnrt 2.3.0 ends the process on YOLO26 of 2.3.2."""
    with opened(MODEL) as content:
        header = ModelFile(content).header
    assert header.toolkit_version.startswith("2.3.2")
    said = newer_toolkit(header, Runtime("librknnrt", (2, 3, 0)))
    assert said.startswith("it was made by toolkit 2.3.2, and librknnrt 2.3.0 is older")
    for runtime in (None, Runtime("librknnrt", (2, 3, 2)), Runtime("librknnrt", (2, 10, 0))):
        assert newer_toolkit(header, runtime) == ""


@needs_models
def test_loading_such_a_model_warns(tmp_path, caplog):
    """Once, and goes on: most such models run."""
    version = 'const char text[] __attribute__((used)) = "librknnrt version: 2.3.0 (4)";'
    library = stub.build(tmp_path, source=stub.SOURCE + version)
    Model(MODEL, library=library).close()
    (record,) = caplog.records
    assert "ic3_w37_rk3588.rknn: it was made by toolkit 2.3.2" in record.getMessage()
