/* SPDX-License-Identifier: MIT
 *
 * The stand-in for the NPU's device. */
#pragma once

#define BOARD_NOT_MINE (-2)

/* Open a device of an NPU: its file, -1 with errno, or BOARD_NOT_MINE. */
int board_open_device(const char *path);
