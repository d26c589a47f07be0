/* SPDX-License-Identifier: MIT
 *
 * The NPU of this machine. */
#pragma once

#include "device.h"

extern const open_driver open_rknpu, open_rocket;

/* The NPU of this machine, opened once; NULL, and why in `reason`. A child that was forked opens it
 * anew. */
open_device *open_find_device(char *reason, size_t reason_size);

/* The device with a file of its own, where jobs of one file wait for each other; NULL with errno.
 * Close it in the end. */
open_device *open_own_file(open_device *device);
void open_close_file(open_device *device);
