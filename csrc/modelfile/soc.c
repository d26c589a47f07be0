/* SPDX-License-Identifier: MIT
 *
 * Every SoC that rknn-toolkit2 2.3.2 and 2.5.0 make models for. Those with the same NPU share
 * models. */
#include "modelfile/modelfile.h"

static const rkr_soc socs[] = {
    {"rk3562", "RKNPU t4", .cores = 1, .c2_bytes = 16, .row_bytes = 16},
    {"rk3566", "RKNPU lite", .cores = 1, .c2_bytes = 8, .row_bytes = 8},
    {"rk3568", "RKNPU lite", .cores = 1, .c2_bytes = 8, .row_bytes = 8},
    {"rk3576", "RKNPU f2", .cores = 2, .c2_bytes = 16, .row_bytes = 16},
    {"rk3588", "RKNPU v2", .cores = 3, .c2_bytes = 16, .row_bytes = 16},
    {"rv1126b", "RKNPU f3", .cores = 1, .c2_bytes = 16, .row_bytes = 16},
    {"rv1103", "RKNPU t3", .is_mini = 1, .cores = 1, .c2_bytes = 16, .row_bytes = 16},
    {"rv1106", "RKNPU t3", .is_mini = 1, .cores = 1, .c2_bytes = 16, .row_bytes = 16},
    {"rv1103b", "RKNPU w1", .is_mini = 1, .cores = 1, .c2_bytes = 8, .row_bytes = 16},
    {"rv1106b", "RKNPU w1", .is_mini = 1, .cores = 1, .c2_bytes = 8, .row_bytes = 16},
    {"rk2118", "RKNPU w2", .is_mini = 1, .cores = 1, .c2_bytes = 8, .row_bytes = 16},
};

const rkr_soc *rkr_get_soc(uint32_t index) {
    return index < sizeof socs / sizeof socs[0] ? &socs[index] : NULL;
}

const rkr_soc *rkr_find_soc(const uint8_t *name, size_t length) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        if (strlen(socs[i].name) == length && memcmp(socs[i].name, name, length) == 0) {
            return &socs[i];
        }
    }
    return NULL;
}
