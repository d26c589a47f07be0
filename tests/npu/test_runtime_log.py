"""The lines that a runtime prints in a failing call are in the exception, and in its stream."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import forwarding
import numpy as np
import pytest
import stub
from bundles import recorded
from paths import DATA
from threads import in_threads, running

from rknn_runtime import CoreMask, GeneralModel, InitFlag, Matmul, Model, TensorMemory
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import AllocationError, OperationFailedError, RknnStatusError
from rknn_runtime.modelfile.compatibility import Runtime, newer_toolkit
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.npu import raw
from rknn_runtime.npu.library import Library, open_library, printed
from rknn_runtime.npu.matmul_kinds import MatmulType

MODEL = DATA / "models" / "ic3_w37_rk3588.rknn"
FRAME = np.zeros((8, 20, 3), np.uint8)
#: Says something in every call, and fails in the one that it is told.
TALKING = r"""
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

static char failing[64];
static int interrupting, counting;
void talking_fail(const char *name) { snprintf(failing, sizeof failing, "%s", name); }
void talking_interrupt(int wanted) { interrupting = wanted; }
void talking_count(int wanted) { counting = wanted; }

static int fails(const char *name) {
    printf("I RKNN: %s\n", name);
    if (interrupting) { raise(SIGINT); }
    if (strcmp(name, failing) != 0) { /* what closes a model is told as one */
        if (strstr(name, "destroy") == NULL) { printf("W RKNN: %s was fine\n", name); }
        fflush(stdout);
        return 0;
    }
    printf("E RKNN: %s, first\n", name);
    fprintf(stderr, "E RKNN: %s, then\n", name);
    for (int i = 0; i < counting; i++) { printf("%d\n", i); }
    fflush(stdout);
    return 1;
}
#define BEFORE fails
#define AFTER() ((void)0)
"""
NO_FLAGS = InitFlag(0)
needs_models = pytest.mark.skipif(
    not MODEL.exists(), reason="needs the models, which lie in the checkout"
)


class Talking:
    """Such a library."""

    def __init__(self, folder: Path) -> None:
        self.library: Library = forwarding.build(folder, TALKING)

    def fail(self, name: str) -> None:
        """Have a call fail from now on; "" none."""
        ffi.cast("void (*)(char *)", self.library.symbol("talking_fail"))(name.encode())

    def switch(self, what: str, value: int) -> None:
        """Set one of its numbers."""
        ffi.cast("void (*)(int)", self.library.symbol(f"talking_{what}"))(value)

    def model(self, flags: InitFlag = NO_FLAGS) -> Model:
        """A small model."""
        return Model(recorded().data, library=self.library, check=False, flags=flags)


@pytest.fixture(scope="module")
def one_talking(tmp_path_factory: pytest.TempPathFactory) -> Talking:
    return Talking(tmp_path_factory.mktemp("talking"))


@pytest.fixture
def talking(one_talking: Talking, control: object) -> Iterator[Talking]:
    yield one_talking
    one_talking.fail("")
    one_talking.switch("count", 0)


def destroyed(model: Model) -> None:
    TensorMemory(model, 64).close()


def general(talking: Talking) -> GeneralModel:
    return GeneralModel(recorded().data, library=talking.library, check=False)


def multiplied(talking: Talking) -> Matmul:
    return Matmul(
        4, 64, 64, MatmulType.INT8_MM_INT8_TO_INT32, library=talking.library,
        core_mask=CoreMask.CORE_0,
    )  # fmt: skip


def multiply(talking: Talking) -> None:
    with multiplied(talking) as matmul:
        matmul.set_scales("A", 2.0)
        matmul.write_b(np.ones((64, 64), np.int8))
        matmul(np.ones((4, 64), np.int8))


def use(action: Callable[[Model], object], flags: InitFlag = NO_FLAGS) -> Callable[..., None]:
    """Load a model, fail the call from then on, and make it."""

    def act(talking: Talking, name: str) -> None:
        with talking.model(flags) as model:
            talking.fail(name)
            try:
                action(model)
            finally:
                talking.fail("")

    return act


def whole(action: Callable[[Talking], object]) -> Callable[..., None]:
    """Fail the call from the beginning."""

    def act(talking: Talking, name: str) -> None:
        talking.fail(name)
        try:
            action(talking)
        finally:
            talking.fail("")

    return act


#: Calls of each kind: that return a status, NULL, or nothing, alone or among several.
CALLS: dict[str, Callable[..., None]] = {
    "init": whole(lambda talking: talking.model()),
    "create_mem": whole(lambda talking: talking.model()),
    "run": use(lambda model: model.run(FRAME)),
    "mem_sync": use(lambda model: model.run(FRAME)),
    "destroy_mem": use(destroyed),
    "wait": use(lambda model: raw.start(model).wait(), InitFlag.FENCE_OUT_OUTSIDE),
    "outputs_get": whole(lambda talking: general(talking).run(FRAME)),
    "outputs_release": whole(lambda talking: general(talking).run(FRAME)),
    "matmul_run": whole(multiply),
    "matmul_destroy": whole(multiply),
    "destroy": whole(lambda talking: talking.model().close()),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_lines_of_a_failing_call_are_in_its_exception(talking, capfd, name):
    """The exception has the lines of both streams in their order, after the advice.

    The streams have them, too. Lines that only inform, and lines of earlier calls, are left out.
    """
    with pytest.raises(RknnStatusError) as caught:
        CALLS[name](talking, f"rknn_{name}")
    error = caught.value
    assert error.call.startswith(f"rknn_{name}")
    said = f"; the runtime says: E RKNN: rknn_{name}, first; E RKNN: rknn_{name}, then"
    assert str(error).count(said) == 1
    assert not error.detail.startswith("the runtime says")
    assert "I RKNN" not in str(error)
    assert "was fine" not in str(error)
    assert f"E RKNN: rknn_{name}, then\n" in capfd.readouterr().err


def test_the_advice_stays(talking):
    """The advice comes first, then the runtime's lines."""
    talking.fail("rknn_create_mem")
    with pytest.raises(
        AllocationError, match=r"it returned NULL; .* other models, .*; the runtime says:"
    ):
        talking.model()
    talking.fail("rknn_init")
    with pytest.raises(OperationFailedError, match=r"RKNN_LOG_LEVEL=4 .*; the runtime says:"):
        talking.model()


