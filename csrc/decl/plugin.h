/* SPDX-License-Identifier: MIT
 *
 * Shared libraries with a custom operator each, as rknn_server loads them. */

/* Open `path` and take what its get_rknn_custom_op returns, which stays valid: the library is never
 * closed. One that was linked against no runtime finds the functions of `library`, which are then
 * seen by all that is loaded later. RKR_ERR_LOAD when it cannot be opened, has no such function, or
 * gives no operator with a name, a compute and a target; `message` then says why. */
int rkr_plugin_open(const rkr_library *library, const char *path, rknn_custom_op **op,
                    char *message, size_t message_size);
