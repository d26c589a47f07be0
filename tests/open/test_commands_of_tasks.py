"""The commands of tasks as the emulator hands them out for an NPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.npu.library import open_library

PIXELS, STORED, NATIVE = lib.RKR_EMU_AS_PIXELS, lib.RKR_EMU_AS_STORED, lib.RKR_EMU_AS_NATIVE


class Commands:
    """A model in memory of this process, and the words of its tasks."""

    def __init__(self, model, cores=1, core=0, page=0):
        self.data = model if isinstance(model, bytes) else model.read_bytes()
        self.memory = None
        library = open_library("sim")
        self.call = lambda name, *words: ffi.cast(
            f"rkr_emu_{name}_fn *", library.symbol(f"rkr_emu_{name}")
        )(*words)
        self.get = ffi.callback("void *(void *, size_t, size_t)", self.allocate)
        wanted = {"get": self.get, "page": page, "cores": cores, "core": core}
        self.given = ffi.new("rkr_emu_memory *", wanted)
        out, why = ffi.new("rkr_emu **"), ffi.new("char[400]")
        if self.call("open_in", self.data, len(self.data), 0, self.given, out, why, 400) != 0:
            raise ValueError(ffi.string(why).decode())
        self.emulator = ffi.gc(out[0], lambda emulator: self.call("close", emulator))
        info = ffi.new("rkr_emu_info *")
        assert self.call("get_info", self.emulator, info) == 0
        self.tasks = info.tasks
        self.constants = info.model_bytes

    def allocate(self, _, constants, size):
        self.memory = ffi.new("uint8_t[]", size)
        return self.memory

    def give(self, form):
        tensors = ffi.new("uint32_t[8]")
        tensor = ffi.new("rkr_emu_tensor *")
        self.call("get_inputs", self.emulator, tensors)
        self.call("get_tensor", self.emulator, tensors[0], tensor)
        size = {
            PIXELS: tensor.n_elems,
            STORED: tensor.n_elems * tensor.elem_bytes,
            NATIVE: tensor.native_bytes,
        }
        values = bytes(size[form])
        assert self.call("set_input", self.emulator, 0, form, values, len(values)) == 0

    def task(self, number):
        found = ffi.new("rkr_emu_task *")
        assert self.call("get_task", self.emulator, number, found) == 0
        return found

    def refusal(self, task):
        """Why a task is not understood; empty if it is."""
        found, node = self.task(task), ffi.new("rkr_emu_node *")
        assert self.call("get_node", self.emulator, found.node, node) == 0
        return "" if found.is_understood else ffi.string(node.reason).decode()

    def words(self, task, base=0, *, whole=0):
        count = ffi.new("size_t *", 1 << 14)
        words = ffi.new("uint64_t[]", count[0])
        bases = [base, base]
        assert self.call("get_commands", self.emulator, task, whole, bases, words, count) == 0
        return np.frombuffer(ffi.buffer(words, 8 * count[0]), np.uint64).copy()


def changes(path, form):
    """Return how a binding changes the file's words: (register, from, to)."""
    before, after = Commands(path), Commands(path)
    after.give(form)
    found = set()
    for task in range(before.tasks):
        for was, now in zip(before.words(task).tolist(), after.words(task).tolist()):
            if was != now:
                found.add((was & 0xFFFF, was >> 16 & 0xFFFFFFFF, now >> 16 & 0xFFFFFFFF))
    return found


ROWS = {(0x1020, 0x250015, 0x300015), (0x107C, 0x25, 0x30), (0x1080, 0x2E4, 0x3C0)}
CONVERTS = {(0x104C, 0xB, 0xE38E0)} | {
    (number, 0x10000, 0x4041FF80) for number in (0x1050, 0x1054, 0x1058)
}
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"


