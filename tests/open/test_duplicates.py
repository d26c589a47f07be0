"""Contexts of one model on the open runtime, on several threads."""

from __future__ import annotations

import pytest
from paths import DATA

THREADS = """\
with Model(sys.argv[1], library="sim") as model:
    given = [inputs(model, seed) for seed in range(6)]
    expected = [answers(model, *one) for one in given]
found = []
with Model(sys.argv[1], library="open") as first:
    def work(model):
        for _ in range(3):
            for one, other in zip(given, expected):
                found.append(same(answers(model, *one), other))
    models = [first, first.duplicate(), first.duplicate()]
    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in models[1:]:
        model.close()
print(json.dumps([len(found), all(found)]))
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_duplicates_run_at_once_and_mix_nothing(run, driver):
    """Three contexts on three threads have separate memory."""
    path = DATA / "models" / "ic3_w37_rk3588.rknn"
    assert run(driver, "rk3588", THREADS, path) == [54, True]
