/* SPDX-License-Identifier: MIT
 *
 * Command words -> the registers of each task -> a decoded task.
 *
 * A word: bits 0..15 register, 16..47 value, 48..63 target. Each block has two groups of
 * registers. Writes go to the current one. A task that enables the block runs with it, and
 * then the block switches: short tasks rely on values that were written two tasks of the
 * block before. S_POINTER (offset 4) = 0x30 goes back to group 0. The tables of the LUT exist
 * once and are loaded by writes: 4100 (bit 17 write, bit 16 table, [9:0] index), then one
 * 4104 per entry. A task that loads them does nothing else. */
#include "emulator/decode.h"

#include "emulator/convolution.h"
#include "emulator/dpu_fast.h"
#include "emulator/maps.h"
#include "emulator/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define S_POINTER 0x004
#define POINTER_RESET 0x30
#define SETTINGS 0x0401u /* the target of DMA's and of the multipliers' block */
#define MOST_SETTINGS 8u
#define LUT_ACCESS 0x4100
#define LUT_DATA 0x4104
#define MOST_REPEATED ((uint64_t)1 << 24) /* words that loops repeat: 150,000 tasks or so */

typedef struct emu_decoder {
    rkr_emu *emu;
    uint32_t registers[EMU_BLOCKS][2][EMU_BLOCK_REGISTERS];
    uint8_t is_address[EMU_BLOCKS][2][EMU_BLOCK_REGISTERS];
    uint8_t is_written[EMU_BLOCKS][EMU_BLOCK_REGISTERS];
    uint8_t group[EMU_BLOCKS];
    emu_lut_tables *lut;
    emu_lut_tables *luts[8], *spare_lut; /* see settle_lut */
    uint32_t n_luts;
    uint32_t lut_table, lut_index;
    bool lut_writes;
    uint32_t known[EMU_BLOCKS][EMU_BLOCK_REGISTERS];
    bool loads_lut;
    uint64_t settings[MOST_SETTINGS]; /* the last word for each */
    uint32_t n_settings;
} decoder;

/* The block of a target; 0: not a block of registers that matters; UINT32_MAX: unknown. */
static uint32_t block_of(uint32_t target) {
    switch (target) {
    case 0x0201:
        return EMU_CNA;
    case 0x0801:
        return EMU_CORE;
    case 0x1001:
        return EMU_DPU;
    case 0x2001:
        return EMU_RDMA;
    case 0x4001:
        return EMU_PPU;
    case 0x8001:
        return EMU_PPU_RDMA;
    case 0x0000: /* alignment */
    case 0x0041: /* separator */
    case 0x0081: /* operation enable: repeated in the task table */
    case 0x0101: /* the chain of tasks */
    case SETTINGS:
        return 0;
    default:
        return UINT32_MAX;
    }
}

static bool write_lut(decoder *d, uint32_t number, uint32_t value) {
    if (number == LUT_ACCESS) {
        d->lut_writes = (value >> 17 & 1) != 0;
        d->lut_table = value >> 16 & 1;
        d->lut_index = value & 0x3ff;
        return true;
    }
    if (!d->lut_writes) {
        return true;
    }
    if (!d->loads_lut) {
        emu_lut_tables *tables =
            d->spare_lut != NULL ? d->spare_lut : emu_allocate(d->emu->model, 1, sizeof *tables);
        d->spare_lut = NULL;
        if (tables == NULL) {
            return false;
        }
        if (d->lut != NULL) {
            *tables = *d->lut;
        }
        d->lut = tables;
        d->loads_lut = true;
    }
    if (d->lut_index > 512) { /* RK3566 has one more, which nothing reads */
        return d->lut_index++ == 513 || emu_refuse(d->emu, "a LUT entry beyond the table's end");
    }
    d->lut->table[d->lut_table][d->lut_index++] = (int16_t)(uint16_t)value;
    d->lut->loaded[d->lut_table] = true;
    return true;
}

