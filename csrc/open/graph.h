/* SPDX-License-Identifier: MIT
 *
 * A graph from its file on. */
#pragma once

#include "program.h"

/* Open a graph in memory of the device for runs on these cores (0: any one); RKR_OK or a status of
 * the emulator. */
int open_graph_make(open_device *device, const uint8_t *bytes, size_t size, uint32_t graph,
                    uint32_t cores, open_program **out, char *reason, size_t reason_size);
void open_graph_free(open_program *program);
