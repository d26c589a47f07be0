#!/bin/sh
# warnings.sh FLAG...: every C source of the package must compile without a warning on gcc and clang.
set -eu
for compiler in gcc clang; do
    printf '%s\0' csrc/*/*.c csrc/*/*/*.c |
        xargs -0 -n 1 -P "$(nproc)" "$compiler" "$@" -fPIC -Icsrc -o /dev/null -c
    echo "no warnings: $compiler"
done
