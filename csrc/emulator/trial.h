/* SPDX-License-Identifier: MIT
 *
 * Nodes whose commands do not compute what their operator is. */
#pragma once

#include "emulator/machine.h"

/* Try every node once, and doubt those that fail; the memory is unchanged afterwards. */
int emu_try_nodes(rkr_emu *emu);
/* trial_sums.c: the largest difference of a convolution from its sums, in steps; NAN: it was not
 * tried. */
double emu_try_sums(rkr_emu *emu, const emu_node *node);
