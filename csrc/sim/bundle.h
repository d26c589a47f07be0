/* SPDX-License-Identifier: MIT
 *
 * A bundle, read. */
#ifndef SIM_BUNDLE_H
#define SIM_BUNDLE_H

#include "model.h"

/* Makes a model with one reference. `*runtime` is set as soon as it is known, even on
 * failure. */
int sim_bundle_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime);

#endif