@pytest.mark.parametrize(
    ("name", "form", "expected"),
    [
        ("ic3_w37", PIXELS, ROWS | CONVERTS | {(0x1180, 0, 0xFFF)}),
        ("ic3_w37", STORED, ROWS | {(0x104C, 0xB, 9), (0x1180, 0, 0xFFF)}),
        (
            "fp16_ic1_w37",
            STORED,
            {
                (0x1020, 0x250015, 0x280015),
                (0x104C, 0xB, 1),
                (0x107C, 0x25, 0x28),
                (0x1080, 0x2E4, 0x320),
                (0x1180, 0, 0xFFFF),
            },
        ),
    ],
)
def test_a_binding_changes_the_words_that_librknnrt_changes(name, form, expected):
    """As a librknnrt 1.5.2 under emulation was seen to write them when it submits."""
    assert changes(DATA / "models" / f"{name}_rk3588.rknn", form) == expected


def test_addresses_alone_depend_on_where_the_memory_is():
    """The base is added to the words that the file relocates."""
    model = Commands(SHAPES)
    differences = [
        model.words(task, 0x10000).astype(np.int64) - model.words(task).astype(np.int64)
        for task in range(model.tasks)
    ]
    assert {int(d) >> 16 for each in differences for d in each if d} == {0x10000}
    assert sum(np.count_nonzero(each) for each in differences) > model.tasks


def test_constants_have_a_base_of_their_own():
    """Up to a whole number of pages, and room for reads past them."""
    model = Commands(SHAPES, page=4096)
    assert model.constants % 4096 == 0
    assert model.constants >= Commands(SHAPES).constants + 512
    count, bases = ffi.new("size_t *", 1 << 14), [0x10000000, 0x40000000]
    words, seen = ffi.new("uint64_t[]", count[0]), set()
    for task in range(model.tasks):
        count[0] = len(words)
        assert model.call("get_commands", model.emulator, task, 0, bases, words, count) == 0
        for word, was in zip(ffi.unpack(words, count[0]), model.words(task).tolist()):
            if word != was:
                is_constant = (was >> 16 & 0xFFFFFFFF) < model.constants
                seen.add((is_constant, (word - was) >> 16))
    assert seen == {(True, bases[0]), (False, bases[1])}


def test_a_task_whose_addresses_are_not_those_that_the_file_relocates_is_not_understood():
    """A sum in another register was never checked; an address without it lies elsewhere."""
    good = SHAPES.read_bytes()
    results = re.compile(rb"\x20\x40(?=....\x01\x10)", re.DOTALL)  # 4020, of the DPU
    moved = Commands(results.sub(b"\xfc\x40", good, count=3))
    tasks = range(moved.tasks)
    assert not any(map(Commands(good).refusal, tasks))
    assert any("register 40fc, which is relocated" in moved.refusal(task) for task in tasks)


def test_constants_of_rk3576_that_are_not_relocated_are_not_understood():
    """Register 5028 says that 5030 has the address of some, which here is 0."""
    good = (DATA / "emulator" / "single_rk3576.rknn").read_bytes()
    parts = re.compile(rb"(\x28\x50)\x00(?=...\x01\x20)", re.DOTALL)
    changed = Commands(parts.sub(lambda found: found[1] + b"\x10", good, count=1))
    assert any("not relocated" in changed.refusal(task) for task in range(changed.tasks))


@pytest.mark.parametrize(
    ("path", "has_settings"),
    [
        (SHAPES, False),
        (SHAPES.with_name("shapes_rv1106.rknn"), True),
        (DATA / "emulator" / "machine_rk3566.rknn", True),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_a_task_in_full_writes_every_register_that_the_file_wrote_before_it(path, has_settings):
    """It begins with a separate group of registers, and ends with the settings of DMA."""
    model = Commands(path)
    settings = {}
    for task in range(model.tasks):
        part, full = model.words(task), set(map(int, model.words(task, whole=1)))
        registers = {int(word) & 0xFFFF for word in part if word >> 48 > 0x100} - {0}
        controls = {0x1004, 0x3004, 0x6004, 0x7004, 0x4004, 0x5004}
        settings.update({word & 0xFFFF: word for word in map(int, part) if word >> 48 == 0x401})
        assert registers - controls <= {word & 0xFFFF for word in full}
        assert full.issuperset(settings.values())
    assert bool(settings) == has_settings
