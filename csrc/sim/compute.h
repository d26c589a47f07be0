/* SPDX-License-Identifier: MIT
 *
 * The graph. */
#ifndef SIM_COMPUTE_H
#define SIM_COMPUTE_H

#include "ports.h"

/* Values of all outputs from the values of all inputs. */
int sim_compute(sim_context *context);
/* What comes out when there was nothing to read. */
int sim_compute_garbage(sim_context *context);

/* The emulator of a context's model, with the inputs of its last run; NULL where there is none. */
rkr_emu *sim_compute_emulator(sim_context *context);

#endif