def test_a_status_of_ours_has_no_lines(talking):
    """The runtime was not called: its earlier lines are about something else."""
    with talking.model() as model:
        talking.fail("rknn_run")
        with pytest.raises(OperationFailedError, match="the runtime says"):
            model.run(FRAME)
        fd = os.memfd_create("short")
        with pytest.raises(ValueError, match="64") as caught:
            TensorMemory.from_fd(model, fd, 64)
        os.close(fd)
        assert "the runtime says" not in str(caught.value)


def test_a_release_that_fails_keeps_its_lines(talking):
    """Though the context is destroyed after it, and that succeeds."""
    model = talking.model()
    talking.fail("rknn_destroy_mem")
    with pytest.raises(OperationFailedError, match="E RKNN: rknn_destroy_mem, first"):
        model.close()
    assert model.is_closed


def test_it_can_be_left_alone(tmp_path, control, monkeypatch, capfd):
    """Then only the streams have it."""
    monkeypatch.setenv("RKNN_RUNTIME_CAPTURE", "0")
    talking = Talking(tmp_path)
    talking.fail("rknn_init")
    with pytest.raises(OperationFailedError) as caught:
        talking.model()
    assert "the runtime says" not in str(caught.value)
    assert "E RKNN: rknn_init, then" in capfd.readouterr().err


def test_the_last_lines_of_many(talking):
    """The oldest go, whole lines or not."""
    talking.switch("count", 5000)
    talking.fail("rknn_init")
    with pytest.raises(OperationFailedError) as caught:
        talking.model()
    assert str(caught.value).endswith("says: 4994; 4995; 4996; 4997; 4998; 4999")


def test_threads_get_their_own_lines(tmp_path, control, capfd):
    """8 fail at a time while others print: each has its own, and nothing printed is lost."""
    libraries = []
    for i in range(8):
        (tmp_path / str(i)).mkdir()
        libraries.append(forwarding.build(tmp_path / str(i), TALKING.replace("first", f"by {i};")))
    said = {}

    def load(i: int) -> None:
        ffi.cast("void (*)(char *)", libraries[i].symbol("talking_fail"))(b"rknn_init")
        for _ in range(20):
            with pytest.raises(OperationFailedError) as caught:
                Model(recorded().data, library=libraries[i], check=False)
            said.setdefault(i, set()).add(str(caught.value).split("the runtime says: ")[1])

    def speak(word: bytes) -> None:
        for _ in range(500):
            os.write(2, word)

    with running(speak, [(b"one\n",), (b"two\n",)]):
        in_threads(load, [(i,) for i in range(8)])
    assert said == {i: {f"E RKNN: rknn_init, by {i};; E RKNN: rknn_init, then"} for i in range(8)}
    err = capfd.readouterr().err
    assert (err.count("one\n"), err.count("two\n"), err.count("then\n")) == (500, 500, 160)


