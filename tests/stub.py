"""A vendor library made for one test, which does things that the simulated runtime never does."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"

#: One input (1, 4, 4, 3) and one output (1, 8), uint8 to uint8: the output is the input's
#: first bytes plus 1. -DOMIT_<name> leaves a function out.
SOURCE = r"""
#include "rkr.h"
#include <stdlib.h>
#include <string.h>

#ifndef ATTR_BYTES
#define ATTR_BYTES sizeof(rknn_tensor_attr)
#endif
#ifndef MEMORY_LOSS
#define MEMORY_LOSS 0
#endif

static int contexts, memories;
static rknn_tensor_mem *bound[2];

int stub_contexts(void) { return contexts; }
int stub_memories(void) { return memories; }

#ifndef OMIT_init
int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend) {
    (void)model; (void)size; (void)flag; (void)extend;
    contexts++;
    *context = 77;
    return 0;
}
#endif
#ifndef OMIT_destroy
int rknn_destroy(rknn_context context) { (void)context; contexts--; return 0; }
#endif
#ifndef OMIT_run
int rknn_run(rknn_context context, rknn_run_extend *extend) {
    const uint8_t *in = bound[0]->virt_addr;
    uint8_t *out = bound[1]->virt_addr;
    (void)extend;
    for (int i = 0; i < 8; i++) { out[i] = (uint8_t)(in[i] + 1); }
    return context == 77 ? 0 : RKNN_ERR_CTX_INVALID;
}
#endif
#ifndef OMIT_create_mem
rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size) {
    (void)context;
#ifdef NO_MEMORY
    return NULL;
#endif
    rknn_tensor_mem *mem = calloc(1, sizeof *mem);
    mem->virt_addr = calloc(1, size);
    mem->size = size - MEMORY_LOSS;
    mem->fd = -1;
    memories++;
    return mem;
}
#endif
#ifndef OMIT_destroy_mem
int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *mem) {
    (void)context;
    free(mem->virt_addr);
    free(mem);
    memories--;
    return 0;
}
#endif
#ifndef OMIT_set_io_mem
int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    (void)context;
    bound[strcmp(attr->name, "in") == 0 ? 0 : 1] = mem;
    return 0;
}
#endif
#ifndef OMIT_query
int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size) {
    rknn_tensor_attr attr;
    (void)context;
    if (cmd == RKNN_QUERY_IN_OUT_NUM) {
        ((rknn_input_output_num *)info)->n_input = 1;
        ((rknn_input_output_num *)info)->n_output = 1;
        return 0;
    }
    const int input = cmd == RKNN_QUERY_INPUT_ATTR || cmd == RKNN_QUERY_NATIVE_INPUT_ATTR;
    const int output = cmd == RKNN_QUERY_OUTPUT_ATTR || cmd == RKNN_QUERY_NATIVE_OUTPUT_ATTR;
    if ((!input && !output) || size != ATTR_BYTES) {
        return RKNN_ERR_PARAM_INVALID;
    }
    memset(&attr, 0, sizeof attr);
    attr.fmt = input ? RKNN_TENSOR_NHWC : RKNN_TENSOR_UNDEFINED;
    attr.type = RKNN_TENSOR_UINT8;
    attr.n_dims = input ? 4 : 2;
    attr.dims[0] = 1;
    attr.dims[1] = input ? 4 : 8;
    attr.dims[2] = 4;
    attr.dims[3] = 3;
    attr.n_elems = input ? 48 : 8;
    attr.size = attr.size_with_stride = attr.n_elems;
    strcpy(attr.name, input ? "in" : "out");
#ifdef PATCH
    if (cmd == PATCH_COMMAND) { PATCH; }
#endif
    memcpy(info, &attr, size);
    return 0;
}
#endif
"""


def compiler() -> str:
    """Where the C compiler is; skips the test where there is none."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None or not CSRC.is_dir():
        pytest.skip("needs a C compiler and the C sources of the checkout")
    return found


def build(folder: Path, *defines: str, source: str = SOURCE, flags: tuple[str, ...] = ()) -> Path:
    """Compile a library, or skip the test where there are no means to.

    Args:
        folder: Where to.
        *defines: Preprocessor definitions such as ``OMIT_run``.
        source: Other C text.
        flags: Further options of the compiler.
    """
    target = folder / "libstub.so"
    target.unlink(missing_ok=True)  # it may be loaded
    target.write_bytes(compiled(source, tuple(f"-D{define}" for define in defines), flags))
    return target


@functools.cache
def compiled(source: str, defines: tuple[str, ...], flags: tuple[str, ...]) -> bytes:
    """A library, compiled once."""
    with tempfile.TemporaryDirectory() as folder:
        text, target = Path(folder, "stub.c"), Path(folder, "libstub.so")
        text.write_text(source, encoding="utf-8")
        subprocess.run(
            [compiler(), "-shared", "-fPIC", f"-I{CSRC}", *defines, "-o", target, text, *flags],
            check=True,
        )
        return target.read_bytes()
