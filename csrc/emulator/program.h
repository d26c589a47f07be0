/* SPDX-License-Identifier: MIT
 *
 * The commands of tasks for an NPU: as the file has them, or each task written out in full. */
#pragma once

#include "emulator/machine.h"

/* The registers that a task runs with, by block: NULL if it leaves the block unused. */
typedef struct {
    const uint32_t *values[EMU_BLOCKS];
    const uint8_t *is_address[EMU_BLOCKS];
    const uint8_t *is_written[EMU_BLOCKS]; /* by the file, so far */
    const uint32_t *known[EMU_BLOCKS];     /* not 0: some file writes this register */
    emu_family family;
    bool is_final; /* the file has relocated nothing */
    const uint64_t *settings;
    uint32_t n_settings;
} emu_effective;

/* Whether a register holds an address in memory. */
bool emu_holds_address(emu_family family, uint32_t number);

/* A task in full. */
typedef struct emu_whole {
    uint32_t n_words;
    const uint64_t *words;
    const uint8_t *is_address; /* per word */
} emu_whole;

/* Keep task `task` in full: its registers, and the LUT entries among its words in the file. */
bool emu_keep_whole(rkr_emu *emu, uint32_t task, const emu_task_entry *entry,
                    const emu_effective *registers);
