/* SPDX-License-Identifier: MIT
 *
 * A `.rknn` file, read: the emulator executes it. */
#ifndef SIM_RKNN_H
#define SIM_RKNN_H

#include "model.h"

/* Whether the bytes begin as such a file does, and not as a bundle. */
bool sim_is_rknn(const uint8_t *bytes, size_t size);

/* Makes a model with one reference. `*runtime` is set as soon as it is known, even on
 * failure. */
int sim_rknn_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime);

#endif
