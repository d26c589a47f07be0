/* SPDX-License-Identifier: MIT
 *
 * What a runtime says, to stdout and stderr alone, about a call that fails. */

#define RKR_LOG_BYTES 4096 /* kept per thread, the last ones */

/* Keep a copy of what this library prints from now on; it prints as before. RKR_ERR_UNAVAILABLE
 * where it imports no function that prints, or lies in pages that cannot be written. */
int rkr_log_keep(const rkr_library *library);

/* Copy what it printed on this thread since its last call began, at most the last `text_size`
 * bytes, without a NUL; return how many. What a C++ stream prints is not among it. */
size_t rkr_log_read(char *text, size_t text_size);
