"""Models that a runtime would refuse are refused before, with the reason."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stub
from handmade import standard_model, tensor
from paths import DATA

from rknn_runtime import Model
from rknn_runtime._ffi import lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import DeviceUnavailableError, InvalidModelError, RknnStatusError
from rknn_runtime.modelfile import compatibility
from rknn_runtime.modelfile.compatibility import Runtime, failures, problems, runtime_in
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.info import ModelHeader, ModelInfo
from rknn_runtime.modelfile.reader import ModelFile, Needs, read, read_header
from rknn_runtime.modelfile.soc import SOCS, Soc
from rknn_runtime.npu import device
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.sim import Control

MODELS = DATA / "models"
RK3588 = read_header(MODELS / "ic3_w37_rk3588.rknn")
RV1106 = read_header(MODELS / "ic3_w37_rv1106.rknn")
FULL = Runtime("librknnrt", (2, 3, 2))
MINI = Runtime("librknnmrt", (2, 3, 2))
OLD = Runtime("librknnrt", (1, 3, 4))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\0librknnrt version: 1.4.0 (a10f100eb@2022-09-09T09:07:14)\0", "librknnrt 1.4.0"),
        (b"\x7fELF" + bytes(9999) + b"librknnmrt version: 2.3.2 (429f97ae6b)", "librknnmrt 2.3.2"),
        (b"librknnrt version: unknown", "None"),
        (b"\x7fELF", "None"),
        (b"", "None"),
    ],
)
def test_a_runtime_library_carries_its_version(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    """As a text, in its read-only data."""
    library = tmp_path / "library.so"
    library.write_bytes(content)
    assert str(runtime_in(library)) == expected


def test_a_library_that_cannot_be_read_is_no_known_runtime(tmp_path: Path) -> None:
    """The dynamic linker may have found it elsewhere."""
    assert runtime_in(tmp_path / "missing.so") is None
    assert runtime_in(tmp_path) is None


@pytest.mark.parametrize(
    ("header", "soc", "runtime"),
    [
        (RK3588, None, None),
        (RK3588, "rk3588", FULL),
        (RV1106, "rv1106", MINI),
        (RV1106, "rv1103", MINI),
        (RV1106, "rv1106", Runtime("librknnmrt", (1, 6, 0))),
        (RK3588, "rk3588", Runtime("librknnrt", (1, 5, 2))),
        (dataclasses.replace(RK3588, soc="rk3566", npu="RKNPU lite"), "rk3568", FULL),
        (dataclasses.replace(RK3588, container_version=2), "rk3588", OLD),
    ],
)
def test_what_fits_is_no_problem(
    header: ModelHeader, soc: str | None, runtime: Runtime | None
) -> None:
    """SoCs of one NPU generation share models; unknown facts are no reason to refuse."""
    assert problems(header, soc=SOCS[soc] if soc else None, runtime=runtime) == []


def test_a_model_for_the_other_runtime() -> None:
    """Each runtime reads one kind of container."""
    (problem,) = problems(RV1106, runtime=FULL)
    assert "a mini one, for librknnmrt, and the loaded runtime is librknnrt 2.3.2" in problem
    (problem,) = problems(RK3588, runtime=MINI)
    assert "a standard one, for librknnrt, and the loaded runtime is librknnmrt 2.3.2" in problem


def test_a_dynamic_model_for_the_mini_runtime() -> None:
    """The toolkit makes one that no runtime loads; the message knows why."""
    header = read_header(MODELS / "dyn_in_rv1106.rknn")
    (problem,) = problems(header, soc=SOCS["rv1106"], runtime=MINI)
    assert "dynamic_input" in problem


@pytest.mark.parametrize(
    ("header", "runtime"),
    [
        *((RK3588, Runtime("librknnrt", (1, *v))) for v in ((3, 0), (3, 4), (4, 0), (5, 0))),
        *((RV1106, Runtime("librknnmrt", (1, *v))) for v in ((4, 0), (5, 0), (5, 2))),
    ],
)
def test_a_container_newer_than_the_runtime(header: ModelHeader, runtime: Runtime) -> None:
    """The one refuses it, the other ends the process; the message says what to install."""
    (problem,) = problems(header, runtime=runtime)
    assert f"container version is {header.container_version}, from toolkit 2.3.2" in problem
    assert f"{runtime} cannot read it: install {runtime.name} 2.3.2 or newer" in problem


TOPK = {"operators": {"TopK": 1}}
INT16 = {"outputs": {"dtype": TensorType.INT16}}


@pytest.mark.parametrize(
    ("change", "version", "zero_copy", "sentence"),
    [
        (TOPK, (1, 5, 2), False, "ends the process on the operator TopK"),
        (TOPK, (1, 6, 0), True, "ends the process on the operator TopK"),
        (TOPK, (2, 3, 2), True, None),
        ({"inputs": {"name": "图像"}}, (1, 6, 0), True, "ends the process on the name '图像'"),
        ({"outputs": {"name": "é"}}, (2, 3, 2), False, "ends the process on the name 'é'"),
        ({"outputs": {"name": "\x01"}}, (1, 5, 2), True, "ends the process on the name"),
        ({"outputs": {"name": 'a"\\/\t~'}}, (1, 5, 2), True, None),
        ({"inputs": {"name": "图像"}}, (2, 3, 3), True, None),
        (INT16, (1, 5, 2), True, "does not write int16 outputs where Model has them"),
        (INT16, (1, 6, 0), True, "take GeneralModel"),
        (INT16, (1, 6, 0), False, None),
        (INT16, (2, 3, 2), True, None),
        ({}, (1, 5, 2), True, None),
    ],
)
def test_what_a_runtime_was_seen_to_fail_on(
    change: dict[str, Any],
    version: tuple[int, int, int],
    zero_copy: bool,
    sentence: str | None,
) -> None:
    """Versions that failed are refused before the call; newer versions are allowed."""
    info = read(MODELS / "ic3_w37_rk3588.rknn")
    fields = {**vars(info), **change}
    for side in change.keys() & {"inputs", "outputs"}:
        attr = dataclasses.replace(vars(info)[side][0], native=None, **change[side])
        fields[side] = (attr,)
    changed = ModelInfo(**fields)

    class File(ModelHeader):
        @staticmethod
        def needs() -> Needs:
            ins, outs = (
                tuple(attr.name for attr in side) for side in (changed.inputs, changed.outputs)
            )
            return Needs((), False, ins, outs)

        @staticmethod
        def info() -> ModelInfo:
            return changed

    def checked(runtime: Runtime) -> str:
        try:
            compatibility.check_loadable(File(**vars(RK3588)), "", runtime, zero_copy=zero_copy)  # type: ignore[arg-type]
        except InvalidModelError as error:
            return str(error)
        return ""

    said = checked(Runtime("librknnrt", version))
    assert bool(said) == (sentence is not None)
    assert (sentence or "") in said
    assert failures(dataclasses.replace(changed, container="mini")) == []


def test_the_check_looks_for_what_ends_the_process(tmp_path: Path) -> None:
    """In a model that the runtime would read."""
    library = tmp_path / "librknnrt.so"
    library.write_bytes(b"librknnrt version: 1.5.2 (c6b7b351a@2023-08-23T15:29:04)")
    model = standard_model(
        [tensor("图像", (1, 8), (1, 8), layout=0)], [tensor("y", (1,), (1,), layout=0)]
    )
    with pytest.raises(InvalidModelError, match=r"librknnrt 1\.5\.2 ends the process on the name"):
        check(model, "", library)
    check(MODELS / "ic3_w37_rk3588.rknn", "", library)


def check(model: Path | bytes, name: str, library: Path) -> None:
    """Check a model, opened and parsed."""
    with opened(model) as data:
        compatibility.check_loadable(ModelFile(data), name, runtime_in(library))


@pytest.fixture(autouse=True)
def forgiven() -> Iterator[None]:
    """The simulated library loads models again after the test."""
    control = Control()
    yield
    control.reset()


def real_library(file: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The simulated library as if it were the vendor's in a file, which refuses every model."""
    library = open_library("sim")
    Control(library).fail("rknn_init", nth=0, code=int(lib.RKNN_ERR_MODEL_INVALID))
    monkeypatch.setattr(library, "is_simulated", False)
    monkeypatch.setattr(library, "path", str(file))
    monkeypatch.setattr(library, "runtime", runtime_in(file))
    return library


