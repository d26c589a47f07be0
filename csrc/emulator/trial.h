/* SPDX-License-Identifier: MIT
 *
 * Nodes whose commands do not compute what their operator is. */
#pragma once

#include "emulator/machine.h"

/* Try every node once, and doubt those that fail; the memory is left as it was. */
int emu_try_nodes(rkr_emu *emu);
