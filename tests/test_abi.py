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


def vendor_header() -> str:
    """Our own declarations in the form of the vendor's header: guards, prototypes, tags."""
    types = (DECLARATIONS / "rknn_types.h").read_text(encoding="utf-8")
    functions = (DECLARATIONS / "rknn_functions.h").read_text(encoding="utf-8")
    types = types.replace("typedef uintptr_t rknn_context;", CONTEXT)
    types = re.sub(r"typedef (enum|struct) \{", r"typedef \1 _tag_ {", types)
    for number in range(types.count("_tag_")):
        types = types.replace("_tag_", f"_vendor_{number}", 1)
    prototypes = re.sub(r"typedef (.*?\brknn_\w+?)_fn\(", r"\1(", functions, flags=re.DOTALL)
    guard = "#ifndef _RKNN_API_H\n#define _RKNN_API_H\n#include <stdint.h>\n"
    return f"{guard}{types}{prototypes}#endif\n"


def compare(folder: Path, text: str) -> tuple[int, str]:
    header = folder / "rknn_api.h"
    header.write_text(text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, TOOL, header], capture_output=True, text=True, check=False
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


@pytest.mark.parametrize(
    ("pattern", "replacement", "expected"),
    [
        (r"RKNN_ERR_TIMEOUT -2", "RKNN_ERR_TIMEOUT -3", "RKNN_ERR_TIMEOUT"),
        (r"#define RKNN_FLAG_SHARE_SRAM 0x1000\n", "", "RKNN_FLAG_SHARE_SRAM"),
        (r"FROM_DEVICE = 2", "FROM_DEVICE = 1", "RKNN_MEMORY_SYNC_FROM_DEVICE"),
        (r"uint32_t h_stride;", "", "sizeof rknn_tensor_attr"),
        (r"uint32_t h_stride;", "", "offsetof rknn_tensor_attr.h_stride"),
        (r"int32_t zp;", "uint32_t zp;", "type of rknn_tensor_attr.zp is int32_t"),
        (r"(uint32_t n_input;)\s*(uint32_t n_output;)", r"\2 \1",
         "offsetof rknn_input_output_num.n_input"),
        (r"char string\[1024\]", "char string[512]", "sizeof rknn_custom_string"),
        (r"(void \*virt_addr, )(uint32_t size,\s*int32_t offset)",
         r"\1int32_t offset, uint32_t size", "prototype of rknn_create_mem_from_fd"),
        (r"uint64_t size,(\s*uint64_t alloc_flags)", r"uint32_t size,\1",
         "prototype of rknn_create_mem2"),
        (r"int rknn_destroy\(", "void rknn_destroy(", "prototype of rknn_destroy"),
        (r"int rknn_mem_sync\([^;]*;", "", "prototype of rknn_mem_sync"),
    ],
)  # fmt: skip
def test_a_difference_is_found_and_fails(tmp_path, pattern, replacement, expected):
    """A changed number, size, order, type or prototype, or a missing name: exit status 1."""
    text, count = re.subn(pattern, replacement, vendor_header())
    assert count == 1
    status, output = compare(tmp_path, text)
    assert status == 1, output
    assert [line for line in output.splitlines() if "DIFFERS" in line and line.startswith(expected)]


def test_what_only_the_header_has_is_listed_and_no_difference(tmp_path):
    """A newer header has more names: they are printed, and the comparison holds."""
    more = "#define RKNN_ERR_NEW -14\nint rknn_new_function(rknn_context context);\n#endif\n"
    status, output = compare(tmp_path, vendor_header()[: -len("#endif\n")] + more)
    assert status == 0, output
    assert "only in the header: RKNN_ERR_NEW" in output
    assert "only in the header: rknn_new_function" in output


def test_a_header_that_is_not_there_is_an_error(tmp_path):
    """Not a table of absences."""
    run = subprocess.run(
        [sys.executable, TOOL, tmp_path / "none.h"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "is not a file" in run.stderr


def test_a_header_that_does_not_compile_is_an_error(tmp_path):
    """The compiler's message is shown."""
    status, output = compare(tmp_path, "#include <no_such_header.h>\n")
    assert status == 1
    assert "no_such_header.h" in output
    assert "differences" not in output
