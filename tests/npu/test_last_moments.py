"""The end of a process, and a fork, with every flow open."""

from __future__ import annotations

import os

from paths import PROJECT
from processes import python

HEAD = """
import gc, os, signal, sys, threading
from flows import FLOWS, opened
from rknn_runtime.errors import ForkError
from rknn_runtime.sim import Control, Live
made = {name: opened(name) for name in FLOWS}
expected = {name: each.run() for name, each in made.items()}
"""


def script(body: str) -> tuple[int, str, str]:
    """Run Python in a new process, which opens every flow first."""
    ignored = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": str(PROJECT / "tests")}
    done = python(HEAD + body, cwd=PROJECT / "tests", env={**os.environ, **ignored})
    return done.returncode, done.stdout, done.stderr


def test_the_process_ends_with_all_flows_open():
    """No crash, no message, status 0; also while threads are in a run, and in cycles."""
    assert script("print('open')") == (0, "open\n", "")
    ending = """
for each in made.values():
    each.itself = each
Control().set_latency(50_000)
for name, each in made.items():
    if name != "Pool":
        threading.Thread(target=each.run, daemon=True).start()
print("open")
"""
    assert script(ending) == (0, "open\n", "")


def test_what_is_used_after_the_end_waits_for_no_thread():
    """By a ``__del__``, when modules go: threads in a run, and a pool's, stand still by then."""
    imports = "from flows import SCENE\nfrom rknn_runtime.errors import ClosedError\n"
    ending = """
class Late:
    def __init__(self, each):
        self.uses = each.run, each.close

    def __del__(self):
        for use in self.uses:
            try:
                use()
            except RuntimeError as error:
                assert "the interpreter has ended" in str(error), error
            except ClosedError:  # at the interpreter's end
                pass

Control().set_latency(50_000)
for name, each in made.items():
    if name != "Pool":
        threading.Thread(target=each.run, daemon=True).start()
    else:
        each.things[0].submit(SCENE)
late = [Late(each) for each in made.values()]
del each
print("open")
"""
    assert script(imports + ending) == (0, "open\n", "")


def test_no_runtime_calls_python_after_its_end():
    """A run that began before may: the C library's last handlers come when Python is gone."""
    calls = """
import ctypes
from rknn_runtime._ffi import ffi, lib
register = getattr(ctypes.CDLL(None), "__cxa_atexit")
for function in (lib.rkr_custom_op_init, lib.rkr_custom_op_compute):
    address = ctypes.c_void_p(int(ffi.cast("intptr_t", function)))
    assert register(address, None, None) == 0
print("open")
"""
    assert script(calls) == (0, "open\n", "")


def test_a_forked_child_is_refused_by_every_flow():
    """Each raises `ForkError` and closes without a call; new ones work, and the parent goes on."""
    ending = """
control = Control()
control.reset()
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    told = []
    for name, each in made.items():
        try:
            each.run()
            told.append(name)
        except ForkError:
            each.close()
            each.close()
    made.clear()
    gc.collect()
    untouched = control.calls("rknn_destroy") == control.calls("rknn_destroy_mem") == 0
    for name in FLOWS:
        own = opened(name)
        own.run()
        own.close()
    os._exit(0 if (told, untouched) == ([], True) else 1)
assert os.waitpid(pid, 0)[1] == 0
for name, each in made.items():
    each.run()
    each.close()
del each
made.clear()
gc.collect()
assert control.live == Live(0, 0, 0), control.live
print("fine")
"""
    assert script(ending) == (0, "fine\n", "")


def test_a_further_interpreter_in_the_process_does_no_harm():
    """It gets the same results, or NumPy's refusal to be loaded twice; this one goes on."""
    ending = """
try:
    import _interpreters as interpreters
    further, execute = interpreters.create("legacy"), interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    further, execute = interpreters.create(isolated=False), interpreters.run_string
reader, writer = os.pipe()
name = next(iter(FLOWS))
inner = f'''
import os
try:
    import numpy
except ImportError:
    os.write({writer}, b"refused")
else:
    from flows import opened
    flow = opened({name!r})
    os.write({writer}, repr(flow.run()).encode())
    flow.close()
'''
execute(further, inner)
interpreters.destroy(further)
assert os.read(reader, 1 << 16).decode() in ("refused", repr(expected[name]))
assert repr(made[name].run()) == repr(expected[name])
print("fine")
"""
    assert script(ending) == (0, "fine\n", "")
