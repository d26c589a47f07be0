"""Damaged commands cost an error or a refused node, never the interpreter or a minute.

A sample; ``make fuzz-emulator`` runs 100,000 of the same under AddressSanitizer.
"""

from __future__ import annotations

import os
import random
import struct
import time
from copy import deepcopy
from typing import Any

import handmade
import pytest
from hostile_models import Seed, command_words, mutant, seeds, use, use_runtime
from paths import DATA

from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

IS_EMULATED = bool(os.environ.get("RKNN_TEST_EMULATED"))


@pytest.fixture(scope="module")
def models() -> list[Seed]:
    return seeds()


@pytest.mark.parametrize("start", range(4))
def test_damaged_commands_do_no_harm(models: list[Seed], start: int) -> None:
    """Mutated commands and files: most open, some run, none crashes or takes a second."""
    ran, loaded, longest = 0, 0, 0.0
    for number in range(start, 50 if IS_EMULATED else 500, 4):
        _, model = mutant(number, models)
        started = time.process_time()
        is_run = use(model, number)
        ran += is_run
        loaded += is_run and use_runtime(model)
        longest = max(longest, time.process_time() - started)
    assert ran >= loaded > 0
    # Not speed: a hang. The sanitizer's build is 20 times slower.
    assert longest < 60


def test_whatever_is_damaged_ran_before(models: list[Seed]) -> None:
    """Every model with which damage begins runs, and old ones have the commands where it looks.

    And a number is the same damage again.
    """
    again = seeds()
    assert [mutant(number, models) for number in range(50)] == [
        mutant(number, again) for number in range(50)
    ]
    for name, model, values, tables in models:
        assert use(model, 1), name
        assert tables, name
        assert values or not any(node.tasks for node in Emulator(model).nodes), name
    old = next(seed for seed in models if seed.name == "container-2")
    data, reasons = bytearray(old.model), set()
    for at in old.values:
        data[at : at + 4] = b"\xff" * 4
        reasons |= {node.reason for node in Emulator(bytes(data)).nodes}
        data[at : at + 4] = old.model[at : at + 4]
    assert len(reasons) > 100


def assert_refused(op: str, registers: dict[int, int], reason: str) -> None:
    """Give registers other values; the tasks of every node of the kind are refused for that reason.

    A node that can be computed from its tensors is, then.
    """
    model = bytearray((DATA / "emulator" / "machine_rv1106.rknn").read_bytes())
    assert Emulator(bytes(model)).is_runnable
    for at in command_words(bytes(model)):
        number = struct.unpack_from("<H", model, at)[0]
        if number in registers:
            struct.pack_into("<I", model, at + 2, registers[number])
    nodes = [node for node in Emulator(bytes(model)).nodes if node.op == op]
    assert nodes
    assert all(node.tasks == 0 and reason in node.reason for node in nodes)
    assert {node.verdict for node in nodes} <= {Verdict.REFUSED, Verdict.FLOAT}