@pytest.fixture
def mini_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library file of librknnmrt, on an RV1106."""

    def rv1106() -> Soc:
        return SOCS["rv1106"]

    monkeypatch.setattr(compatibility, "soc_of_this_machine", rv1106)
    library = tmp_path / "librknnmrt.so"
    library.write_bytes(b"librknnmrt version: 2.3.2 (429f97ae6b@2025-04-09T09:11:49)")
    return library


def test_the_check_names_the_file_and_every_problem(mini_board: Path) -> None:
    """And how to skip it."""
    path = MODELS / "ic3_w37_rk3588.rknn"
    with pytest.raises(InvalidModelError) as caught:
        check(path, str(path), mini_board)
    message = str(caught.value)
    assert message.startswith(f"{path} cannot run here: ")
    assert "this machine is a rv1106" in message
    assert "librknnmrt 2.3.2" in message
    assert "check=False" in message
    check(MODELS / "ic3_w37_rv1106.rknn", "", mini_board)


def test_a_model_explains_itself_before_rknn_init(
    mini_board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Model`` asks, unless it is told not to: then the runtime gives its status."""
    library = real_library(mini_board, monkeypatch)
    for model in (MODELS / "ic3_w37_rk3588.rknn", (MODELS / "ic3_w37_rk3588.rknn").read_bytes()):
        with pytest.raises(InvalidModelError, match="cannot run here"):
            Model(model, library=library)
        with pytest.raises(RknnStatusError, match="rknn_init"):
            Model(model, library=library, check=False)