/* A network loads the same few tables again and again: each is kept once. */
static void settle_lut(decoder *d) {
    for (uint32_t i = 0; i < d->n_luts; i++) {
        const emu_lut_tables *known = d->luts[i];
        if (memcmp(known->table, d->lut->table, sizeof known->table) == 0 &&
            memcmp(known->loaded, d->lut->loaded, sizeof known->loaded) == 0) {
            d->spare_lut = d->lut;
            d->lut = d->luts[i];
            return;
        }
    }
    if (d->n_luts < sizeof d->luts / sizeof d->luts[0]) {
        d->luts[d->n_luts++] = d->lut;
    }
}

/* The results here do not depend on them; those of an NPU may. */
static bool keep_setting(decoder *d, uint64_t word) {
    uint32_t i = 0;
    while (i < d->n_settings && (d->settings[i] & 0xffff) != (word & 0xffff)) {
        i++;
    }
    if (i == MOST_SETTINGS) {
        return emu_refuse(d->emu, "more than %u settings of DMA", MOST_SETTINGS);
    }
    d->n_settings += i == d->n_settings;
    d->settings[i] = word;
    return true;
}

static bool write_word(decoder *d, uint64_t word, bool is_address) {
    const uint32_t number = (uint32_t)(word & 0xffff);
    const uint32_t value = (uint32_t)(word >> 16);
    const uint32_t target = (uint32_t)(word >> 48);
    const uint32_t block = block_of(target);
    if (block == 0) {
        return target != SETTINGS || keep_setting(d, word);
    }
    if (block == UINT32_MAX || number >> 12 != block || (number & 0xfff) > 0x3ff) {
        return emu_refuse(d->emu, "an unknown register %04x of target %04x = 0x%08x", number,
                          target, value);
    }
    if ((number & 0xfff) == S_POINTER) {
        d->group[block] = (value & POINTER_RESET) != 0 ? 0 : d->group[block];
        return true;
    }
    if (number == LUT_ACCESS || number == LUT_DATA) {
        return write_lut(d, number, value);
    }
    d->registers[block][d->group[block]][(number & 0x3ff) >> 2] = value;
    d->is_address[block][d->group[block]][(number & 0x3ff) >> 2] = is_address;
    d->is_written[block][(number & 0x3ff) >> 2] = 1;
    return true;
}

static void read_known(decoder *d, emu_family family) {
    for (const emu_known *const *table = emu_known_bits[family]; *table != NULL; table++) {
        for (const emu_known *known = *table; known->first != 0; known++) {
            for (uint32_t number = known->first; number <= known->last; number += 4) {
                d->known[number >> 12][(number & 0x3ff) >> 2] = known->bits;
            }
        }
    }
}

/* Every bit of the enabled blocks is understood, or known to have no effect. */
static bool check_bits(decoder *d, const emu_registers *registers) {
    for (uint32_t block = 0; block < EMU_BLOCKS; block++) {
        for (uint32_t i = 0; registers->block[block] != NULL && i < EMU_BLOCK_REGISTERS; i++) {
            const uint32_t value = registers->block[block][i];
            if ((value & ~d->known[block][i]) != 0) {
                return emu_refuse(d->emu,
                                  "bits 0x%08x of register %04x = 0x%08x are not understood",
                                  value & ~d->known[block][i], block << 12 | i << 2, value);
            }
        }
    }
    return true;
}

/* Blocks by the bits of the enable mask. */
static const uint8_t enabled_block[8] = {EMU_CNA,  0,       EMU_CORE,     EMU_DPU,
                                         EMU_RDMA, EMU_PPU, EMU_PPU_RDMA, 0};

/* Tasks that only wait: the compiler lets them write to a scratch tensor. */
static bool is_fence(const rkr_emu *emu, uint32_t address) {
    static const char *const names[2] = {"fenceConv_", "clear_unpooling_"};
    for (uint32_t i = 0; i < emu->model->n_tensors && address < emu->model->constant_bytes; i++) {
        const emu_tensor *tensor = &emu->model->tensors[i];
        for (size_t k = 0; k < 2; k++) {
            if (tensor->has_memory && address == tensor->address &&
                strncmp(tensor->public.name, names[k], strlen(names[k])) == 0) {
                return true;
            }
        }
    }
    return false;
}

