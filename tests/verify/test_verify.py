"""``rknn-runtime verify`` says which of the possible rules an NPU follows."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reference import alternatives

from rknn_runtime.cli import main, verify
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.soc import find_soc
from rknn_runtime.sim.emulator import Emulator
from rknn_runtime.tools.verify import (
    ARCHIVE,
    ask,
    fingerprint,
    page,
    questions_for,
    run_model,
)

QUESTIONS = {soc: questions_for(soc) for soc in verify.ASKED}
EVERY = [(soc, question) for soc, found in QUESTIONS.items() for question in found]
NAMES = [f"{soc}-{question.name}" for soc, question in EVERY]


def known_model(soc: str, question) -> bytes:
    """The question's model for a SoC of the machine in NumPy, with the same numbers in it."""
    if soc in ("rk3588", "rv1106"):
        return question.model
    return next(q.model for q in QUESTIONS["rk3588"] if q.name == question.name)


# ---- the questions


@pytest.mark.parametrize(("soc", "question"), EVERY, ids=NAMES)
def test_answers_are_those_of_machines_with_another_rule(soc: str, question) -> None:
    """Computed again from the model of a SoC that the machine in NumPy knows; all differ."""
    asks, _, answers = alternatives.QUESTIONS[question.name]
    computed = answers(known_model(soc, question), question.image())
    digits = {name: fingerprint(outputs) for name, outputs in computed.items()}
    assert question.asks == asks
    assert set(digits.values()) <= set(question.answers.values())
    for name, known in question.answers.items():
        if name in digits or " or " in name:
            assert {digits[part] for part in name.split(" or ")} == {known}
        else:  # what no machine in NumPy computes: the emulator itself
            assert (question.name, name) == ("table_fp16", question.assumed)
    assert len(set(question.answers.values())) == len(question.answers) >= 2


@pytest.mark.parametrize(("soc", "question"), EVERY, ids=NAMES)
def test_the_emulator_gives_what_is_said_to_be_assumed(soc: str, question) -> None:
    """Through the runtime's API, as on a board."""
    outputs = run_model(question.model, question.image(), "sim")
    assert question.answer(outputs) == question.assumed


# ---- what is found


def planted(question, name: str, soc: str = "rv1106"):
    """A stand-in for an NPU that follows another rule."""
    model = known_model(soc, question)
    answers = alternatives.QUESTIONS[question.name][2](model, question.image())
    return answers[name.split(" or ")[0]]


@pytest.mark.parametrize(("soc", "question"), EVERY, ids=NAMES)
def test_another_rule_is_found(soc: str, question) -> None:
    """For an NPU that follows another rule, the report names that rule and the assumed one."""
    for name in question.answers:
        if name == question.assumed:
            continue
        outputs = planted(question, name, soc)
        (finding,) = ask([question], lambda model, image, outputs=outputs: outputs)
        assert finding.answer == name
        assert not finding.is_assumed
        assert finding.row() == (question.asks, name, f"assumed: {question.assumed}")
        assert "0 of 1 as the emulator assumes" in page("", [finding])


def test_an_unknown_rule_is_handed_on_in_full() -> None:
    """If no answer fits, the text holds the outputs."""
    question = QUESTIONS["rv1106"][0]
    outputs = [np.arange(-64, 64).astype(np.int8).reshape(1, 2, 8, 8)]
    (finding,) = ask([question], lambda model, image: outputs)
    assert not finding.answer
    assert finding.row()[1] == "none of 4 that are known"
    lines = page("title", [finding])
    at = lines.index(f"rounding {fingerprint(outputs)}:")
    data = zlib.decompress(base64.b64decode("".join(lines[at + 1 :])))
    np.testing.assert_array_equal(np.frombuffer(data, np.int8), outputs[0].ravel())
    assert max(map(len, lines[at:])) <= 100


def test_a_model_that_does_not_run_is_a_finding() -> None:
    """The others are still asked."""
    first, second, *_ = QUESTIONS["rk3588"]

    def run(model: bytes, image: np.ndarray) -> list[np.ndarray]:
        if model is first.model:
            raise RknnError("the driver is too old\nsecond line")
        return run_model(model, image, "sim")

    failed, ran = ask([first, second], run)
    assert failed.row()[1:] == ("did not run: the driver is too old", "not known: ties to even?")
    assert ran.is_assumed
    assert page("", [failed, ran])[-1] == "1 of 2 as the emulator assumes"


