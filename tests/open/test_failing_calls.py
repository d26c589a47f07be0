"""Calls of the driver that fail, one after the other, and what is left behind."""

from __future__ import annotations

import ctypes

import pytest
from paths import DATA, PROJECT

DRIVERS = [("rknpu", "rk3588"), ("rocket", "rk3588"), ("rknpu-heap", "rv1106")]

BEGIN = """\
import ctypes, gc, os, tempfile
from pathlib import Path
from rknn_runtime import GeneralModel
from rknn_runtime.errors import RknnError
from vendor_bindings import in_child
path = sys.argv[1]
with Model(path, library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)

def use():
    with Model(path, library="open") as model:
        return [same(answers(model, *given), expected) for _ in range(2)]

def held():
    maps = open("/proc/self/maps").read().count("memfd:")
    if os.environ["RKNN_BOARD_NPU"] == "rknpu-heap":  # what was not given back is mapped there
        maps = 0
    return maps, len(os.listdir("/proc/self/fd")), threading.active_count()
"""

MATRIX = """\
def child(number, is_asked):
    before = None
    with tempfile.TemporaryDirectory() as folder:
        if is_asked:
            os.environ["XDG_CACHE_HOME"] = folder
            with Model(path, library="open"): pass
            for file in Path(folder).rglob("*.txt"): file.unlink()
        assert use() == [True] * 2
        before = held()
        if is_asked:
            for file in Path(folder).rglob("*.txt"): file.unlink()
        os.environ["RKNN_BOARD_FAIL"] = str(number)
        try:
            first = use()
        except RknnError:
            first = []
        del os.environ["RKNN_BOARD_FAIL"]
        return first, use(), held() == before

found = [[in_child(lambda: child(n, a)) for n in range(1, 50 if a else 40)] for a in (False, True)]
print(json.dumps(found))
"""


@pytest.mark.parametrize(("driver", "soc"), DRIVERS)
def test_each_call_of_the_driver_may_fail(run, driver, soc):
    """Then loading or a run fails, or the CPU helps out; nothing wrong is answered or kept."""
    path = DATA / "models" / f"ic3_w37_{soc}.rknn"
    tools = str(PROJECT / "tools" / "wheels")
    found = run(driver, soc, BEGIN + MATRIX, path, PYTHONPATH=f"{PROJECT}:{tools}")
    for each in found:
        firsts = [first for first, *_ in each]
        assert firsts.count([]) > 10 and firsts[-5:] == [[True] * 2] * 5  # beyond the last call
        assert not [first for first in firsts if first not in ([], [True] * 2)]
        assert [rest for _, *rest in each if rest != [[True] * 2, True]] == []


LEAKS = """\
class Heap(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap

def cycle():
    assert use() == [True] * 2
    if sys.argv[2] == "full":
        with GeneralModel(path, library="open") as model:
            model.run(given[0])
        with Model(path, library="open") as model, model.duplicate() as other:
            answers(model, *given)
            answers(other, *given)

def used():
    gc.collect()
    heap = libc.mallinfo2()
    return heap.uordblks + heap.hblkhd

for _ in range(150):  # caches of Python fill
    cycle()
before, bytes_before = held(), used()
for _ in range(100):
    cycle()
print(json.dumps([held() == before, used() - bytes_before]))
"""


@pytest.mark.parametrize(("driver", "soc"), DRIVERS)
@pytest.mark.slow  # 750 loads for each
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
def test_a_hundred_models_leave_nothing(run, driver, soc):
    """Of memory less than 100 bytes each, which one block of any model would be."""
    path = DATA / "models" / f"ic3_w37_{soc}.rknn"
    tools = str(PROJECT / "tools" / "wheels")
    words = path, "full" if soc == "rk3588" else "mini"
    is_same, grown = run(driver, soc, BEGIN + LEAKS, *words, PYTHONPATH=f"{PROJECT}:{tools}")
    assert is_same and grown < 10_000, grown
