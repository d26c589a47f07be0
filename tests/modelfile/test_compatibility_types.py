"""The JSON that says the types of inputs and outputs: librknnrt trusts it, and ends the process.

The cases were put to librknnrt 1.5.2, 1.6.0 and 2.3.2, emulated: all three answered alike.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import stub
from paths import DATA

from rknn_runtime import Model
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.reader import read, read_header

MODEL = DATA / "models" / "ic3_w37_rk3588.rknn"
TEXTS = {
    "inputs": b'{"images": {"dtype": "int8", "layout": "NHWC"}}',
    "outputs": b'{"output0": {"dtype": "int8", "layout": "NCHW"}}',
}
#: What replaces what; "" for the whole text. And what the reader says of it.
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
#: What is taken, or of the outputs only.
TAKEN = [(b"", b"", ""), (b"int8", b"inx8", ""), (b'": {', b'" :{', "")]
ONLY_OF_INPUTS = [(b"NHWC", b"NHXC", "an unknown layout"), (b"NCHW", b"NCXW", "")]


def changed(which: str, old: bytes, new: bytes) -> bytes:
    """The model with another text, which is not longer: blanks fill it up."""
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
    """Within the bounds of the reader, which are far below those of the stack."""
    for text in (b"[" * 40, b'{"a":' * 9):
        with pytest.raises(InvalidModelError, match="are no JSON"):
            read(changed("inputs", b"", text))
