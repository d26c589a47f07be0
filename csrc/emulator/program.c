/* SPDX-License-Identifier: MIT
 *
 * Commands as an NPU takes them. Addresses in the machine's memory become device addresses:
 *     word := word + base
 * Those of mini containers are final: the driver is told the base.
 *
 * A task of a file relies on what tasks before it left in the registers. Written out in full it
 * relies on nothing: the group of registers is chosen again, and each register that files write is
 * written, in the order in which the compiler does it: some of CNA first, then by block and
 * number.
 *
 * A binding changes the commands of convolutions that read an image (inputs.c): those words are
 * changed here as librknnrt does it. */
#include "emulator/program.h"

#include "emulator/numbers.h"

#include <string.h>

#define S_POINTER 0x004u
#define POINTER_TOGGLES 0xeu /* both groups in turn, by the executer, too */
#define LUT_ACCESS 0x4100u
#define LUT_DATA 0x4104u
#define LAST_CONTROL 0x008u /* status, pointer and enable stand up to here */

static const uint16_t targets[EMU_BLOCKS] = {
    [EMU_CNA] = 0x0201,  [EMU_CORE] = 0x0801, [EMU_DPU] = 0x1001,
    [EMU_RDMA] = 0x2001, [EMU_PPU] = 0x4001,  [EMU_PPU_RDMA] = 0x8001,
};
/* Of CNA, before all others; 100c comes once more in its place. */
static const uint16_t first_of_cna[] = {0x1040, 0x1104, 0x1100, 0x100c};
#define N_FIRST (sizeof first_of_cna / sizeof first_of_cna[0])
/* Most words of a task without its LUT. */
#define MOST_WORDS (EMU_BLOCKS * EMU_BLOCK_REGISTERS)

static uint64_t word_of(uint32_t block, uint32_t number, uint32_t value) {
    return (uint64_t)targets[block] << 48 | (uint64_t)value << 16 | number;
}

typedef struct {
    uint64_t *words;
    uint8_t *is_address;
    uint32_t n;
} writer;

bool emu_holds_address(emu_family family, uint32_t number) {
    switch (number) {
    case 0x5018:
    case 0x5020:
    case 0x502c:
    case 0x5038:
    case 0x6070:
    case 0x701c:
        return true;
    case 0x1070:
    case 0x4020:
        return family != EMU_RK3562 && family != EMU_RK3576 && family != EMU_RV1103B;
    case 0x1110:
        return family != EMU_RV1103B;
    case 0x1088:
    case 0x4018:
        return family == EMU_RK3562 || family == EMU_RK3576;
    case 0x5024:
    case 0x5030:
        return family == EMU_RK3576;
    case 0x1034:
    case 0x1038:
    case 0x4010:
        return family == EMU_RV1103B;
    default: /* compressed weights in parts */
        return family == EMU_RK3566 && number >= 0x1114 && number <= 0x112c;
    }
}

static void add(writer *w, const emu_effective *r, uint32_t number) {
    const uint32_t block = number >> 12, i = (number & 0x3ff) >> 2;
    w->words[w->n] = word_of(block, number, r->values[block][i]);
    w->is_address[w->n++] =
        r->is_final ? emu_holds_address(r->family, number) : r->is_address[block][i];
}

static void add_registers(writer *w, const emu_effective *r, bool is_shared) {
    for (size_t i = 0; i < N_FIRST && r->values[EMU_CNA] != NULL && !is_shared; i++) {
        add(w, r, first_of_cna[i]);
    }
    for (uint32_t block = EMU_DPU; block < EMU_BLOCKS; block++) { /* of the others: the kernel */
        if (r->values[block] != NULL) {
            w->words[w->n++] = word_of(block, block << 12 | S_POINTER, POINTER_TOGGLES);
        }
    }
    for (uint32_t block = 1; block < EMU_BLOCKS; block++) {
        for (uint32_t i = 0; r->values[block] != NULL && i < EMU_BLOCK_REGISTERS; i++) {
            const uint32_t number = block << 12 | i << 2;
            const bool is_control = i << 2 <= LAST_CONTROL;
            const bool is_lut = number == LUT_ACCESS || number == LUT_DATA;
            if (!is_control && !is_lut &&
                (r->known[block][i] != 0 || r->is_written[block][i] != 0)) {
                add(w, r, number);
            }
        }
    }
}

