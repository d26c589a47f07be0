#!/bin/sh
# warnings.sh FLAG...: every C source of the package must compile without a warning on gcc and clang.
set -eu
for compiler in gcc clang; do
    for source in csrc/*/*.c csrc/*/*/*.c; do
        "$compiler" "$@" -fPIC -Icsrc -c "$source" -o /dev/null
    done
    echo "no warnings: $compiler"
done