#: Few bytes that many steps would read or write: the operator, the registers, and the reason.
ENDLESS = {
    "8192 channels that lie on each other": (
        "MaxPool",
        {0x6014: 0x1FFF, 0x7014: 0x1FFF, 0x607C: 0, 0x7028: 0},
        "outside of memory",
    ),
    "windows that begin outside": ("ConvRelu", {0x1068: 0x0F0F}, "windows outside of the input"),
    "windows that end outside": ("ConvRelu", {0x1020: 1 << 16 | 1}, "windows outside of the input"),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_steps_are_bounded_by_what_the_file_holds(case: str) -> None:
    """Overlapping planes and padding without end are refused before anything runs."""
    assert_refused(*ENDLESS[case])


@pytest.mark.parametrize(
    ("number", "reason"), [(0x1110, "no constants"), (0x5020, "outside of memory")]
)
def test_commands_are_no_values(number: int, reason: str) -> None:
    """Weights and biases do not lie where a mini container has its commands: from 0 on."""
    assert_refused("ConvRelu", {number: 0}, reason)


def test_offsets_of_weights_are_constants() -> None:
    """Values that a run computes cannot make sums larger than those that were checked before."""
    model = (DATA / "emulator" / "machine_rv1106.rknn").read_bytes()
    for address in (Emulator(model).model_bytes, Emulator(model).model_bytes - 32):
        assert_refused("Conv", {0x5020: address}, "offsets of weights at")


@pytest.mark.parametrize(("beyond", "refused"), [(0, 0), (8, 6)])
def test_offsets_of_weights_may_end_with_the_constants(beyond: int, refused: int) -> None:
    """RV1103B: 7 bytes for each of 8 channels that lie together, with nothing behind the last."""
    model = bytearray((DATA / "emulator" / "machine_rv1103b.rknn").read_bytes())
    end, last = Emulator(bytes(model)).model_bytes, {}
    for at in command_words(bytes(model)):
        number, value = struct.unpack_from("<HI", model, at)
        last[number] = value
        if number == 0x5020 and last[0x501C] & 8:  # biases, multipliers and offsets
            channels = (last[0x401C] & 0xFFFF) + 1
            struct.pack_into("<I", model, at + 2, end - (channels + 7) // 8 * 56 + beyond)
    nodes = [node for node in Emulator(bytes(model)).nodes if node.verdict != Verdict.DECODED]
    reasons = [node.reason for node in nodes if node.reason]
    assert len(reasons) == refused
    assert all("that are no constants" in reason for reason in reasons)


def test_tasks_share_no_commands() -> None:
    """A table of tasks that all decode the same long stream is no readable model."""
    model = bytearray((DATA / "emulator" / "machine_rv1106.rknn").read_bytes())
    table_bytes, count, command_bytes = struct.unpack_from("<3I", model, 68)
    for task in range(count):
        at = 128 + task * (table_bytes // count)
        struct.pack_into("<I", model, at + 24, command_bytes // 8)
        struct.pack_into("<Q", model, at + 32, 0)
    with pytest.raises(EmulatorError, match="not a readable model: task"):
        Emulator(bytes(model))


@pytest.mark.parametrize("start", range(4))
def test_files_cut_anywhere_do_no_harm(models: list[Seed], start: int) -> None:
    """A file that ends somewhere is refused or lacks nothing that is needed."""
    for _, model, _, _ in models[start::4]:
        rng = random.Random(len(model))
        for end in rng.sample(range(len(model)), 1 if IS_EMULATED else 10):
            use(model[:end], end)
            use_runtime(model[:end])


def many(*graphs: dict[int, Any]) -> bytes:
    """A model of graphs with an input and an output, to which each adds tensors and slots."""
    image = handmade.tensor("image", (1, 3, 8, 8), (1, 1, 8, 8, 3))
    found = handmade.tensor("found", (1, 4, 8, 8), (1, 1, 8, 8, 16))
    ends = {1: [{1: "Conv"}], 2: handmade.Vector("i", 0), 3: handmade.Vector("i", 1)}
    whole = [deepcopy({**ends, **graph, 0: [image, found, *graph[0]]}) for graph in graphs]
    blobs = [{0: handmade.Vector("B")}]
    return handmade.standard_model([image], [found], slot_2=whole, slot_20=blobs)


def test_names_are_not_compared_pairwise() -> None:
    """Seven thousand million pairs of a tensor and a relocation in 720 KB: minutes, by hand."""
    tensor, relocation = handmade.tensor("a", (1,), (1,)), {0: "b"}
    model = many({0: [tensor] * 65_000, 7: [relocation] * 110_000})
    assert len(model) < 720_000
    assert len(Emulator(model).tensors) == 65_002


def test_lenders_of_weights_are_not_looked_through_without_end() -> None:
    """65,000 tensors without weights and as many lenders are refused, not paired for hours."""
    nameless, lacking = ({2: handmade.u8(4), 5: name, 18: handmade.u32(0)} for name in ("", "a"))
    model = many({0: [nameless] * 65_000}, {0: [lacking] * 65_000})
    with pytest.raises(EmulatorError, match="not a readable model: its weights"):
        Emulator(model, graph=1)