bool emu_keep_whole(rkr_emu *emu, uint32_t task, const emu_task_entry *entry,
                    const emu_effective *registers) {
    const uint64_t *words = emu->model->words + entry->first_word;
    const size_t room = MOST_WORDS + entry->words + registers->n_settings;
    writer w = {emu_allocate(emu->model, room, sizeof *w.words), NULL, 0};
    w.is_address = emu_allocate(emu->model, room, 1);
    if (w.words == NULL || w.is_address == NULL) {
        return false;
    }
    /* Where cores share a node, the compiler does not begin with those of CNA. */
    const bool begins = entry->words != 0 && (words[0] & 0xffff) == first_of_cna[0];
    add_registers(&w, registers, emu->model->cores > 1 && !begins);
    for (uint32_t i = 0; i < entry->words; i++) {
        const uint32_t number = (uint32_t)(words[i] & 0xffff);
        if (words[i] >> 48 == targets[EMU_DPU] && (number == LUT_ACCESS || number == LUT_DATA)) {
            w.words[w.n++] = words[i];
        }
    }
    for (uint32_t i = 0; i < registers->n_settings; i++) {
        w.words[w.n++] = registers->settings[i];
    }
    emu->whole[task] = (emu_whole){w.n, w.words, w.is_address};
    return true;
}

/* ---- what a binding changes ---- */

/* Whether a convolution reads an image in a way that changes its commands: of a SoC whose file
 * leaves the conversion of pixels to the runtime, or values that the file would convert again. */
static bool is_bound(const rkr_emu *emu, const emu_task *task) {
    return task->kind == EMU_TASK_CONVOLUTION && task->conv.is_bound &&
           (!emu->soc->converts_in_file || (emu->model->is_mini && task->conv.reads_quantized));
}

/* RV1106's words that convert nothing, as librknnmrt 2.3.2 writes them. */
static uint32_t unconverted_value(uint32_t number, uint32_t value) {
    switch (number) {
    case 0x101c:
    case 0x1058:
    case 0x105c:
    case 0x106c:
    case 0x108c:
        return 0;
    case 0x104c:
        return 0x9;
    case 0x1050:
    case 0x1054:
        return 0x10001;
    default:
        return value;
    }
}

#define BYPASS 0xbu              /* 104c, as files have it */
#define BYPASS_OF_QUANTIZED 0x9u /* as librknnrt writes it for values that are quantized */

#define BYPASS_OF_WIDE 0x1u /* and of float16 and int16 */

static uint32_t shifts_of(const emu_convolution *conv) {
    uint32_t shifts = 0;
    for (uint32_t c = 0; c < (conv->in_c == 1 ? 4 : conv->in_c); c++) {
        shifts |= (uint32_t)conv->conversion.shift[conv->in_c == 1 ? 0 : c] << (4 + 6 * c);
    }
    return shifts;
}

