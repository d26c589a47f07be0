/* SPDX-License-Identifier: MIT
 *
 * What a runtime says, to stdout and stderr alone, about a model that it refuses. */

/* Have a runtime refuse a model once more, which it did before, and read what it prints
 * meanwhile: up to text_size - 1 bytes go to `text`, NUL-terminated. A context that it makes all
 * the same is destroyed. Both file descriptors are changed for the time of the call, for the whole
 * process, by one thread at a time. RKR_OK, or RKR_ERR_MEMORY where nothing can be captured. */
int rkr_init_log(const rkr_library *library, void *model, uint32_t size, uint32_t flag, char *text,
                 size_t text_size);
