/* SPDX-License-Identifier: MIT
 *
 * Helpers of all readers of containers. */
#include "emulator/loader.h"

int emu_bad_file(loader *l, const char *why) {
    return emu_fail(l->model, RKR_EMU_ERR_FILE, "not a readable model: %s", why);
}

/* The bytes of a blob. */
rkr_vector emu_blob(loader *l, uint32_t index) {
    if (index >= l->blobs.length) {
        l->flat->bad = true;
        return (rkr_vector){0, 0};
    }
    return rkr_flat_vector(l->flat, rkr_flat_item(l->flat, l->blobs, index), 0, 1);
}
