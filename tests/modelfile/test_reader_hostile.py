"""Damaged and forged model files cost an error, a moment and little memory.

``RKNN_TEST_MUTATIONS=100000`` sets the number of mutations; the default is a sample.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from handmade import Vector, standard_model, tensor
from mutations import mutate
from paths import DATA

from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import read_layers, reader

MODELS = DATA / "models"
MUTATIONS = int(os.environ.get("RKNN_TEST_MUTATIONS", "1000"))
IS_EMULATED = bool(os.environ.get("RKNN_TEST_EMULATED"))
#: An exception, its traceback and the reader itself, for files smaller than these.
FLOOR_BYTES = 32 * 1024

SEEDS = [
    (MODELS / f"{name}.rknn").read_bytes()
    for name in (
        "rank1_in_vec_rv1106", "mi_img_vec_rv1106", "unicode_name_rv1106",
        "rank1_in_vec_rk3588", "dyn_in_rk3588", "fp16_ic1_w37_rk3588",
    )
]  # fmt: skip


IMAGE = tensor("images", (1, 3, 8, 8), (1, 1, 8, 8, 3), pixel=True)
FEATURES = tensor("output0", (1, 20, 8, 8), (1, 2, 8, 8, 16))
SMALL_STANDARD = standard_model([IMAGE], [FEATURES], padding=1024)


@pytest.fixture
def traced() -> Iterator[None]:
    """Count the memory that Python allocates."""
    reader.read(SEEDS[0])
    tracemalloc.start()
    yield
    tracemalloc.stop()


def accepts(model: bytes) -> bool:
    """Read a model; fail when another exception than `InvalidModelError` comes of it."""
    with contextlib.suppress(InvalidModelError):
        reader.ModelFile(model).needs()
    with contextlib.suppress(InvalidModelError):
        read_layers(model)
    try:
        reader.read(model)
    except InvalidModelError:
        return False
    return True


def accepts_quickly(model: bytes) -> bool:
    """Read a model; fail when it takes a second of processor time (not emulated), too."""
    start = time.process_time()
    accepted = accepts(model)
    assert time.process_time() - start < (30 if IS_EMULATED else 1)
    return accepted


def accepts_frugally(model: bytes) -> bool:
    """Read a model; fail when it takes ten times the model's size of memory, too."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    accepted = accepts_quickly(model) if len(model) < 1 << 18 else accepts(model)
    assert tracemalloc.get_traced_memory()[1] - before < max(10 * len(model), FLOOR_BYTES)
    return accepted


@pytest.mark.soak
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("model", [SEEDS[0], SMALL_STANDARD], ids=["mini", "standard"])
def test_truncation_at_every_byte(model: bytes) -> None:
    """No part of a file is read as a whole one."""
    accepted = [length for length in range(len(model) + 1) if accepts_frugally(model[:length])]
    assert accepted == [len(model)]


@pytest.mark.usefixtures("traced")
def test_seeded_mutations() -> None:
    """Some damage goes unnoticed, most is refused; nothing else happens."""
    accepted = 0
    for number in range(MUTATIONS):
        rng = random.Random(number)
        accepted += accepts_frugally(mutate(rng.choice(SEEDS), rng.choice(SEEDS), rng))
    assert 0 < accepted < MUTATIONS


def graph(tensors: list[dict[int, Any]], outputs: list[int], nodes: int) -> dict[int, Any]:
    node = {1: "Conv" * 16}
    return {0: tensors, 1: [node] * nodes, 2: Vector("i", 0), 3: Vector("i", *outputs)}


LONG_NAMES = tensor("o" * 255, (1,) * 16, (1,) * 16, layout=0)
MANY = [IMAGE, LONG_NAMES]

FORGED = {
    "a million nodes that are one": {"slot_2": [graph(MANY, [1], 100_000)]},
    "many nodes that are one": {"slot_2": [graph(MANY, [1], 20_000)], "padding": 1 << 21},
    "a million outputs that are one": {"slot_2": [graph(MANY, [1] * 100_000, 1)]},
    "many outputs that are one": {"slot_2": [graph(MANY, [1] * 3000, 1)], "padding": 1 << 21},
    "many graphs that are one": {"slot_2": [graph(MANY, [1] * 5, 1)] * 500, "padding": 1 << 21},
    "metadata of empty lists": {"slot_3": "{'attrs': [" + "[]," * 100_000 + "]}"},
    "metadata of empty lists in a big file": {
        "slot_3": "{'attrs': [" + "[]," * 50_000 + "]}", "padding": 1 << 20,
    },
    "metadata that is deep": {"slot_3": "[" * 100_000},
    "types of empty dicts": {"slot_12": "[" + "{}," * 100_000 + "]"},
    "types of empty dicts in a big file": {
        "slot_12": "[" + "{}," * 50_000 + "]", "padding": 1 << 21,
    },
    "a long batch": {"slot_14": "9" * 200_000},
    "wide dimensions": {
        "slot_2": [graph([IMAGE, tensor("o", (2**31 - 1,) * 16, (1,), layout=0)], [1], 1)]
    },
}  # fmt: skip


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED.keys())
def test_forged_files_are_cheap(changes: dict[str, Any]) -> None:
    """Few bytes that stand for many objects, for big numbers or for deep nesting."""
    model = standard_model([IMAGE], [FEATURES], **changes)
    accepted = accepts_quickly(model)
    tracemalloc.start()
    try:
        assert accepts_frugally(model) == accepted
    finally:
        tracemalloc.stop()