static const emu_map *const maps[] = {
    [EMU_RK3588] = &emu_map_rk3588, [EMU_RV1106] = &emu_map_rv1106,
    [EMU_RK3566] = &emu_map_rk3566, [EMU_RK3562] = &emu_map_rk3562,
    [EMU_RK3576] = &emu_map_rk3562, [EMU_RV1103B] = &emu_map_rv1103b,
};

/* Decode the task of the enabled blocks. */
static bool decode_blocks(rkr_emu *emu, const emu_registers *registers, uint32_t enabled,
                          emu_task *task) {
    const emu_map *map = maps[emu->soc->family];
    task->dpu.atom_bytes = emu->chip->c2_bytes;
    task->dpu.bias_group = emu->soc->packing.bias_group;
    if (enabled == map->pooling_mask) {
        task->kind = EMU_TASK_POOLING;
        return map->pooling(emu, registers, &task->pool);
    }
    if (enabled == EMU_ENABLED_DPU) {
        task->kind = EMU_TASK_DPU;
        task->dpu.from_memory = true;
        return map->dpu(emu, registers, task);
    }
    for (size_t i = 0; i < sizeof map->convolution_masks && map->convolution_masks[i] != 0; i++) {
        if (enabled == map->convolution_masks[i]) {
            task->kind = EMU_TASK_CONVOLUTION;
            return map->convolution(emu, registers, task) && map->dpu(emu, registers, task);
        }
    }
    return emu_refuse(emu, "enable mask 0x%x", enabled);
}

/* How a task that is known to be safe is computed. */
static bool prepare(rkr_emu *emu, emu_task *task) {
    if (task->kind == EMU_TASK_CONVOLUTION) {
        task->conv.file_in_w = task->conv.in_w;
        task->conv.file_in_line = task->conv.in_line;
        task->conv.file_conversion = task->conv.conversion;
        return emu_prepare_convolution(emu, task);
    }
    task->is_fast = task->kind == EMU_TASK_DPU && emu_can_be_fast(emu, task, 128.0);
    return true;
}

static bool decode_task(decoder *d, uint32_t enabled, emu_task *task) {
    emu_registers registers = {{NULL}};
    static const uint32_t none[EMU_BLOCK_REGISTERS];
    if (d->loads_lut) {
        task->kind = EMU_TASK_NOTHING;
        return true;
    }
    for (uint32_t bit = 0; bit < 8; bit++) {
        const uint32_t block = enabled_block[bit];
        if ((enabled >> bit & 1) != 0 && block != 0) {
            registers.block[block] = d->registers[block][d->group[block]];
        }
    }
    if (!check_bits(d, &registers)) {
        return false;
    }
    for (uint32_t block = 0; block < EMU_BLOCKS; block++) {
        registers.block[block] = registers.block[block] == NULL ? none : registers.block[block];
    }
    if (task->dpu.lut.tables == NULL) {
        task->dpu.lut.tables = d->lut; /* removed later if the task has no LUT */
    }
    if (!decode_blocks(d->emu, &registers, enabled, task)) {
        return false;
    }
    if (task->kind != EMU_TASK_POOLING && is_fence(d->emu, task->dpu.out_address)) {
        task->kind = EMU_TASK_NOTHING;
        return true;
    }
    return emu_check_task(d->emu, task) && prepare(d->emu, task);
}

/* Keep the reason of a refusal. model->lacks_memory records failed allocations. */
static void note_reason(rkr_emu *emu, emu_node *node, uint32_t task) {
    char text[sizeof emu->model->error + 32];
    const int length =
        snprintf(text, sizeof text, "task %u: %s", (unsigned)task, emu->model->error);
    const char *copy = emu_copy_text(emu->model, (const uint8_t *)text, (size_t)length);
    node->public.reason = copy == NULL ? "" : copy;
}

static bool is_float(const emu_task *task) {
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        return task->conv.fp16 || task->dpu.is_float;
    case EMU_TASK_POOLING:
        return task->pool.precision == EMU_FLOAT16;
    default:
        return task->dpu.is_float;
    }
}