def test_a_refusal_that_was_not_foreseen_names_the_versions(
    mini_board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model, runtime, driver, machine: one of them is usually too old."""
    driver = tmp_path / "version"
    driver.write_text("RKNPU driver: v0.9.8\n")
    monkeypatch.setattr(compatibility, "DRIVER_FILES", ("/nowhere/version", str(driver)))
    library = real_library(mini_board, monkeypatch)
    runtime = "runtime librknnmrt 2.3.2, driver 0.9.8, machine rv1106"
    with pytest.raises(RknnStatusError, match="rknn_init") as caught:
        Model(MODELS / "ic3_w37_rv1106.rknn", library=library)
    assert f"(the model is for rv1106, by toolkit 2.3.2; {runtime})" in str(caught.value)
    with pytest.raises(RknnStatusError, match="rknn_init") as caught:
        Model(b"CYPTRKNN" + bytes(100), library=library)
    assert f"(the model is encrypted; {runtime})" in str(caught.value)


CONV = b"\x04\0\0\0Conv\0\0\0\0"


def with_operator(model: Path, name: bytes) -> bytes:
    """A model one of whose nodes is another one."""
    data = model.read_bytes()
    assert data.count(CONV) == 1
    return data.replace(CONV, bytes([len(name)]) + b"\0\0\0" + name.ljust(8, b"\0"))


def test_a_failed_load_names_what_is_known_of_its_cause(
    mini_board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators that this runtime refuses, and the devices of this machine."""
    version = '__attribute__((used)) static const char text[] = "librknnmrt version: 2.3.2 (4)";'
    refuses = "int rknn_init(rknn_context *c, void *m, uint32_t s, uint32_t f, rknn_init_extend *e)"
    refuses += " { (void)c; (void)m; (void)s; (void)f; (void)e; return RKNN_ERR_FAIL; }"
    source = f"#define OMIT_init\n{stub.SOURCE}\n{version}\n{refuses}\n"
    library = stub.build(tmp_path, source=source)
    monkeypatch.setattr(device, "trouble", lambda: "this machine shows no NPU")
    data = with_operator(MODELS / "ic3_w37_rv1106.rknn", b"TopK")
    with pytest.raises(RknnStatusError) as caught:
        Model(data, library=library)
    assert str(caught.value).startswith(
        f"rknn_init({len(data)} bytes, flags=0x0) failed with -1 (RKNN_ERR_FAIL): the model has "
        "TopK (librknnmrt 2.3.2 refuses it in rknn_init); this machine shows no NPU; check "
        "permissions, operators, and the versions of toolkit, runtime and driver; "
    )


def test_a_board_whose_runtime_would_crash_is_told(
    mini_board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before rknn_init, and only where the check is wanted."""
    new = mini_board.with_name("librknnrt.so")
    new.write_bytes(b"librknnrt version: 2.3.2 (429f97ae6b@2025-04-09T09:09:27)")
    monkeypatch.setattr(compatibility, "soc_of_this_machine", lambda: None)
    monkeypatch.setattr(device, "RKNPU", str(new))
    monkeypatch.setattr(device, "HEAP", "/nowhere/dma_heap/system")
    library = real_library(new, monkeypatch)
    model = MODELS / "ic3_w37_rk3588.rknn"
    with pytest.raises(DeviceUnavailableError, match="/nowhere/dma_heap/system is not there"):
        Model(model, library=library)
    with pytest.raises(DeviceUnavailableError, match="would end the process"):
        Model(b"CYPTRKNN" + bytes(100), library=library)
    with pytest.raises(RknnStatusError, match=r"rknn_init\(31631 bytes"):
        Model(model, library=library, check=False)


def test_a_failed_run_names_what_is_known_of_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Librknnmrt fails in a run where Gather has int64 indices."""
    version = '__attribute__((used)) static const char text[] = "librknnmrt version: 2.3.2 (4)";'
    run = "int rknn_run(rknn_context c, rknn_run_extend *e) { (void)c; (void)e; return -1; }"
    source = f"#define OMIT_run\n{stub.SOURCE}\n{version}\n{run}\n"
    monkeypatch.setattr(compatibility, "soc_of_this_machine", lambda: None)
    data = with_operator(MODELS / "ic3_w37_rv1106.rknn", b"Gather")
    with (
        Model(data, library=stub.build(tmp_path, source=source)) as model,
        pytest.raises(RknnStatusError, match=r"the model has Gather \(librknnmrt 2.3.2 fails"),
    ):
        model.run()


# The JSON that says the types of inputs and outputs: librknnrt trusts it, and ends the process.
# The cases were put to librknnrt 1.5.2, 1.6.0 and 2.3.2, emulated: all three answered alike.


MODEL = DATA / "models" / "ic3_w37_rk3588.rknn"
TEXTS = {
    "inputs": b'{"images": {"dtype": "int8", "layout": "NHWC"}}',
    "outputs": b'{"output0": {"dtype": "int8", "layout": "NCHW"}}',
}
#: Old text ("" for all of it), new text, and the reader's error.
ABORTS = [
    (b"{", b"x", "are no JSON"),
    (b"}}", b"} ", "are no JSON"),
    (b'"', b"'", "are no JSON"),
    (b"int8", b"in\x018", "are no JSON: a control"),
    (b"int8", b"in\xff8", "are no JSON|not UTF-8"),
    (b'"int8"', b"NaN", "are no JSON"),
    (b'"int8"', b"7", "say no dtype"),
    (b'"dtype"', b'"dtypo"', "say no dtype"),
    (b'"layout"', b'"layers"', "say no layout"),
    (b"", b"{}", "say nothing of"),
    (b"", b"[]", "are no object"),
    (b"", b"7", "are no object"),
    (b"0", b"1", "say nothing of 'output0'"),
    (b"images", b"Images", "say nothing of 'images'"),
]
#: Texts that are accepted, or for the outputs only.
TAKEN = [(b"", b"", ""), (b"int8", b"inx8", ""), (b'": {', b'" :{', "")]
ONLY_OF_INPUTS = [(b"NHWC", b"NHXC", "an unknown layout"), (b"NCHW", b"NCXW", "")]


def changed(which: str, old: bytes, new: bytes) -> bytes:
    """The model with another text of at most the same length, filled with blanks."""
    text, data = TEXTS[which], MODEL.read_bytes()
    other = text.replace(old, new) if old else new
    at = data.index(struct.pack("<I", len(text)) + text)
    length = struct.pack("<I", len(text) if other else 0)
    return data[:at] + length + other.ljust(len(text)) + data[at + 4 + len(text) :]


def cases(texts: list[tuple[bytes, bytes, str]]) -> list[tuple[str, bytes, bytes, str]]:
    return [
        (which, old, new, said)
        for which, text in TEXTS.items()
        for old, new, said in texts
        if old in text
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A librknnrt 2.3.2 that ends the process in rknn_init."""
    source = (
        "#include <stdlib.h>\n#define OMIT_init\n"
        f"{stub.SOURCE}\n"
        'const char version[] = "librknnrt version: 2.3.2 (429f97ae6b)";\n'
        "int rknn_init(void *c, void *m, uint32_t s, uint32_t f, void *e) "
        "{ (void)c; (void)m; (void)s; (void)f; (void)e; abort(); }\n"
    )
    return stub.build(tmp_path_factory.mktemp("library"), source=source)


@pytest.mark.parametrize(("which", "old", "new", "said"), cases([*ABORTS, ONLY_OF_INPUTS[0]]))
def test_what_ends_the_process_is_refused_before(
    library: Path, which: str, old: bytes, new: bytes, said: str
) -> None:
    """By every reader, and by a model before rknn_init."""
    data = changed(which, old, new)
    for use in (
        read,
        read_header,
        lambda data: Model(data, library=library),
    ):
        with pytest.raises(InvalidModelError, match=rf"damaged: .*({said})"):
            use(data)


@pytest.mark.parametrize(("which", "old", "new", "said"), cases([*TAKEN, ONLY_OF_INPUTS[1]]))
def test_what_the_runtimes_take_is_read(which: str, old: bytes, new: bytes, said: str) -> None:
    """Their answers do not depend on it but for the logical type."""
    expected = read(MODEL)
    info = read(changed(which, old, new))
    assert info.outputs[0].shape == expected.outputs[0].shape and said == ""
    assert info.inputs[0].native == expected.inputs[0].native


def test_a_text_too_deep_or_too_large_is_refused() -> None:
    """The reader's bounds refuse it, far below the limits of the stack."""
    for text in (b"[" * 40, b'{"a":' * 9):
        with pytest.raises(InvalidModelError, match="are no JSON"):
            read(changed("inputs", b"", text))
