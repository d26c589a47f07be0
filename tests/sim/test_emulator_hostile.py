"""Damaged commands cost an error or a refused node, never the interpreter or a minute.

``RKNN_TEST_MUTATIONS=100000`` sets the number of mutations; the default is a sample. Run
under AddressSanitizer by ``tools/sanitize.py``.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from sim_api import QUERIES, Api

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

DATA = DATA
MUTATIONS = int(os.environ.get("RKNN_TEST_MUTATIONS", "1000")) // 2
IS_EMULATED = bool(os.environ.get("RKNN_TEST_EMULATED"))
MODELS = [
    *sorted((DATA / "emulator").glob("*.rknn")),
    *(DATA / "models" / f"{name}.rknn" for name in ("ic5_rv1106", "mi_img_vec_rk3588")),
    *(DATA / "models" / f"{name}.rknn" for name in ("fc1000_softmax_rv1106", "dyn_in_rk3588")),
]
#: Of a command word: target in the high 16 bits, register in the low ones.
TARGETS = {0x0201: 1, 0x0801: 3, 0x1001: 4, 0x2001: 5, 0x4001: 6, 0x8001: 7}
#: Bytes of a pixel in a group of channels.
SMALLEST_ATOM = 8
INTERESTING = (0, 1, 0x1FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def command_words(model: bytes) -> list[int]:
    """Where the commands lie that write registers."""
    found = []
    for at in range(0, len(model) - 7, 4):
        number, target = struct.unpack_from("<H4xH", model, at)
        if TARGETS.get(target) == number >> 12:
            found.append(at)
    return found


def damage(data: bytearray, words: list[int], rng: random.Random) -> None:
    """Change the value of a command, mostly; else any byte of the file."""
    if rng.random() < 0.2:
        data[rng.randrange(len(data))] = rng.randrange(256)
        return
    at = rng.choice(words) + 2
    value = struct.unpack_from("<I", data, at)[0]
    value = rng.choice(
        (
            value ^ 1 << rng.randrange(32),
            rng.getrandbits(32),
            (value + rng.randrange(-64, 64)) & 0xFFFFFFFF,
            rng.choice(INTERESTING),
        )
    )
    struct.pack_into("<I", data, at, value)


def most_multiplications(emulator: Emulator) -> int:
    """Every weight of the file for every pixel that its memory can hold, in every task."""
    tasks = sum(node.tasks for node in emulator.nodes)
    return tasks * emulator.model_bytes * emulator.internal_bytes // SMALLEST_ATOM


def use(model: bytes) -> bool:
    """Open, feed and run a model as far as it lets itself; whether it ran."""
    try:
        emulator = Emulator(model)
    except EmulatorError:
        return False
    if emulator.internal_bytes > 1 << 26:
        return False
    assert emulator.multiplications <= most_multiplications(emulator)
    with contextlib.suppress(EmulatorError):
        for index, tensor in enumerate(emulator.inputs):
            if tensor.dtype is None:
                return False
            emulator.set_input(index, np.ones(tensor.shape, tensor.dtype))
        emulator.run()
        for output in emulator.outputs:
            emulator.read_float(output)
        return True
    return False


def use_runtime(model: bytes) -> bool:
    """The same through the C API, as a program of its own does it; whether it was loaded."""
    api = Api(model)
    if api.status != 0:
        return False
    with api:
        count = ffi.new("rknn_input_output_num *")
        assert api.query(lib.RKNN_QUERY_IN_OUT_NUM, count) == 0
        memories = []
        for side, number in (("in", count.n_input), ("out", count.n_output)):
            for index in range(number):
                attrs = {
                    view: api.attr(side, view, index)[1] for asked, view in QUERIES if asked == side
                }
                size = max(attr.size_with_stride for attr in attrs.values())
                memories.append(api.create_mem(min(max(size, 1), 1 << 24)))
                api.set_io_mem(memories[-1], attrs["native"])
        api.run()
        for memory in memories:
            assert api.destroy_mem(memory) == 0
    return True


@pytest.mark.parametrize("seed", range(4))
def test_damaged_commands_do_no_harm(seed: int) -> None:
    """Mutated commands and files: most open, some run, none crashes or takes a second."""
    rng, ran, loaded, longest = random.Random(seed), 0, 0, 0.0
    sources = [(model, command_words(model)) for model in (path.read_bytes() for path in MODELS)]
    for _ in range(MUTATIONS // 4 // (10 if IS_EMULATED else 1)):
        model, words = rng.choice(sources)
        data = bytearray(model)
        for _ in range(rng.choice((1, 1, 2, 4))):
            damage(data, words, rng)
        started = time.process_time()
        is_run = use(bytes(data))
        ran += is_run
        loaded += is_run and use_runtime(bytes(data))
        longest = max(longest, time.process_time() - started)
    assert ran >= loaded > 0
    # Not speed: a hang. The sanitizer's build is 20 times slower.
    assert longest < 60


def assert_refused(op: str, registers: dict[int, int], reason: str) -> None:
    """Give registers other values; every node of the kind is refused for that reason."""
    model = bytearray((DATA / "emulator" / "machine_rv1106.rknn").read_bytes())
    assert Emulator(bytes(model)).is_runnable
    for at in command_words(bytes(model)):
        number = struct.unpack_from("<H", model, at)[0]
        if number in registers:
            struct.pack_into("<I", model, at + 2, registers[number])
    nodes = [node for node in Emulator(bytes(model)).nodes if node.op == op]
    assert nodes
    assert all(node.verdict == Verdict.REFUSED and reason in node.reason for node in nodes)


#: Few bytes that many steps would read or write: which registers, and what the node is told.
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
    reasons = [node.reason for node in Emulator(bytes(model)).nodes if node.reason]
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


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_files_cut_anywhere_do_no_harm(path: Path) -> None:
    """A file that ends somewhere is refused or lacks nothing that is needed."""
    model = path.read_bytes()
    for end in random.Random(len(model)).sample(range(len(model)), 50):
        use(model[:end])
        use_runtime(model[:end])