static void note_product(const decoder *d, const emu_task_entry *entry, emu_node *node) {
    const uint32_t *dpu = d->registers[EMU_DPU][d->group[EMU_DPU]];
    const bool is_rv1103b = d->emu->soc->family == EMU_RV1103B;
    const bool adds_mask = entry->enabled == 0x1d && (dpu[0x070 >> 2] & 1) == 0;
    const uint32_t *rdma = d->registers[EMU_RDMA][d->group[EMU_RDMA]];
    if (node->product.is_known || !d->emu->model->is_mini) {
        return;
    }
    if (is_rv1103b && entry->enabled == 0x19 && (rdma[0x034 >> 2] & 1) == 0) {
        /* The operand is a map, which is added. */
        node->product.is_known = node->product.adds = (dpu[0x04c >> 2] & 0x70100) == 0x20000;
        return;
    }
    if (!(is_rv1103b ? entry->enabled == 0x09 : entry->enabled == 0x0d || adds_mask)) {
        return;
    }
    const uint32_t bn = is_rv1103b ? dpu[0x04c >> 2] : dpu[0x060 >> 2], mul = dpu[0x068 >> 2];
    const uint32_t is_off = bn & 1, skips_mul = bn & (is_rv1103b ? 4 : 0x10);
    const float by = is_rv1103b ? (float)(int32_t)dpu[0x050 >> 2] : (float)(int16_t)(mul >> 16);
    const int shift = (int)(is_rv1103b ? dpu[0x080 >> 2] >> 16 & 0x3f : mul >> 8 & 0x3f);
    node->product = (emu_product){.is_known = true,
                                  .adds = is_off == 0 && (bn & 2) == 0,
                                  .multiplies = is_off == 0 && skips_mul == 0,
                                  .factor = ldexpf(by, -shift)};
}

/* Keep the factors of a recurrent layer's first product with W and last product with R: the first
 * one with R belongs to another unit. */
static void note_factors(const decoder *d, const emu_task_entry *entry, emu_node *node) {
    const uint32_t *cna = d->registers[EMU_CNA][d->group[EMU_CNA]];
    const uint32_t *dpu = d->registers[EMU_DPU][d->group[EMU_DPU]];
    const emu_family family = d->emu->soc->family;
    if (node->public.n_inputs < 3 || strstr(node->public.op, "LSTM") == NULL ||
        (entry->enabled & 0x0d) != 0x0d || family == EMU_RV1103B) {
        return;
    }
    const uint32_t scale = family == EMU_RK3562 || family == EMU_RK3576 ? 0x0b0 : 0x084;
    for (uint32_t k = 0; k < 2; k++) {
        const emu_tensor *matrix = &d->emu->model->tensors[node->public.inputs[1 + k]];
        if (matrix->has_memory && cna[0x110 >> 2] == matrix->address &&
            (k == 1 || node->factors[0].scale == 0)) {
            node->factors[k] = (emu_factor){dpu[scale >> 2] & 0xffff, dpu[(scale + 4) >> 2] & 0x3f};
        }
    }
}

/* For a driver that starts each task by itself. */
static void keep_whole(const decoder *d, const emu_task_entry *entry, const emu_task *task) {
    emu_effective r = {.family = d->emu->soc->family,
                       .is_final = d->emu->model->is_mini,
                       .settings = d->settings,
                       .n_settings = d->n_settings};
    for (uint32_t bit = 0; bit < 8; bit++) {
        const uint32_t block = enabled_block[bit];
        if ((entry->enabled >> bit & 1) != 0 && block != 0) {
            r.values[block] = d->registers[block][d->group[block]];
            r.is_address[block] = d->is_address[block][d->group[block]];
            r.is_written[block] = d->is_written[block];
            r.known[block] = d->known[block];
        }
    }
    (void)emu_keep_whole(d->emu, (uint32_t)(task - d->emu->tasks), entry, &r);
}

static bool is_relocated(const decoder *d, uint32_t number) {
    const uint32_t block = number >> 12;
    return d->is_address[block][d->group[block]][(number & 0x3ff) >> 2] != 0;
}

