"""Damaged models for the emulator, each of them decided by a number alone."""

from __future__ import annotations

import contextlib
import math
import random
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from handmade import u8
from mutations import damage
from operator_models import BASE, operator_models
from paths import DATA, PROJECT
from rewritten import OLD_COMMANDS, Old
from sim_api import QUERIES, Api

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.reader import read
from rknn_runtime.sim.emulator import Emulator, EmulatorError
from rknn_runtime.tools.verify import questions_for

#: Of a command word: target in the high 16 bits, register in the low ones.
TARGETS = {0x0201: 1, 0x0801: 3, 0x1001: 4, 0x2001: 5, 0x4001: 6, 0x8001: 7}
INTERESTING = (0, 1, 0x1FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
#: More is no matter of damage: many inputs in the place of few.
MOST_BYTES = 1 << 26
#: Larger models take a second undamaged, under a sanitizer.
MOST_MULTIPLICATIONS = 1 << 27


class Seed(NamedTuple):
    """A model that runs, and the places that are worth damaging."""

    name: str
    model: bytes
    #: Where the values of commands lie, 4 bytes each.
    values: list[int]
    #: Where words lie that may count something in the file, or point to it.
    tables: list[int]


def command_words(model: bytes) -> list[int]:
    """Where the commands lie that write registers."""
    found = []
    for at in range(0, len(model) - 7, 4):
        number, target = struct.unpack_from("<H4xH", model, at)
        if TARGETS.get(target) == number >> 12:
            found.append(at)
    return found


def make_seed(name: str, model: bytes, values: list[int]) -> Seed:
    words = np.frombuffer(model[: len(model) // 4 * 4], "<u4")
    tables = (4 * np.flatnonzero((words > 0) & (words < len(model)))).tolist()
    return Seed(name, model, values, tables)


def new_seed(name: str, model: bytes) -> Seed:
    return make_seed(name, model, [at + 2 for at in command_words(model)])


def old_seed(name: str, old: Old, version: int = 2) -> Seed:
    """An old container: commands have no target there, and every task has a tensor of them."""
    model, values = old.write(version), []
    for tensor in old.tensors:
        if tensor[2] == u8(OLD_COMMANDS):
            commands = old.blobs[int.from_bytes(tensor[18], "little")]
            start = model.index(commands)
            values += range(start + 4, start + len(commands), 8)
    return make_seed(name, model, values)


def is_small(model: bytes) -> bool:
    """Whether a model runs at all, and many times a second."""
    try:
        emulator = Emulator(model)
    except EmulatorError:
        return False
    return emulator.is_runnable and emulator.multiplications <= MOST_MULTIPLICATIONS


def seeds(folders: Iterable[Path] = ()) -> list[Seed]:
    """Small models of this repository and of further folders, and old containers by hand."""
    own = (DATA, PROJECT / "examples" / "models")
    paths = [path for folder in (*own, *folders) for path in sorted(folder.rglob("*.rknn"))]
    models = [(path.stem, path.read_bytes()) for path in paths]
    found = [new_seed(name, model) for name, model in models if is_small(model)]
    for npu in ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106"):
        asked = questions_for(npu)
        found += [new_seed(f"verify-{npu}-{question.name}", question.model) for question in asked]
    found += [old_seed(f"operators-{name}", old) for name, old in operator_models()]
    old = Old(BASE.read_bytes())
    return found + [old_seed(f"container-{version}", old, version) for version in (1, 2, 4)]


def is_for(soc: str, model: bytes) -> bool:
    """Whether a model is for a SoC; one that was made by hand may say nothing."""
    with suppress(RknnError):
        return read(model).soc == soc
    return False


def change_value(data: bytearray, at: int, rng: random.Random) -> None:
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


def mutant(number: int, seeds: list[Seed]) -> tuple[str, bytes]:
    """Return a seed's name and its model with damage to commands, tables, anything."""
    rng = random.Random(number)
    name, model, values, tables = rng.choice(seeds)
    data = bytearray(model)
    if rng.random() < 0.05:  # moves what lies behind
        damage(data, rng.choice(tables), rng.choice(seeds).model, rng)
        return name, bytes(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.random()
        if kind < 0.6:
            change_value(data, rng.choice(values or tables), rng)
        elif kind < 0.85:
            change_value(data, rng.choice(tables), rng)
        else:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return name, bytes(data)


def set_inputs(emulator: Emulator, rng: random.Random) -> None:
    """Give every input values in one of the forms that it takes."""
    for index, tensor in enumerate(emulator.inputs):
        if tensor.dtype is None:
            raise EmulatorError("an input of no known type")
        stored = math.prod(tensor.shape) * tensor.dtype.itemsize
        if max(stored, tensor.native_bytes) > MOST_BYTES:
            raise EmulatorError("a huge input")
        forms = [
            (lib.RKR_EMU_AS_STORED, stored),
            (lib.RKR_EMU_AS_NATIVE, tensor.native_bytes),
            (lib.RKR_EMU_AS_STORED_ZEROS, stored),
            (lib.RKR_EMU_AS_STORED_MEAN, stored),
            (lib.RKR_EMU_AS_STORED_EDGE, stored),
            (lib.RKR_EMU_AS_PIXELS, stored // tensor.dtype.itemsize),
        ]
        form, size = rng.choice(forms if tensor.is_image else forms[:2])
        values = np.random.default_rng(index).integers(0, 256, size, np.uint8)
        emulator._give(index, form, values)


def ask_nodes(emulator: Emulator) -> None:
    """Ask like a runtime that computes nodes itself."""
    numbers = ffi.new("uint32_t[2]")
    data = ffi.new("char[32]")
    for node in emulator.nodes:
        emulator._function("is_replaceable")(emulator._handle, node.index)
        for name in (b"axis", b"perm", b"mode"):
            emulator._function("get_attribute")(
                emulator._handle, node.index, name, numbers, numbers + 1, data, len(data)
            )


def most_multiplications(emulator: Emulator) -> int:
    """Every weight of the file for every pixel that its memory can hold, in every task."""
    smallest_atom = 8  # bytes of a pixel in a group of channels
    # Nodes that are computed from their tensors have tasks, too, which are counted and not run.
    tasks = len(emulator.nodes) + sum(node.tasks for node in emulator.nodes)
    return tasks * emulator.model_bytes * emulator.internal_bytes // smallest_atom


def use(model: bytes, number: int) -> bool:
    """Open, feed and run a model as far as it lets itself; whether it ran.

    The number decides its inputs, and not as it decides the damage: both would go together.
    """
    try:
        emulator = Emulator(model)
    except EmulatorError:
        return False
    if emulator.internal_bytes > MOST_BYTES:
        return False
    if emulator.is_runnable:
        assert emulator.multiplications <= most_multiplications(emulator)
    ask_nodes(emulator)
    with contextlib.suppress(EmulatorError):
        set_inputs(emulator, random.Random(f"inputs of {number}"))
        for _ in emulator.walk():
            pass
        for output in emulator.outputs:
            if math.prod(output.shape) > MOST_BYTES:
                raise EmulatorError("a huge output")
            values = emulator.read_float(output)
            data = ffi.from_buffer("float[]", values)
            emulator._function("write_float")(emulator._handle, output.index, data, values.nbytes)
        return True
    return False


def use_runtime(model: bytes, library: str = "sim") -> bool:
    """Do the same through the C API, like another program; return whether it was loaded."""
    api = Api(model, library=library)
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
