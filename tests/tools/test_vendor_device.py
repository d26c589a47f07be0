"""The stand-in for the NPU's device, under which the vendor's runtimes are tried."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from paths import PROJECT
from stub import build

WHEELS = PROJECT / "tools" / "wheels"


#: The file's memory, commands and list of tasks as a runtime lays them out, all submitted at once.
JOB = r"""
#include "vendor_npu.c"
#include <sys/mman.h>

int try_job(void) {
    uint8_t *region = mmap(NULL, NPU_REGION_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED || !is_ready(region)) {
        return -1;
    }
    for (uint64_t i = file->model->constant_bytes; i < file->model->memory_bytes; i++) {
        file->memory[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    uint8_t *before = needed(malloc(file->model->memory_bytes));
    memcpy(before, file->memory, file->model->memory_bytes);
    memcpy(region, file->memory, file->model->memory_bytes);
    const uint64_t commands = (file->model->memory_bytes + 63) & ~63ull;
    uint64_t words = 0;
    for (uint32_t i = 0; i < n_entries; i++) {
        const uint64_t end = entries[i].first_word + entries[i].words;
        words = end > words ? end : words;
    }
    memcpy(region + commands, file_words, words * WORD_BYTES);
    const uint64_t tasks = (commands + words * WORD_BYTES + 63) & ~63ull;
    for (uint32_t i = 0; i < n_entries; i++) {
        const task_entry task = {
            .node = entries[i].node,
            .enabled = entries[i].enabled,
            .words = entries[i].words,
            .commands = commands + entries[i].first_word * WORD_BYTES,
        };
        memcpy(region + tasks + i * sizeof task, &task, sizeof task);
    }
    uint32_t count = 0; /* up to where nodes are computed by what they mean */
    while (count < n_entries && file->nodes[entries[count].node].way == EMU_NODE_TASKS) {
        count++;
    }
    struct npu_submit submit = {.task_number = count};
    npu_run(region, &submit, tasks);
    memcpy(file->memory, before, file->model->memory_bytes);
    for (uint32_t i = 1; i <= entries[count - 1].node; i++) { /* 0 takes the inputs */
        if (rkr_emu_run_node(file, i) != RKR_OK) {
            return -2;
        }
    }
    int different = 0, computed = 0;
    for (uint64_t i = file->model->constant_bytes; i < file->model->memory_bytes; i++) {
        different += region[i] != file->memory[i];
        computed += before[i] != file->memory[i];
    }
    return count < 100 || computed < 100000 ? -3 : different;
}
"""


def project():
    """Import ``tools/wheels/project.py``."""
    spec = importlib.util.spec_from_file_location("wheels_project", WHEELS / "project.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow  # compiles the emulator
def test_its_npu_computes_what_the_emulator_does(tmp_path):
    """A job of a file's tasks leaves every byte as a run of the file does."""
    *sources, _, _ = project().device_sources()
    library = build(tmp_path, source=JOB, flags=("-I", WHEELS, *sources, "-lm"))
    script = f"import ctypes; print(ctypes.CDLL({str(library)!r}).try_job())"
    for soc in ("rk3588", "rv1106"):
        model = PROJECT / "examples" / "models" / f"shapes_{soc}.rknn"
        log = tmp_path / soc
        named = {**os.environ, "VENDOR_MODEL": str(model), "VENDOR_LOG": str(log)}
        command = [sys.executable, "-c", script]
        said = subprocess.run(command, env=named, stdout=subprocess.PIPE, check=True).stdout
        lines = log.read_text("utf-8").splitlines()
        assert [line for line in lines if not line.startswith("job ")] == []
        assert int(said) == 0, (soc, said)