/* Whether the file relocates a stage's values of channels and, on RK3576, the constants that the
 * register before says to be read from another place. */
static bool has_values(const decoder *d, const emu_stage *stage, uint32_t number) {
    const uint32_t block = number >> 12, parts = (number & 0x3ff) / 4 - 1;
    const bool has_constants = d->emu->soc->family == EMU_RK3576 &&
                               (d->registers[block][d->group[block]][parts] & 0x1e) != 0;
    return (stage->block_parts == 0 || is_relocated(d, number)) &&
           (!has_constants || is_relocated(d, number + 4));
}

/* Whether all addresses that a task uses are the file's to relocate. */
static bool has_addresses(const decoder *d, const emu_task *task) {
    const emu_family family = d->emu->soc->family;
    const bool is_later = family == EMU_RK3562 || family == EMU_RK3576;
    const emu_dpu *dpu = &task->dpu;
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        if (!is_relocated(d, is_later ? 0x1088 : 0x1070) || !is_relocated(d, 0x1110)) {
            return false;
        }
        break;
    case EMU_TASK_DPU:
        break;
    case EMU_TASK_POOLING:
        return is_relocated(d, 0x6070) && is_relocated(d, 0x701c);
    default:
        return true;
    }
    return is_relocated(d, is_later ? 0x4018 : 0x4020) &&
           (!dpu->from_memory || is_relocated(d, 0x5018)) &&
           (dpu->ew.op == EMU_EW_NONE || dpu->ew.source != EMU_MEMORY || is_relocated(d, 0x5038)) &&
           has_values(d, &dpu->bs, 0x5020) && has_values(d, &dpu->bn, 0x502c);
}

/* Whether the file relocates the addresses of a task, and nothing else: only then does an NPU with
 * its memory elsewhere reach the addresses that were checked here. */
static bool check_relocation(const decoder *d, const emu_task_entry *entry, const emu_task *task) {
    for (uint32_t bit = 0; bit < 8; bit++) {
        const uint32_t block = (entry->enabled >> bit & 1) != 0 ? enabled_block[bit] : 0;
        for (uint32_t i = 0; block != 0 && i < EMU_BLOCK_REGISTERS; i++) {
            const uint32_t number = block << 12 | i << 2;
            const bool holds = emu_holds_address(d->emu->soc->family, number);
            const uint32_t value = d->registers[block][d->group[block]][i];
            if (is_relocated(d, number) != holds && (!holds || value != 0)) {
                return emu_refuse(d->emu, "register %04x, which is%s relocated", number,
                                  holds ? " not" : "");
            }
        }
    }
    return has_addresses(d, task) || emu_refuse(d->emu, "an address that is not relocated");
}

static void decode_entry(decoder *d, const emu_task_entry *entry, emu_task *task) {
    rkr_emu *emu = d->emu;
    emu_node *node = &emu->nodes[entry->node];
    bool understood = true;
    d->loads_lut = false;
    emu->model->error[0] = 0;
    for (uint64_t i = 0; i < entry->words; i++) {
        const uint64_t at = entry->first_word + i;
        const bool is_address = emu->model->is_address != NULL && emu->model->is_address[at] != 0;
        understood = write_word(d, emu->model->words[at], is_address) && understood;
    }
    if (d->loads_lut) {
        settle_lut(d);
    }
    note_product(d, entry, node);
    note_factors(d, entry, node);
    task->node = entry->node;
    task->enabled = entry->enabled;
    understood = understood && decode_task(d, entry->enabled, task);
    understood = understood && (emu->model->is_address == NULL || check_relocation(d, entry, task));
    if (emu->whole != NULL) {
        keep_whole(d, entry, task);
    }
    for (uint32_t bit = 0; bit < 8; bit++) {
        if ((entry->enabled >> bit & 1) != 0) {
            d->group[enabled_block[bit]] ^= 1;
        }
    }
    if (understood && node->public.reason[0] == 0 && is_float(task)) {
        node->public.reason = "executed in float16: the order of its sums "
                              "and their rounding are not known";
    }
    if (understood) {
        emu_note_doubts(emu, task);
    } else {
        task->kind = EMU_TASK_UNKNOWN;
        if (node->tasks_understood) {
            note_reason(emu, node, (uint32_t)(task - emu->tasks));
        }
        node->tasks_understood = false;
    }
}

