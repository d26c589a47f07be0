/* SPDX-License-Identifier: MIT
 *
 * A runtime's output, which explains a failed call only on stdout and stderr. */

#define RKR_LOG_BYTES 4096 /* kept per thread, the last ones */

/* Keep a copy of a library's output from now on; it still prints. `inside` is the address of
 * any function of the library. RKR_ERR_UNAVAILABLE if it imports no function that prints, or its
 * table of imports cannot be written. */
int rkr_log_keep(const void *inside);

/* Copy the output on this thread since its last call began, at most the last `text_size` bytes,
 * without a NUL; return how many. The output of C++ streams is not recorded. */
size_t rkr_log_read(char *text, size_t text_size);
