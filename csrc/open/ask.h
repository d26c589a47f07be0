/* SPDX-License-Identifier: MIT
 *
 * Which kinds of task the kernel and the NPU at hand execute: asked once, then kept. */
#pragma once

#include "program.h"

/* Try each node of the NPU whose kinds of task nobody has tried yet, and place on the CPU those
 * whose kind hangs or answers otherwise. The program's memory is as it was. */
int open_ask(open_program *program);