# ---- the command


def test_the_command_says_what_the_emulator_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    """All questions, on one screen."""
    assert main(["verify", "--sim"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert sum("as assumed" in line for line in lines) == 13
    assert "13 of 13 as the emulator assumes" in lines
    assert lines[-1].endswith("not yet compared with a board")


@pytest.mark.parametrize("soc", verify.ASKED[1:])
def test_another_soc_is_asked(soc: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--sim", "--soc", soc]) == 0
    out = capsys.readouterr().out
    assert out.startswith(soc)
    assert "10 of 10 as the emulator assumes" in out


def test_answers_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """An object, all values of a finding."""
    assert main(["verify", "--sim", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["soc"] == "rk3588"
    assert "sim" in entry["about"]
    for finding, question in zip(entry["findings"], QUESTIONS["rk3588"]):
        assert finding == {
            "name": question.name,
            "asks": question.asks,
            "assumed": question.assumed,
            "answer": question.assumed,
            "fingerprint": question.answers[question.assumed],
            "failure": None,
        }
    (failed,) = ask(QUESTIONS["rk3588"][:1], failing)
    assert failed.as_json()["failure"] == "no device"
    assert failed.as_json()["answer"] is failed.as_json()["fingerprint"] is None


def failing(model: bytes, image: np.ndarray) -> list[np.ndarray]:
    raise OSError("no device")


def test_a_board_is_asked_its_own_questions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RV1103 has RV1106's NPU; a difference is status 1, and a text to paste."""
    monkeypatch.setattr(verify, "soc_of_this_machine", lambda: find_soc("rv1103"))
    board = SimpleNamespace(is_simulated=False, is_open=False, has_npu=True)
    monkeypatch.setattr("rknn_runtime.npu.library.open_library", lambda name: board)
    monkeypatch.setattr("rknn_runtime.tools.verify.about", lambda soc, library, question: soc)
    rounding = QUESTIONS["rv1106"][0]

    def run(model: bytes, image: np.ndarray, library: object) -> list[np.ndarray]:
        assert library is board
        return planted(rounding, "cut off") if model == rounding.model else []

    monkeypatch.setattr("rknn_runtime.tools.verify.run_model", run)
    assert main(["verify"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("rv1106\n")
    assert "cut off" in out
    assert "none of" in out
    assert "paste all of this into an issue" in out


@pytest.mark.parametrize(
    ("soc", "message"),
    [(None, "--sim"), ("rv1103b", "rk3562, rk3576, and none for rv1103b yet")],
)
def test_boards_without_questions_are_told(
    soc: str | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A PC, and SoCs that nobody made questions for."""
    monkeypatch.setattr(verify, "soc_of_this_machine", lambda: find_soc(soc) if soc else None)
    board = SimpleNamespace(is_simulated=False, is_open=False, has_npu=True)
    monkeypatch.setattr("rknn_runtime.npu.library.open_library", lambda name: board)
    assert main(["verify"]) == 1
    assert message in capsys.readouterr().err


# ---- what making them found


def test_parities_of_offsets_are_known_and_held_to() -> None:
    """RV1106: bits 28 to 31 of 104c say which offsets of pixels are odd. Others are refused."""
    model = next(q.model for q in QUESTIONS["rv1106"] if q.name == "pixels")
    word = struct.pack("<HIH", 0x104C, 0x600F3CF0, 0x0201)
    assert model.count(word) == 1
    assert Emulator(model).is_runnable
    for wrong in (0x000F3CF0, 0x200F3CF0, 0xE00F3CF0):
        emulator = Emulator(model.replace(word, struct.pack("<HIH", 0x104C, wrong, 0x0201)))
        reasons = [node.reason for node in emulator.nodes if node.reason]
        assert reasons
        assert f"104c = 0x{wrong:08x}" in reasons[0]


def test_questions_are_read_from_another_archive(tmp_path: Path) -> None:
    """Given as a path; a file that is none is an error of the archive."""
    copy = tmp_path / "mine.tar.xz"
    copy.write_bytes(ARCHIVE.read_bytes())
    assert questions_for("rk3588", copy) == QUESTIONS["rk3588"]
    with pytest.raises(FileNotFoundError):
        questions_for("rk3588", tmp_path / "none.tar.xz")
    copy.write_bytes(b"no archive")
    with pytest.raises(RknnError, match="not an archive of questions"):
        questions_for("rk3588", copy)