/* Loops over time repeat their commands and change them in between: they are no list of tasks. */
static const char repeats[] = "its tasks are a loop that changes its own commands";

static void note_repeats(const emu_task_entry *entry, emu_node *node, uint8_t *is_used) {
    for (uint64_t i = entry->first_word; i < entry->first_word + entry->words; i++) {
        if (is_used[i]) {
            node->tasks_understood = false;
            node->public.reason = repeats;
        }
        is_used[i] = 1;
    }
}

/* Each core has its own registers. */
static int decode_entries(rkr_emu *emu, decoder *const *cores, uint8_t *is_used) {
    const emu_model *model = emu->model;
    uint32_t last = 0;
    uint64_t left = model->n_words + MOST_REPEATED;
    for (uint32_t i = 0; i < emu->n_tasks; i++) {
        const emu_task_entry *entry = &model->tasks[i];
        if (entry->node >= model->n_nodes || entry->node < last || entry->words > left ||
            entry->words > model->n_words || entry->first_word > model->n_words - entry->words) {
            return emu_fail(emu->model, RKR_EMU_ERR_FILE, "not a readable model: task %u", i);
        }
        emu_node *node = &emu->nodes[entry->node];
        node->first_task = node->n_tasks == 0 ? i : node->first_task;
        node->n_tasks++;
        last = entry->node;
        left -= entry->words;
        note_repeats(entry, node, is_used);
        decode_entry(cores[entry->core], entry, &emu->tasks[i]);
    }
    return RKR_OK;
}

emu_decoder *emu_new_decoder(rkr_emu *emu) {
    decoder *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->emu = emu;
        read_known(d, emu->soc->family);
    }
    return d;
}

void emu_decode_task(emu_decoder *d, const emu_task_entry *entry, emu_task *task) {
    decode_entry(d, entry, task);
}

void emu_scramble(emu_decoder *d, uint32_t seed) {
    for (uint32_t block = 0; block < EMU_BLOCKS; block++) {
        for (uint32_t i = 0; i < 2 * EMU_BLOCK_REGISTERS; i++) {
            seed = seed * 1664525u + 1013904223u;
            const uint32_t known = d->known[block][i % EMU_BLOCK_REGISTERS];
            d->registers[block][i / EMU_BLOCK_REGISTERS][i % EMU_BLOCK_REGISTERS] = seed & known;
        }
        d->group[block] = (uint8_t)(seed >> 31);
    }
    d->lut = d->spare_lut = NULL;
    d->n_luts = 0;
}

static void free_decoders(decoder **cores) {
    for (uint32_t i = 0; i < EMU_MOST_CORES; i++) {
        free(cores[i]);
    }
}

int emu_decode_tasks(rkr_emu *emu) {
    const uint32_t count = emu->model->n_tasks, n_cores = emu->model->cores;
    decoder *cores[EMU_MOST_CORES] = {NULL};
    bool has_memory = true;
    for (uint32_t i = 0; i < n_cores; i++) {
        cores[i] = emu_new_decoder(emu);
        has_memory = has_memory && cores[i] != NULL;
    }
    emu->tasks = emu_allocate(emu->model, count, sizeof *emu->tasks);
    uint8_t *is_used = calloc(emu->model->n_words + 1, 1);
    if (!has_memory || emu->tasks == NULL || is_used == NULL) {
        free(is_used);
        free_decoders(cores);
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for the tasks");
    }
    if (emu->model->outside != NULL) {
        emu->whole = emu_allocate(emu->model, count, sizeof *emu->whole);
    }
    emu->n_tasks = count;
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu->nodes[i].tasks_understood = true;
    }
    const int status = decode_entries(emu, cores, is_used);
    free(is_used);
    free_decoders(cores);
    return status;
}