static uint32_t bound_value(const emu_task *task, uint32_t number, uint32_t value) {
    const emu_convolution *conv = &task->conv;
    const emu_conversion *conversion = &conv->conversion;
    const uint32_t pixel = conv->in_c * (conv->wide ? 2 : 1);
    const uint32_t row = conv->in_line / pixel, file_row = conv->file_in_line / pixel;
    const uint32_t channels = conv->in_c == 1 ? 4 : conv->in_c; /* one stands for all four */
    switch (number) {
    case 0x1020:
        return (value & 0xffff) | conv->in_w << 16;
    case 0x107c:
        return value + row - file_row;
    case 0x1080:
        return (value + file_row) / file_row * row - row; /* a plane, but for one row */
    case 0x104c:
        return conversion->on          ? shifts_of(conv)
               : conv->wide            ? BYPASS_OF_WIDE
               : conv->reads_quantized ? BYPASS_OF_QUANTIZED
                                       : BYPASS;
    case 0x1050:
    case 0x1054:
    case 0x1058:
    case 0x105c: {
        const uint32_t c = (number - 0x1050) / 4, from = conv->in_c == 1 ? 0 : c;
        return conversion->on && c < channels
                   ? (uint32_t)conversion->scale[from] << 16 | (uint16_t)conversion->offset[from]
                   : value;
    }
    case 0x1180:
        return conversion->on || conv->wide || conv->reads_quantized ? (1u << (4 * channels)) - 1
                                                                     : value;
    default:
        return value;
    }
}

/* ---- the public functions ---- */

static bool loads_lut(const rkr_emu *emu, const emu_task_entry *entry) {
    const uint64_t data = (uint64_t)targets[EMU_DPU] << 48 | LUT_DATA;
    uint32_t entries = 0; /* a task that loads none writes a single 0 */
    for (uint32_t i = 0; i < entry->words; i++) {
        const uint64_t word = emu->model->words[entry->first_word + i];
        entries += (word & ~((uint64_t)UINT32_MAX << 16)) == data;
    }
    return entries > 1;
}

/* Bits above the amount in the word behind a task that says how long the next one is: 0x10000
 * where that pools what this one computes. */
static uint32_t next_flags(const emu_model *model, const emu_task_entry *entry) {
    const uint64_t at = entry->first_word + entry->words + 1;
    const bool is_amount = at < model->n_words && (model->words[at] & 0xffff) == 0x14 &&
                           model->words[at] >> 48 == 0x0101;
    return is_amount ? (uint32_t)(model->words[at] >> 16) & 0xffff0000u : 0;
}

