"""Programs in C on the simulated runtime, linked and loaded as with a vendor's library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stub
from paths import PROJECT

from rknn_runtime import Model
from rknn_runtime.cli import main
from rknn_runtime.sim import install_library

EXAMPLES = PROJECT / "examples" / "models"
#: General API, from a path; prints the bytes of the first output's float values.
GENERAL = r"""
#include "rkr.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
rknn_init_fn rknn_init; rknn_query_fn rknn_query; rknn_inputs_set_fn rknn_inputs_set;
rknn_run_fn rknn_run; rknn_outputs_get_fn rknn_outputs_get; rknn_destroy_fn rknn_destroy;
rknn_outputs_release_fn rknn_outputs_release; rknn_create_mem_fn rknn_create_mem;
rknn_set_io_mem_fn rknn_set_io_mem; rknn_destroy_mem_fn rknn_destroy_mem;
int main(int argc, char **argv) {
    rknn_context ctx;
    if (argc < 3 || rknn_init(&ctx, argv[1], 0, 0, NULL) != 0) { return 2; }
    rknn_tensor_attr in = {.index = 0}, out = {.index = 0};
    rknn_query(ctx, RKNN_QUERY_NATIVE_INPUT_ATTR, &in, sizeof in);
    FILE *file = fopen(argv[2], "rb");
    unsigned char *pixels = calloc(1, in.n_elems);
    if (file == NULL || fread(pixels, 1, in.n_elems, file) != in.n_elems) { return 3; }
#ifdef ZERO_COPY
    rknn_query(ctx, RKNN_QUERY_NATIVE_OUTPUT_ATTR, &out, sizeof out);
    rknn_tensor_mem *mi = rknn_create_mem(ctx, in.size_with_stride);
    rknn_tensor_mem *mo = rknn_create_mem(ctx, out.size_with_stride);
    in.type = RKNN_TENSOR_UINT8; in.fmt = RKNN_TENSOR_NHWC;
    if (rknn_set_io_mem(ctx, mi, &in) != 0 || rknn_set_io_mem(ctx, mo, &out) != 0) { return 4; }
    memcpy(mi->virt_addr, pixels, in.n_elems);
    if (rknn_run(ctx, NULL) != 0) { return 5; }
    fwrite(mo->virt_addr, 1, out.size_with_stride, stdout); /* no rknn_mem_sync */
    rknn_destroy_mem(ctx, mi); rknn_destroy_mem(ctx, mo);
#else
    rknn_input input = {.buf = pixels, .size = in.n_elems, .type = RKNN_TENSOR_UINT8,
                        .fmt = RKNN_TENSOR_NHWC};
    rknn_output output = {.want_float = 1};
    if (rknn_inputs_set(ctx, 1, &input) != 0 || rknn_run(ctx, NULL) != 0) { return 5; }
    if (rknn_outputs_get(ctx, 1, &output, NULL) != 0) { return 6; }
    (void)out;
    fwrite(output.buf, 1, output.size, stdout);
    rknn_outputs_release(ctx, 1, &output);
#endif
    return rknn_destroy(ctx);
}
"""

if not EXAMPLES.is_dir():
    pytest.skip("needs the models of the checkout", allow_module_level=True)


@pytest.fixture
def pixels(tmp_path: Path) -> np.ndarray:
    with Model(EXAMPLES / "shapes_rk3588.rknn", library="sim") as model:
        frame = np.random.default_rng(0).integers(0, 256, model.inputs[0].shape).astype(np.uint8)
    frame.tofile(tmp_path / "frame.bin")
    np.save(tmp_path / "frame.npy", frame)
    return frame


def compiled(folder: Path, name: str, *defines: str) -> Path:
    """Link a program against the library by its name; skip where there is no compiler."""
    compiler = stub.compiler()
    install_library(folder, f"lib{name}.so")
    source, program = folder / "program.c", folder / "program"
    source.write_text(GENERAL, encoding="utf-8")
    subprocess.run(
        [compiler, "-std=c11", f"-I{stub.CSRC}", *(f"-D{each}" for each in defines), "-o", program,
         source, f"-L{folder}", f"-l{name[3:] if name.startswith('lib') else name}"],
        check=True,
    )  # fmt: skip
    return program


def run(program: Path, model: Path, folder: Path) -> bytes:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    command = [program, model, folder / "frame.bin"]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout


def test_a_program_that_links_with_librknnrt(tmp_path, pixels):
    """It finds the library by the name that it was linked with, and gets what `Model` gets."""
    program = compiled(tmp_path, "rknnrt")
    with Model(EXAMPLES / "shapes_rk3588.rknn", library="sim") as model:
        (expected,) = model(pixels)
    said = run(program, EXAMPLES / "shapes_rk3588.rknn", tmp_path)
    assert said == expected.tobytes()
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    assert "librknn_sim" not in linked


def test_it_runs_what_was_recorded(tmp_path, pixels, capsys):
    """``rknn-runtime record`` writes a bundle that answers the sample as the model does."""
    program = compiled(tmp_path, "rknnrt")
    model, bundle = EXAMPLES / "shapes_rk3588.rknn", tmp_path / "model.bundle"
    for options in ([], ["--any-input"]):
        arguments = ["record", str(model), str(tmp_path / "frame.npy"), "-o", str(bundle)]
        assert main([*arguments, *options]) == 0
        assert "1 sample," in capsys.readouterr().out
        assert run(program, bundle, tmp_path) == run(program, model, tmp_path)
    with Model(bundle, library="sim") as loaded:
        loaded.run(np.zeros_like(pixels))


def test_record_says_what_is_wrong(tmp_path, pixels, capsys):
    """A broken sample, a sample of another shape, and a broken model are named."""
    model, out = str(EXAMPLES / "shapes_rk3588.rknn"), str(tmp_path / "out")
    np.savez(tmp_path / "two.npz", a=pixels, b=pixels)
    np.save(tmp_path / "float.npy", pixels.astype(np.float64))
    (tmp_path / "text.npy").write_text("no array")
    for arguments, words in (
        ([model, str(tmp_path / "two.npz")], "got 2"),
        ([model, str(tmp_path / "float.npy")], "float64"),
        ([model, str(tmp_path / "text.npy")], "expected an .npy or .npz file"),
        ([model, str(tmp_path / "none.npy")], "no such file"),
        ([str(tmp_path / "text.npy"), str(tmp_path / "frame.npy")], "text.npy"),
    ):
        assert main(["record", *arguments, "-o", out]) == 1
        assert words in capsys.readouterr().err
    assert not Path(out).exists()


def test_the_library_is_written_under_either_name(tmp_path, capsys):
    """And replaced when it is there; other names are refused."""
    for name in ("librknnrt.so", "librknnmrt.so"):
        for _ in range(2):
            assert main(["sim-library", str(tmp_path), "--name", name]) == 0
            assert capsys.readouterr().out == f"{tmp_path / name}\n"
        assert re.search(rb"\0" + name.encode() + rb"\0", (tmp_path / name).read_bytes())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["librknnmrt.so", "librknnrt.so"]
    code = (
        "from rknn_runtime import Model, open_library; import sys;"
        "assert open_library(sys.argv[1]).is_simulated"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "librknnrt.so")]
    subprocess.run(command, check=True)
    with pytest.raises(ValueError, match="name: expected"):
        install_library(tmp_path, "libc.so.6")
    with pytest.raises(TypeError, match="name: expected"):
        install_library(tmp_path, 5)
    assert main(["sim-library", str(tmp_path / "new" / "folder")]) == 0
    assert (tmp_path / "new" / "folder" / "librknnrt.so").exists()