def test_a_signal_in_a_call_leaves_no_lines_behind(talking):
    """Ctrl-C while it prints; the next call that fails has its own alone."""
    with talking.model() as model:
        talking.switch("interrupt", 1)
        with pytest.raises(KeyboardInterrupt):
            model.run(FRAME)
        talking.switch("interrupt", 0)
        talking.fail("rknn_set_core_mask")
        with pytest.raises(OperationFailedError) as caught:
            model.set_core_mask(CoreMask.CORE_1)
        assert "says: E RKNN: rknn_set_core_mask, first" in str(caught.value)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_closed_streams_do_not_matter(tmp_path):
    """A daemon's: the lines are in the exception all the same."""
    library = stub.build(
        tmp_path,
        "OMIT_init",
        source=stub.SOURCE
        + """
#include <stdio.h>
int rknn_init(rknn_context *c, void *m, uint32_t s, uint32_t f, rknn_init_extend *e) {
    (void)c; (void)m; (void)s; (void)f; (void)e;
    fprintf(stderr, "E RKNN: %d\\n", 7);
    puts("E RKNN: no such operator");
    return RKNN_ERR_MODEL_INVALID;
}
""",
    )
    program = f"""
import os
os.close(1); os.close(2)
from rknn_runtime import Model
try:
    Model(b"anything", library={str(library)!r}, check=False)
except Exception as error:
    os._exit(42 if "E RKNN: 7; E RKNN: no such operator" in str(error) else 1)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 42


#: Prints in every way that C has.
PRINTING = r"""
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int by_list(FILE *stream, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int count = stream == NULL ? vprintf(format, list) : vfprintf(stream, format, list);
    va_end(list);
    return count;
}

/* Returns 0, or the number of the call that answered something else than C says. */
int stub_print(const char *path) {
    volatile size_t three = 3; /* so that the compiler makes no other call of it */
    FILE *file = fopen(path, "w");
    errno = 2;
    if (printf("%s %d %m\n", "printf", 1) != 35) { return 1; }
    if (fprintf(stderr, "fprintf %c\n", 'x') != 10) { return 2; }
    if (by_list(stderr, "vfprintf %s\n", "") != 10) { return 3; }
    if (by_list(NULL, "vprintf %zu\n", three) != 10) { return 4; }
    if (puts("puts") < 0) { return 5; }
    if (fputs("fputs", stdout) < 0 || putchar('!') != '!') { return 6; }
    if (fputc('\n', stdout) != '\n') { return 6; }
    if (fwrite("ab\nd", 1, three, stderr) != 3) { return 7; }
    if (fprintf(file, "to a file %d\n", 1) != 12 || fputs("too\n", file) < 0) { return 8; }
    if (fwrite("xyz", three, 1, file) != 1 || fputc('\n', file) != '\n') { return 9; }
    return fclose(file) == 0 && fflush(stdout) == 0 ? 0 : 10;
}
"""


@pytest.mark.parametrize(
    "flags",
    [
        ("-O0",),
        ("-O2", "-Wl,-z,relro,-z,now"),
        ("-O2", "-Wl,-z,lazy", "-Wl,-z,norelro"),
        ("-O2", "-fno-plt", "-Wl,-z,relro,-z,now"),
        ("-O2", "-Wl,--hash-style=sysv"),
    ],
    ids=" ".join,
)
def test_every_way_to_print_is_heard(tmp_path, capfd, flags):
    """However the library was linked; what goes to a file stays there, and results are C's."""
    library = open_library(
        stub.build(tmp_path, source=stub.SOURCE + PRINTING, flags=(*flags, "-Wno-pedantic"))
    )
    lib.rkr_wait(library.handle, 0, ffi.NULL)  # which it does not have
    print_all = ffi.cast("int (*)(char *)", library.symbol("stub_print"))
    file = tmp_path / "file"
    assert print_all(str(file).encode()) == 0
    lines = [
        "printf 1 No such file or directory", "fprintf x", "vfprintf", "vprintf 3", "puts",
        "fputs!", "ab",
    ]  # fmt: skip
    text = ffi.new("char[]", lib.RKR_LOG_BYTES)
    length = lib.rkr_log_read(text, len(text))
    heard = ffi.buffer(text, length)[:].decode()
    assert [line.strip() for line in heard.splitlines()] == lines
    assert printed() == f"the runtime says: {'; '.join(lines[1:])}"
    assert file.read_text(encoding="utf-8") == "to a file 1\ntoo\nxyz\n"
    assert capfd.readouterr().err == "fprintf x\nvfprintf \nab\n"


def test_others_print_past_it(tmp_path):
    """The process and its other libraries keep their own functions."""
    quiet = stub.build(tmp_path, source=stub.SOURCE + PRINTING)
    (tmp_path / "heard").mkdir()
    heard = open_library(stub.build(tmp_path / "heard", source=stub.SOURCE + PRINTING))
    lib.rkr_wait(heard.handle, 0, ffi.NULL)
    assert ctypes.CDLL(str(quiet)).stub_print(str(tmp_path / "file").encode()) == 0
    assert printed() == ""


def test_a_library_that_prints_nothing_is_none_to_listen_to(tmp_path):
    """C says so; and it refuses NULL, as every function."""
    silent = open_library(stub.build(tmp_path)).handle
    assert lib.rkr_log_keep(lib.rkr_library_symbol(silent, b"rknn_init")) == lib.RKR_ERR_UNAVAILABLE
    assert lib.rkr_log_keep(ffi.NULL) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_log_read(ffi.NULL, 5) == 0
    assert lib.rkr_log_read(ffi.new("char[1]"), 0) == 0


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