int rkr_emu_get_task(const rkr_emu *emu, uint32_t task, rkr_emu_task *out) {
    if (emu == NULL || out == NULL || task >= emu->n_tasks || emu->model->tasks == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const emu_task_entry *entry = &emu->model->tasks[task];
    const emu_task *decoded = &emu->tasks[task];
    *out = (rkr_emu_task){
        .node = entry->node,
        .enabled = entry->enabled,
        .interrupts = entry->interrupts,
        .cleared = entry->cleared,
        .next_flags = next_flags(emu->model, entry),
        .loads_lut = loads_lut(emu, entry),
        .uses_lut = decoded->kind != EMU_TASK_POOLING && decoded->kind != EMU_TASK_UNKNOWN &&
                    decoded->dpu.lut.tables != NULL,
        .pools = decoded->kind == EMU_TASK_POOLING,
        .is_understood = decoded->kind != EMU_TASK_UNKNOWN,
        .core = entry->core,
        .number = entry->number,
    };
    return RKR_OK;
}

/* The commands of a task, and which of them are addresses; NULL: nobody says. */
static emu_whole commands_of(const rkr_emu *emu, uint32_t task, int is_whole) {
    const emu_model *model = emu->model;
    const emu_task_entry *entry = &model->tasks[task];
    if (is_whole) {
        return emu->whole[task];
    }
    return (emu_whole){entry->words, model->words + entry->first_word,
                       model->is_address == NULL ? NULL : model->is_address + entry->first_word};
}

int rkr_emu_get_commands(const rkr_emu *emu, uint32_t task, int is_whole, const uint32_t base[2],
                         uint64_t *words, size_t *count) {
    if (emu == NULL || count == NULL || (words != NULL && base == NULL) || task >= emu->n_tasks ||
        emu->model->words == NULL || (is_whole && emu->whole == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    if (emu->model->is_address == NULL && !emu->model->is_mini) {
        return RKR_EMU_ERR_UNKNOWN; /* an old container: nobody says which words are addresses */
    }
    const emu_task *decoded = &emu->tasks[task];
    const emu_whole commands = commands_of(emu, task, is_whole);
    const uint64_t *from = commands.words;
    const uint8_t *is_address = commands.is_address;
    const size_t n = commands.n_words;
    const size_t room = *count;
    *count = n;
    if (words != NULL && is_bound(emu, decoded) && emu->soc->family == EMU_RV1103B) {
        return RKR_EMU_ERR_UNKNOWN; /* nobody has seen those words */
    }
    for (size_t i = 0; i < n && n <= room; i++) {
        const uint32_t number = (uint32_t)(from[i] & 0xffff);
        uint32_t value = (uint32_t)(from[i] >> 16);
        if (is_address != NULL && is_address[i]) {
            value += base[value >= emu->model->constant_bytes];
        } else if (is_bound(emu, decoded)) {
            value = emu->model->is_mini ? unconverted_value(number, value)
                                        : bound_value(decoded, number, value);
        }
        words[i] = (from[i] & ~((uint64_t)UINT32_MAX << 16)) | (uint64_t)value << 16;
    }
    return n <= room ? RKR_OK : RKR_ERR_OVERFLOW;
}

static bool has_input(const rkr_emu_node *node, uint32_t tensor) {
    bool found = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        found = found || node->inputs[i] == tensor;
    }
    return found;
}

/* Whether a task reads there, whichever task has set the registers. */
static bool reads_from(const emu_task *task, const emu_tensor *tensor) {
    const emu_dpu *dpu = &task->dpu;
    const bool is_conv = task->kind == EMU_TASK_CONVOLUTION;
    if (task->kind == EMU_TASK_POOLING) {
        return task->pool.in_address - tensor->address < tensor->bytes;
    }
    return (is_conv && task->conv.in_address - tensor->address < tensor->bytes) ||
           (dpu->from_memory && dpu->in_address - tensor->address < tensor->bytes) ||
           (dpu->ew.source == EMU_MEMORY && dpu->ew.address - tensor->address < tensor->bytes);
}

int rkr_emu_find_image(const rkr_emu *emu, uint32_t task, int is_whole, uint32_t input,
                       uint32_t *word, uint32_t *offset) {
    if (emu == NULL || word == NULL || offset == NULL || task >= emu->n_tasks ||
        emu->model->words == NULL || input >= emu->model->n_inputs ||
        (is_whole && emu->whole == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    const emu_task *decoded = &emu->tasks[task];
    const emu_convolution *conv = &decoded->conv;
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[input]];
    const emu_whole commands = commands_of(emu, task, is_whole);
    uint32_t found = 0;
    for (size_t i = 0; commands.is_address != NULL && i < commands.n_words; i++) {
        const uint32_t value = (uint32_t)(commands.words[i] >> 16);
        if (commands.is_address[i] && value - tensor->address < tensor->bytes) {
            *word = (uint32_t)i;
            *offset = value - tensor->address;
            found++;
        }
    }
    const bool is_own =
        has_input(&emu->nodes[emu->model->tasks[task].node].public, emu->model->inputs[input]);
    if (commands.is_address != NULL && (found == 0 || !is_own)) {
        return found == 0 && reads_from(decoded, tensor) ? RKR_EMU_ERR_UNKNOWN
                                                         : RKR_ERR_UNAVAILABLE;
    }
    const rkr_emu_tensor *t = &tensor->public;
    const bool is_image = emu->forms[input] == RKR_EMU_AS_PIXELS + 1 && t->elem_bytes == 1 &&
                          decoded->kind == EMU_TASK_CONVOLUTION && conv->pixels &&
                          conv->in_line == t->dims[3] * conv->in_c;
    return found == 1 && is_image && conv->in_address == tensor->address + *offset &&
                   *offset + (uint64_t)(conv->in_h - 1) * conv->in_line +
                           (uint64_t)conv->in_w * conv->in_c <=
                       t->n_elems
               ? RKR_OK
               : RKR_EMU_ERR_UNKNOWN;
}
