/* SPDX-License-Identifier: MIT
 *
 * Memory of constants. */
#pragma once

#include "device.h"

/* A block that nobody writes, and its users. */
typedef struct open_weights open_weights;

/* Take over a block with all its bytes; if somebody has the same on this device, give it back and
 * share the other's. NULL: no memory, and the block is still the caller's. */
open_weights *open_weights_take(open_device *device, open_block *block);
void open_weights_drop(open_weights *weights);
const open_block *open_weights_block(const open_weights *weights);
