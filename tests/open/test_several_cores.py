"""Runs that several cores share, cores with separate tasks, and shared weights."""

from __future__ import annotations

from collections import Counter

import pytest
from paths import DATA
from test_commands_of_tasks import SHAPES, Commands

MODELS = DATA / "models"
TWO_CORES = DATA / "emulator" / "machine_rk3576.rknn"

CORES = """\
from rknn_runtime import CoreMask
found = []
for path in sys.argv[2:]:
    try:
        with Model(path, library="sim") as model:
            given = inputs(model)
            expected = answers(model, *given)
    except Exception:
        continue  # not simulated either
    for mask in json.loads(sys.argv[1]):
        with Model(path, library="open", core_mask=CoreMask(mask)) as model:
            print("mask", file=sys.stderr)
            for _ in range(2):
                found.append(same(answers(model, *given), expected))
print(json.dumps(found))
"""


def masks(said):
    """Return the masks of the jobs behind each line "mask"."""
    return [
        {line.split()[-1] for line in part.splitlines() if line.startswith("rknn_board: cores ")}
        for part in said.split("mask\n")[1:]
    ]


def test_cores_that_share_a_run_give_the_bits_of_one(run):
    """Two and three, of all models of the tests."""
    found = run("rknpu", "rk3588", CORES, "[3, 7]", *sorted(MODELS.glob("*_rk3588.rknn")))
    assert len(found) > 20
    assert all(found)


@pytest.mark.parametrize(
    ("soc", "path", "asked", "expected"),
    [
        # The driver chooses; one; each node of two or of three; a vector has no tasks for them.
        ("rk3588", MODELS / "ic3_w37_rk3588.rknn", [0, 4, 3, 7], [{"0"}, {"4"}, {"3"}, {"7"}]),
        ("rk3588", MODELS / "rank1_in_vec_rk3588.rknn", [7], [{"1"}]),
        # RK3576 takes turns, as each core has separate tasks; a MaxPool is for the first alone.
        ("rk3576", TWO_CORES, [0, 0, 1, 2, 3], [{"1"}, {"2"}, {"1"}, {"2"}, {"1", "3"}]),
    ],
)
def test_jobs_name_the_cores_whose_tasks_they_have(start, soc, path, asked, expected):
    """The stand-in refuses tasks on a core that lacks its own buffer."""
    words = CORES, str(asked), path
    variables = {"RKNN_BOARD_LOG": "1", "RKNN_OPEN_ASK": "never"}
    said = start("rknpu", soc, *words, **variables).communicate(timeout=300)
    assert said[0].count("true") == 2 * len(asked), said
    assert masks(said[1]) == expected


BATCH = """\
from rknn_runtime import CoreMask
with Model(sys.argv[1], library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)
found = []
for mask in (0, 1, 7):
    with Model(sys.argv[1], library="open", core_mask=CoreMask(mask)) as model:
        print("mask", file=sys.stderr)
        for cores in (1, 2, 3):
            model.set_batch_core_num(cores)
            found += [same(answers(model, *given), expected) for _ in range(5)]
print(json.dumps(found))
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_cores_run_the_images_of_a_batch(start, driver):
    """Each image is a job of one core, as on librknnrt 1.5.2, however many run them."""
    path = MODELS / "batch2_build_rk3588.rknn"
    variables = {"RKNN_BOARD_LOG": "1", "RKNN_OPEN_ASK": "never"}
    out, said = start(driver, "rk3588", BATCH, path, **variables).communicate(timeout=300)
    assert out.count("true") == 45, (out, said[-2000:])
    assert masks(said) == ([{"0"}, {"1"}, {"0"}] if driver == "rknpu" else [set()] * 3)


@pytest.mark.parametrize("counts", [[4, 3], [4, 3, 3]])
def test_a_file_says_whose_tasks_they_are(counts):
    """By node, then by core."""
    commands = Commands(MODELS / "ic3_w37_rk3588.rknn", len(counts))
    tasks = [commands.task(i) for i in range(commands.tasks)]
    assert [sum(task.core == core for task in tasks) for core in range(len(counts))] == counts
    assert [(t.node, t.core) for t in tasks] == sorted((t.node, t.core) for t in tasks)


def test_a_core_of_rk3576_has_a_half_of_the_buffer():
    """Register 103c has the begin of its data."""
    first, second = Commands(TWO_CORES), Commands(TWO_CORES, core=1)
    begins = [
        {int(word) >> 16 & 0xFFFF for i in range(commands.tasks)
         for word in commands.words(i).tolist() if word & 0xFFFF == 0x103C}
        for commands in (first, second)
    ]  # fmt: skip
    assert begins[0] == {0}
    assert 0 not in begins[1]


def test_steps_that_the_toolkit_leaves_out_for_several_cores_are_seen():
    """A Where takes three tasks, of which two and three cores have the last one alone."""
    path = DATA / "layers" / "choice_rk3588.rknn"
    assert Commands(path).tasks > 1
    for cores in (2, 3):
        with pytest.raises(ValueError, match="leave a step out"):
            Commands(path, cores)


MEMORY = """\
with Model(sys.argv[1], library="open") as first:
    given = inputs(first)
    expected = answers(first, *given)
    models = [first.duplicate(), first.duplicate(), Model(sys.argv[1], library="open")]
    found = [same(answers(model, *given), expected) for model in models]
    print("loaded", file=sys.stderr)
    models[2].close()
    found.append(same(answers(models[0], *given), expected))
    for model in models[:2]:
        model.close()
print("closed", file=sys.stderr)
print(json.dumps(found))
"""


def test_the_same_weights_are_in_memory_once(start):
    """Of duplicates, and of a model that was loaded again; until the last one has gone."""
    done = start("rknpu", "rk3588", MEMORY, SHAPES, RKNN_BOARD_LOG="1", RKNN_OPEN_ASK="never")
    out, said = done.communicate(timeout=300)
    assert out.split() == ["[true,", "true,", "true,", "true]"], said
    constants, alive, counts = Commands(SHAPES, page=4096).constants, Counter(), {}
    for line in said.splitlines():
        what, _, number = line.rpartition(" ")
        if what == "rknn_board: memory":
            alive[int(number)] += 1
        elif what == "rknn_board: memory given back":
            alive[int(number)] -= 1
        elif line in ("loaded", "closed"):
            counts[line] = alive[constants]
    assert counts == {"loaded": 1, "closed": 0}
    assert not +alive
