"""Threads make random calls, from a seed, on objects that they share.

Also one thread alone that goes on after any call of the runtime has failed. Every answer is that of
one consistent state, every exception one that the docstrings name, nothing hangs, and nothing is
left. The seeds are fixed; ``RKNN_TEST_ROUNDS`` sets the number of steps of each thread,
``RKNN_TEST_SEEDS`` that of seeds.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import re
import sys
import threading

import numpy as np
import pytest
from bundles import one_object
from test_dynamic_shapes import ANSWERS, BIG, DATA_BYTES, INFO, SMALL

from rknn_runtime import (
    CoreMask,
    Detector,
    GeneralModel,
    Matmul,
    MatmulType,
    Model,
    Pool,
    TensorMemory,
)
from rknn_runtime.npu import raw
from rknn_runtime.rknnlite import RKNNLite
from rknn_runtime.sim import Live

ROUNDS = int(os.environ.get("RKNN_TEST_ROUNDS", "40"))
SEEDS = range(int(os.environ.get("RKNN_TEST_SEEDS", "3")))
THREADS = 6
SHAPES = (BIG, SMALL)
IMAGES = [np.zeros(shapes[0], np.uint8) for shapes in SHAPES]
REAL = [
    (answer.astype(np.float32) - variant.outputs[0].zero_point)
    * np.float32(variant.outputs[0].scale)
    for answer, variant in zip(ANSWERS, INFO.variants)
]
SCENE = np.zeros((48, 80, 3), np.uint8)
K = N = 64
B = np.random.default_rng(0).integers(-8, 8, (K, N)).astype(np.int8)


def named(text: str) -> set[str]:
    return set(re.findall(r"\b[A-Z]\w*Error\b", text))


def documented(kind: type, name: str) -> set[str]:
    """The exceptions in the docstrings of a method, of methods it refers to, and of its class.

    A method without exceptions has its class's.
    """
    text = getattr(kind, name, kind).__doc__ or ""
    names = named(text)
    for word in re.findall(r"`(?:\w+\.)?(\w+)`", text):
        names |= named(getattr(getattr(kind, word, None), "__doc__", None) or "")
    for each in kind.__mro__[:-1]:
        names |= named(each.__doc__ or "")
    return names


class Shared:
    """The objects, each of which any thread may close; then the next call finds another."""

    def __init__(self, folder) -> None:
        self.path = folder / "model.rknn"
        self.path.write_bytes(DATA_BYTES)
        self.make = {
            "model": lambda: Model(DATA_BYTES, library="sim"),
            "general": lambda: GeneralModel(DATA_BYTES, library="sim"),
            "detector": self._detector,
            "lite": self._lite,
            "matmul": self._matmul,
            "pool": lambda: Pool(one_object(), library="sim", contexts=2),
        }
        self.now = {name: make() for name, make in self.make.items()}
        self.lock = threading.Lock()
        self.old: list = []

    def _detector(self) -> Detector:
        detector = Detector(Model(one_object(), library="sim"))
        detector._opened = detector.model  # closed with it, as by `Detector.open`
        return detector

    def _lite(self) -> RKNNLite:
        lite = RKNNLite(strict=True, library="sim")
        lite.load_rknn(self.path)
        lite.init_runtime()
        lite.close = lite.release
        return lite

    def _matmul(self) -> Matmul:
        matmul = Matmul((4, 8), K, N, MatmulType.INT8_MM_INT8_TO_INT32, library="sim")
        matmul.write_b(B)
        return matmul

    def replace(self, name: str) -> None:
        """Close an object and replace it."""
        made = self.make[name]()
        with self.lock:
            thing, self.now[name] = self.now[name], made
            self.old.append(thing)
        thing.close()

    def close(self) -> None:
        for thing in (*self.old, *self.now.values()):
            thing.close()
        self.old.clear()
        self.now.clear()


def same_real(values, what=""):
    """The values belong to one shape, whole."""
    index = [answer.shape for answer in REAL].index(values.shape)
    np.testing.assert_array_equal(values, REAL[index], err_msg=what)


# The steps of a thread for each: `step(thing, rng)`, with the name of the last method


def call_model(model, rng):
    out = None
    if rng.random() < 0.3:
        out = [np.empty(rng.choice(REAL).shape, np.float32)]
    only = rng.choice([None, None, [0], []])
    found = model(rng.choice(IMAGES), out=None if only == [] else out, only=only)
    for values in found:
        same_real(values)


def read_model(model, rng):
    assert model.output_f32(0).shape in {answer.shape for answer in REAL}


def view_model(model, rng):
    model.input_view(0)[:, :2] = rng.randrange(256)


def raw_model(model, rng):
    assert model.output_raw(0).dtype == np.int8


def bind(side):
    def step(model, rng):
        memory = TensorMemory(model, 1 << 16)
        getattr(model, f"bind_{side}")(0, memory, sync=rng.random() < 0.7)

    return step


def old_memory(model, rng):
    memory = rng.choice([model.input_memory, model.output_memory])(0)
    rng.choice([memory.sync_to_device, memory.sync_from_device, memory.array, memory.close])()


def share(model, rng):
    with model.input_memory().shared_with(model) as memory:
        memory.array()[:1] = 1


def choose(model, rng):
    model.set_input_shapes(rng.choice(SHAPES))


def duplicate(model, rng):
    with model.duplicate(core_mask=rng.choice(list(CoreMask)[:2])) as twin:
        run = twin if isinstance(twin, Model) else twin.run
        same_real(run(IMAGES[0])[0], "of a duplicate")


def ask(model, rng):
    name = rng.choice(
        ["memory_size", "sdk_version", "custom_string", "dynamic_shapes", "inputs", "outputs"]
    )
    assert getattr(model, name) is not None
    assert repr(model)


def time_it(model, rng):
    model.is_timed = rng.random() < 0.5
    times = model.step_times
    assert times is None or times.begin_s <= times.end_s


def call_general(model, rng):
    if rng.random() < 0.5:
        same_real(model.run(rng.choice(IMAGES), only=rng.choice([None, [0]]))[0])
        return
    found = model.run(rng.choice(IMAGES), float_outputs=False)[0]
    index = [answer.shape for answer in ANSWERS].index(found.shape)
    np.testing.assert_array_equal(found, ANSWERS[index])


def raw_run(model, rng):
    raw.run(model)


def raw_general(model, rng):
    raw.inputs_set(model, rng.choice(IMAGES))


def infer(lite, rng):
    (found,) = lite.inference([rng.choice(IMAGES)])
    same_real(found)


def ask_lite(lite, rng):
    assert "API" in lite.get_sdk_version()
    inner = lite.rknn_runtime
    assert inner is None or inner.get_in_out_num() == (1, 1)


def detect(detector, rng):
    (found,) = detector(SCENE).class_id.tolist()
    assert found == 1


def decode(detector, rng):
    # Do not read the memory: another thread's run writes there.
    assert len(detector.decoder([np.zeros_like(detector.model.output_raw(0))])) <= 1


def detect_memory(detector, rng):
    model = detector.model
    memory = TensorMemory(model, model.input_memory().size_bytes)
    assert len(detector(memory)) == 1


def multiply(matmul, rng):
    m = rng.choice([4, 8])
    found = matmul(np.ones((m, K), np.int8))
    np.testing.assert_array_equal(found, np.tile(B.sum(0, np.int32), (m, 1)))


def rows(matmul, rng):
    matmul.set_m(rng.choice([4, 8]))


def ask_matmul(matmul, rng):
    a, b, c = matmul.stored_shapes
    assert a[0] == c[0] and b
    assert repr(matmul)


def write_b(matmul, rng):
    matmul.write_b(B)


def submit(pool, rng):
    job = pool.submit(SCENE)
    if rng.random() < 0.3 and job.cancel():
        return
    assert len(job.result(60)) == 1


def map_some(pool, rng):
    with pool.map([SCENE.copy() for _ in range(3)], ahead=2) as results:
        for _, found in results:
            assert len(found) == 1
            if rng.random() < 0.2:
                return


def pool_stats(pool, rng):
    stats = pool.stats()
    assert all(0 <= context.failed <= context.frames for context in stats.contexts)
    assert str(stats)


#: Object, method whose docstring counts, step, how often.
STEPS = [
    ("model", "__call__", call_model, 8),
    ("model", "output_f32", read_model, 2),
    ("model", "input_view", view_model, 1),
    ("model", "output_raw", raw_model, 1),
    ("model", "bind_input", bind("input"), 2),
    ("model", "bind_output", bind("output"), 2),
    ("model", "input_memory", old_memory, 2),
    ("model", "input_memory", share, 1),
    ("model", "set_input_shapes", choose, 4),
    ("model", "duplicate", duplicate, 1),
    ("model", "__repr__", ask, 2),
    ("model", "set_input_shapes", time_it, 1),
    ("model", "run", raw_run, 1),
    ("general", "run", call_general, 6),
    ("general", "run", raw_run, 1),
    ("general", "run", raw_general, 1),
    ("general", "set_input_shapes", choose, 3),
    ("general", "duplicate", duplicate, 1),
    ("general", "__repr__", ask, 1),
    ("lite", "inference", infer, 4),
    ("lite", "get_sdk_version", ask_lite, 1),
    ("detector", "__call__", detect, 4),
    ("detector", "__call__", decode, 1),
    ("detector", "__call__", detect_memory, 2),
    ("matmul", "__call__", multiply, 4),
    ("matmul", "set_m", rows, 3),
    ("matmul", "__call__", ask_matmul, 1),
    ("matmul", "write_b", write_b, 1),
    ("pool", "submit", submit, 3),
    ("pool", "map", map_some, 2),
    ("pool", "close", pool_stats, 1),
]
#: The errors of a memory in use elsewhere, and of a cancelled future.
BESIDE = {
    old_memory: documented(TensorMemory, "close"),
    share: documented(TensorMemory, "shared_with"),
    detect_memory: documented(Model, "input_memory"),
    decode: documented(Model, "output_raw"),
    submit: {"CancelledError"},
}


#: What fails in between, at the first to third call, in a thread that is alone.
FAILING = [
    "rknn_create_mem", "rknn_create_mem_from_fd", "rknn_dup_context", "rknn_init",
    "rknn_inputs_set", "rknn_matmul_run", "rknn_matmul_set_dynamic_shape",
    "rknn_matmul_set_io_mem", "rknn_mem_sync", "rknn_outputs_get", "rknn_query", "rknn_run",
    "rknn_set_core_mask", "rknn_set_input_shapes", "rknn_set_io_mem",
]  # fmt: skip


def do(shared: Shared, rng: random.Random, also: frozenset[str] = frozenset()) -> None:
    """One step; raises exceptions that are neither documented nor in `also`."""
    name, method, step, _ = rng.choices(STEPS, [row[-1] for row in STEPS])[0]
    thing = shared.now[name]
    allowed = documented(type(thing), method) | BESIDE.get(step, set()) | also
    try:
        if rng.random() < 0.02:
            method = "close"
            allowed = documented(type(thing), "close") | also
            shared.replace(name)
        else:
            step(thing, rng)
    except AssertionError:
        raise
    except Exception as error:
        if not allowed & {each.__name__ for each in type(error).__mro__}:
            raise
        # Refusals because of another thread's view or traceback, or a wrong shape, are no faults.


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_threads_do_at_once(control, tmp_path, seed) -> None:
    """Six of them, on a model, a general one, a detector, a product of matrices and a pool."""
    errors: list[BaseException] = []
    shared, start = Shared(tmp_path), threading.Barrier(THREADS)

    def work(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        start.wait()
        try:
            for _ in range(ROUNDS):
                if errors:
                    return
                do(shared, rng)
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(THREADS)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60 + ROUNDS)
            if thread.is_alive():
                faulthandler.dump_traceback()
                pytest.fail(f"seed {seed}: a thread hangs")
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    gc.collect()
    shared.close()
    assert control.last_violation == ""
    assert control.live == Live(0, 0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_fails_before(control, tmp_path, seed) -> None:
    """A failing call leaves its object as before, or refusing with advice: never wrong."""
    rng, shared = random.Random(f"alone {seed}"), Shared(tmp_path)
    for _ in range(5 * ROUNDS):
        if rng.random() < 0.3:
            function = rng.choice(FAILING)
            # To a query -1 and -5 are answers, of a model that was built for one shape.
            codes = [-42] if function == "rknn_query" else [-1, -5, -42]
            control.fail(function, rng.randint(1, 3), rng.choice(codes))
        do(shared, rng, frozenset({"RknnStatusError"}))
        assert control.last_violation == ""
        control.reset()
    shared.close()
    gc.collect()
    assert control.live == Live(0, 0, 0)
