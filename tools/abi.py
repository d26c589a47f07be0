"""Compare this project's declarations of the RKNN C API with the vendor's own header.

    python tools/abi.py path/to/rknn_api.h [path/to/rknn_matmul_api.h ...]
    CC=arm-linux-gnueabihf-gcc python tools/abi.py path/to/rknn_api.h

Every constant, the size of every struct, the offset, size and type of every member and the
prototype of every function, as the compiler sees them: each fact is a compile-time constant that
the generated C writes into its assembly output, so nothing runs and a cross compiler will do.
Prints a table and exits with 1 on any difference. Declarations that only the header has (a newer
one has more) are listed and count as no difference.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from cffi import FFI

DECLARATIONS = Path(__file__).resolve().parent.parent / "csrc" / "decl"
#: Our files, by the name of the vendor's header that they state; each needs the first one's.
STATED = {
    "rknn_api.h": ("rknn_types.h", "rknn_functions.h"),
    "rknn_matmul_api.h": ("rknn_matmul.h",),
    "rknn_custom_op.h": ("rknn_custom_op.h",),
}
MARK = "rkr_fact"
COMPILE = ["-std=gnu11", "-w", "-fno-lto"]


class Fact(NamedTuple):
    """Something about the ABI, and the C expression that is its value."""

    name: str
    expression: str
    #: Declarations that the expression needs, inside a function.
    prologue: str = ""


def stated(headers: list[Path]) -> list[Path]:
    """Return our files that state these headers of the vendor's."""
    names = [header.name for header in headers if header.name in STATED]
    return [DECLARATIONS / name for header in ["rknn_api.h", *names] for name in STATED[header]]


def facts(files: list[Path]) -> list[Fact]:
    """Read our declarations; every fact is true by itself for them."""
    text = "".join(file.read_text(encoding="utf-8") for file in dict.fromkeys(files))
    found = [Fact(name, name) for name in re.findall(r"^#define (\w+)", text, re.MULTILINE)]
    ffi = FFI()
    ffi.cdef(text)
    for name in ffi.list_types()[0]:
        if name.endswith(("_fn", "_callback")):
            continue
        kind = ffi.typeof(name)
        if kind.kind == "enum":
            found += [Fact(member, member) for member in kind.relements]
        found.append(Fact(f"sizeof {name}", f"sizeof({name})"))
        if kind.kind == "struct":
            for member, field in kind.fields:
                found += member_facts(name, member, field)
    return found + [prototype_fact(*match) for match in prototypes(files)]


def member_facts(struct: str, member: str, field: Any) -> list[Fact]:
    """Offset and type of one member."""
    # Our rknn_context is an uintptr_t; the vendor's is another integer of the same size.
    kind = "rknn_context" if field.type.cname == "uintptr_t" else field.type.cname
    same = f"__builtin_types_compatible_p(__typeof__((({struct} *)0)->{member}), {kind})"
    return [
        Fact(f"offsetof {struct}.{member}", f"__builtin_offsetof({struct}, {member})"),
        Fact(f"type of {struct}.{member} is {kind}", same),
    ]


def prototypes(files: list[Path]) -> list[tuple[str, str]]:
    """Name and declaration of every function type, comments removed."""
    text = "".join(file.read_text(encoding="utf-8") for file in dict.fromkeys(files))
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    statements = [" ".join(part.split()) for part in text.split(";")]
    return [
        (match.group(1), statement)
        for statement in statements
        for match in [re.match(r"typedef .*?\b(rknn_\w+)_fn\(", statement)]
        if match
    ]


def prototype_fact(name: str, declaration: str) -> Fact:
    """Our function type, made of the header's own types, is the header's function's."""
    same = f"__builtin_types_compatible_p(__typeof__({name}), {name}_fn)"
    return Fact(f"prototype of {name}", same, f"{declaration};")


def own_source(files: list[Path]) -> list[str]:
    """Our declarations as a header: the function types become functions."""
    return [
        "#include <stdint.h>",
        *(f'#include "{file}"' for file in dict.fromkeys(files)),
        *(f"extern {name}_fn {name};" for name, _ in prototypes(files)),
    ]


def evaluate(
    header: list[str], wanted: list[Fact], compiler: list[str], folder: Path
) -> dict[str, int]:
    """Compile every fact behind a header; those that do not compile are left out."""
    left = dict(enumerate(wanted))
    source, output = folder / "facts.c", folder / "facts.s"
    while True:
        lines = list(header)
        for number, fact in left.items():
            value = f'"\\n#{MARK} {number} %c0\\n" :: "i"((long)({fact.expression}))'
            lines.append(
                f"void fact{number}(void) {{ {fact.prologue} __asm__ volatile({value}); }}"
            )
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        run = subprocess.run(
            [*compiler, *COMPILE, "-S", "-o", str(output), str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode == 0:
            break
        pattern = rf"^{re.escape(str(source))}:(\d+):\d+: (?:fatal )?error"
        numbers = list(left)
        bad = {int(line) - len(header) - 1 for line in re.findall(pattern, run.stderr, re.M)}
        if not bad or min(bad) < 0:
            sys.exit(f"the declarations do not compile:\n{run.stderr}")
        for line in bad:
            del left[numbers[line]]
    values = re.findall(rf"#{MARK} (\d+) [$#]?(-?\d+)", output.read_text(encoding="utf-8"))
    return {wanted[int(number)].name: int(value) for number, value in values}


def only_in_header(header: Path, files: list[Path]) -> list[str]:
    """Names of the vendor's in the header that our declarations do not have."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text("utf-8", "replace"), flags=re.DOTALL)
    known = "".join(file.read_text(encoding="utf-8") for file in files)
    functions = set(re.findall(r"\b(rknn_\w+)\s*\(", text))
    names = set(re.findall(r"\b(RKNN_\w+)\b", text))
    return sorted(name for name in functions | names if not re.search(rf"\b{name}(_fn)?\b", known))


def report(wanted: list[Fact], ours: dict[str, int], theirs: dict[str, int]) -> int:
    """Print one line per fact; return the number of differences."""
    differences = 0
    width = max(len(fact.name) for fact in wanted)
    print(f"{'fact':{width}}  {'declared':>10}  {'header':>10}")
    for fact in wanted:
        declared, found = ours[fact.name], theirs.get(fact.name)
        differs = declared != found
        differences += differs
        shown = "absent" if found is None else str(found)
        print(f"{fact.name:{width}}  {declared:>10}  {shown:>10}{'  DIFFERS' if differs else ''}")
    return differences


def main() -> int:
    """Print the table; 1 when anything differs."""
    parser = argparse.ArgumentParser(description="Compare csrc/decl with the vendor's header.")
    parser.add_argument(
        "headers", type=Path, nargs="+", help="the vendor's rknn_api.h, and others beside it"
    )
    headers: list[Path] = parser.parse_args().headers
    for header in headers:
        if not header.is_file():
            parser.error(f"{header} is not a file")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    files = stated(headers)
    wanted = facts(files)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        included = [f'#include "{header.resolve()}"' for header in headers]
        theirs = evaluate(included, wanted, compiler, folder)
        ours = evaluate(own_source(files), wanted, compiler, folder)
    differences = report(wanted, ours, theirs)
    for header in headers:
        for extra in only_in_header(header, files):
            print(f"only in the header: {extra}")
    print(f"{len(wanted)} facts, {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
