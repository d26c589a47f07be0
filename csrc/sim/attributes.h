/* SPDX-License-Identifier: MIT
 *
 * What the vendor's runtimes answer about a tensor, from what the model file says of it. */
#ifndef SIM_ATTRIBUTES_H
#define SIM_ATTRIBUTES_H

#include "model.h"

/* What of a model decides how its runtime describes the tensors. */
typedef struct {
    bool is_mini;
    bool is_dynamic;
    uint32_t batch;
    uint32_t container; /* version */
    uint32_t row_bytes; /* of the SoC: rows begin at multiples of it */
} sim_rules;

/* Describe an input or an output in all its views; false: the file contradicts itself. */
bool sim_describe(const rkr_emu_tensor *file, uint32_t index, bool is_input, const sim_rules *rules,
                  sim_tensor *tensor);

#endif
