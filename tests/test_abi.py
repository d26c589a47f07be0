"""`make abi` finds every difference between our declarations and a vendor header."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "abi.py"
DECLARATIONS = ROOT / "csrc" / "decl"

if not (TOOL.exists() and shutil.which("cc")):
    pytest.skip("needs a C compiler and the C sources of the checkout", allow_module_level=True)

CONTEXT = """
#ifdef __arm__
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif
"""


def as_vendors(*names: str, guard: str, head: str) -> str:
    """Our own declarations in the form of a header of the vendor's: guards, prototypes, tags."""
    text = "".join((DECLARATIONS / name).read_text(encoding="utf-8") for name in names)
    text = text.replace("typedef uintptr_t rknn_context;", CONTEXT)
    text = re.sub(r"typedef (enum|struct) \{", r"typedef \1 _tag_ {", text)
    for number in range(text.count("_tag_")):
        text = text.replace("_tag_", f"{guard}_{number}", 1)
    text = re.sub(r"typedef ([^;{]*?\brknn_\w+?)_fn\(", r"\1(", text)
    return f"#ifndef {guard}\n#define {guard}\n{head}\n{text}#endif\n"


def vendor_header() -> str:
    return as_vendors(
        "rknn_types.h", "rknn_functions.h", guard="_RKNN_API_H", head="#include <stdint.h>"
    )


def compare(folder: Path, text: str, **others: str) -> tuple[int, str]:
    headers = []
    for name, content in {"rknn_api": text, **others}.items():
        headers.append(folder / f"{name}.h")
        headers[-1].write_text(content, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, TOOL, *headers], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


def test_an_equal_header_has_no_differences(tmp_path):
    """Every fact is compared and equal: exit status 0."""
    status, output = compare(tmp_path, vendor_header())
    assert status == 0, output
    facts = int(re.findall(r"(\d+) facts, 0 differences", output)[0])
    assert facts > 250
    assert "DIFFERS" not in output
    assert "prototype of rknn_query" in output
    assert "matmul" not in output


#: Header, pattern, replacement, and how the lines begin that tell of it.
CHANGES = [
    ("rknn_api", r"RKNN_ERR_TIMEOUT -2", "RKNN_ERR_TIMEOUT -3", ["RKNN_ERR_TIMEOUT"]),
    ("rknn_api", r"#define RKNN_FLAG_SHARE_SRAM 0x1000\n", "", ["RKNN_FLAG_SHARE_SRAM"]),
    ("rknn_api", r"FROM_DEVICE = 2", "FROM_DEVICE = 1", ["RKNN_MEMORY_SYNC_FROM_DEVICE"]),
    ("rknn_api", r"uint32_t h_stride;", "",
     ["sizeof rknn_tensor_attr", "offsetof rknn_tensor_attr.h_stride"]),
    ("rknn_api", r"int32_t zp;", "uint32_t zp;", ["type of rknn_tensor_attr.zp is int32_t"]),
    ("rknn_api", r"(uint32_t n_input;)\s*(uint32_t n_output;)", r"\2 \1",
     ["offsetof rknn_input_output_num.n_input"]),
    ("rknn_api", r"char string\[1024\]", "char string[512]", ["sizeof rknn_custom_string"]),
    ("rknn_api", r"(void \*virt_addr, )(uint32_t size,\s*int32_t offset)",
     r"\1int32_t offset, uint32_t size", ["prototype of rknn_create_mem_from_fd"]),
    ("rknn_api", r"uint64_t size,(\s*uint64_t alloc_flags)", r"uint32_t size,\1",
     ["prototype of rknn_create_mem2"]),
    ("rknn_api", r"int rknn_destroy\(", "void rknn_destroy(", ["prototype of rknn_destroy"]),
    ("rknn_api", r"int rknn_mem_sync\([^;]*;", "", ["prototype of rknn_mem_sync"]),
    ("rknn_matmul_api", r"int16_t group_size;", "int32_t group_size;",
     ["type of rknn_matmul_info.group_size"]),
    ("rknn_matmul_api", r"TO_INT16 = 10", "TO_INT16 = 11", ["RKNN_INT4_MM_INT4_TO_INT16"]),
    ("rknn_custom_op", r"uint64_t cl_source_size;", "uint32_t cl_source_size;",
     ["type of rknn_custom_op.cl_source_size"]),
]  # fmt: skip


def other_headers() -> dict[str, str]:
    others = {"rknn_matmul_api": "rknn_matmul.h", "rknn_custom_op": "rknn_custom_op.h"}
    head = '#include "rknn_api.h"'
    return {name: as_vendors(file, guard=f"_{name}", head=head) for name, file in others.items()}


def test_headers_beside_the_first_are_compared_too(tmp_path):
    """The functions of matrices and of custom operators, each where its header is given."""
    status, output = compare(tmp_path, vendor_header(), **other_headers())
    assert status == 0, output
    assert "prototype of rknn_matmul_create_dynamic_shape" in output
    assert "offsetof rknn_custom_op.destroy" in output


def test_every_difference_is_found_and_one_fails(tmp_path):
    """A changed number, size, order, type or prototype, or a missing name, in any header."""
    headers = {"rknn_api": vendor_header(), **other_headers()}
    for name, pattern, replacement, _ in CHANGES:
        headers[name], count = re.subn(pattern, replacement, headers[name])
        assert count == 1, pattern
    _, output = compare(tmp_path, headers.pop("rknn_api"), **headers)
    differing = [line for line in output.splitlines() if "DIFFERS" in line]
    for expected in (each for *_, lines in CHANGES for each in lines):
        assert any(line.startswith(expected) for line in differing), expected
    one = vendor_header().replace("RKNN_ERR_TIMEOUT -2", "RKNN_ERR_TIMEOUT -3")
    assert compare(tmp_path, one)[0] == 1


def test_a_header_that_does_not_compile_is_an_error(tmp_path):
    """The compiler's message is shown."""
    status, output = compare(tmp_path, "#include <no_such_header.h>\n")
    assert status == 1
    assert "no_such_header.h" in output
    assert "differences" not in output
