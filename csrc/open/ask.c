/* SPDX-License-Identifier: MIT
 *
 * A node is run on random values by the NPU and by the emulator. Answers that are close are the
 * NPU's affair, who is right by definition; a node that does not end, or whose answer has nothing
 * to do with the emulator's, is left to the CPU from then on.
 *
 * The answers are kept for each kernel, driver and SoC in the user's cache folder, a line for each
 * set of kinds of task: `good HASH OP` or `bad HASH OP: why`. RKNN_OPEN_ASK=again asks anew, =never
 * takes every kind for good. */
#define _GNU_SOURCE
#include "ask.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define KIND_BYTES 512
#define PATH_BYTES 1024
#define LINE_BYTES 400
#define STEPS 4.0f       /* of a quantized value */
#define PART (1.0f / 64) /* of the largest value, in floating point */
#define MOST_WRONG 0.01f /* of the values of a tensor */

typedef struct {
    uint64_t hash;
    bool is_good;
} answer;

typedef struct {
    open_program *program;
    answer *answers;
    size_t n_answers, room;
    char path[PATH_BYTES]; /* empty: they are not kept */
    uint8_t *before;       /* the tensors' memory */
    size_t bytes;
} asker;

/* ---- what is known ---- */

static const answer *find_answer(const asker *a, uint64_t hash) {
    for (size_t i = a->n_answers; i-- > 0;) { /* the last one counts */
        if (a->answers[i].hash == hash) {
            return &a->answers[i];
        }
    }
    return NULL;
}

static bool add_answer(asker *a, uint64_t hash, bool is_good) {
    if (a->n_answers == a->room) {
        const size_t room = a->room * 2 + 64;
        answer *grown = realloc(a->answers, room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        a->answers = grown;
        a->room = room;
    }
    a->answers[a->n_answers++] = (answer){hash, is_good};
    return true;
}

static void find_path(asker *a) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct utsname kernel;
    char folder[PATH_BYTES / 2];
    if (uname(&kernel) != 0 || ((cache == NULL || cache[0] != '/') && home == NULL)) {
        return;
    }
    const bool is_set = cache != NULL && cache[0] == '/';
    snprintf(folder, sizeof folder, "%s%s", is_set ? cache : home, is_set ? "" : "/.cache");
    (void)mkdir(folder, 0700);
    strncat(folder, "/rknn-runtime", sizeof folder - strlen(folder) - 1);
    (void)mkdir(folder, 0700);
    snprintf(a->path, sizeof a->path, "%s/npu-%s-%s-%s.txt", folder,
             a->program->device->driver->name, a->program->info.soc, kernel.release);
}

static bool read_answers(asker *a) {
    FILE *file = a->path[0] == '\0' ? NULL : fopen(a->path, "re");
    char line[LINE_BYTES], verdict[8];
    unsigned long long hash;
    bool has_room = true;
    while (file != NULL && has_room && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%7s %llx", verdict, &hash) == 2) {
            has_room = add_answer(a, hash, strcmp(verdict, "good") == 0);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return has_room;
}

/* A line is written at once, so that two processes do not mix theirs. */
static void keep_answer(const asker *a, uint64_t hash, const char *op, const char *why) {
    FILE *file = a->path[0] == '\0' ? NULL : fopen(a->path, "ae");
    if (file != NULL) {
        fprintf(file, "%s %016llx %s%s%s\n", why == NULL ? "good" : "bad", (unsigned long long)hash,
                op, why == NULL ? "" : ": ", why == NULL ? "" : why);
        fclose(file);
    }
}

/* ---- a node ---- */

/* Of the kinds of a node's tasks, in their order, each counted once where it repeats. */
static uint64_t hash_kinds(const open_program *program, const open_node *node) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    char kind[KIND_BYTES], last[KIND_BYTES] = "";
    for (uint32_t core = 0; core < program->shares; core++) {
        const open_range *range = &node->of[core];
        for (uint32_t i = range->first; i < range->first + range->count; i++) {
            uint32_t owner;
            if (rkr_emu_get_kind(program->emulator, program->numbers[i], &owner, kind,
                                 sizeof kind) != RKR_OK ||
                strcmp(kind, last) == 0) {
                continue;
            }
            for (const char *c = kind; *c != '\0'; c++) {
                hash = (hash ^ (uint8_t)*c) * 1099511628211u;
            }
            strcpy(last, kind);
        }
        if (core > 0 && range->count > 0) { /* that several cores share it is a kind, too */
            hash = (hash ^ core) * 1099511628211u;
        }
    }
    return hash;
}

/* Values below 2 where they are float16. */
static void fill(uint8_t *bytes, size_t count) {
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(state >> 24) & (i % 2 == 0 ? 0xff : 0xbf);
    }
}

/* The share of values of an output that two answers do not share. */
static float wrong_part(const rkr_emu_tensor *tensor, const float *is, const float *should) {
    float largest = 0;
    size_t wrong = 0;
    for (uint64_t i = 0; i < tensor->n_elems; i++) {
        largest = fabsf(should[i]) > largest ? fabsf(should[i]) : largest;
    }
    const float most = tensor->quantized ? STEPS * tensor->scale : PART * largest + 1e-4f;
    for (uint64_t i = 0; i < tensor->n_elems; i++) {
        wrong += !(fabsf(is[i] - should[i]) <= most) && !(isnan(is[i]) && isnan(should[i]));
    }
    return (float)wrong / (float)tensor->n_elems;
}

/* The values of a node's outputs one behind the other; NULL: no memory, or they cannot be read. */
static float *read_outputs(const open_program *program, const rkr_emu_node *node) {
    uint64_t count = 0;
    rkr_emu_tensor tensor;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        (void)rkr_emu_get_tensor(program->emulator, node->outputs[i], &tensor);
        count += tensor.n_elems;
    }
    float *values = malloc(count * sizeof *values + 1);
    uint64_t at = 0;
    for (uint32_t i = 0; values != NULL && i < node->n_outputs; i++) {
        (void)rkr_emu_get_tensor(program->emulator, node->outputs[i], &tensor);
        if (rkr_emu_read(program->emulator, node->outputs[i], RKR_EMU_READ_FLOAT, values + at,
                         tensor.n_elems * sizeof *values) != RKR_OK) {
            free(values);
            values = NULL;
        }
        at += tensor.n_elems;
    }
    return values;
}

static const char HANGS[] = "it does not end", DIFFERS[] = "the NPU answers otherwise";

/* NULL: the NPU runs the node; else why not. */
static const char *try_node(asker *a, uint32_t index, const rkr_emu_node *node) {
    open_program *program = a->program;
    uint8_t *tensors = program->at + program->info.model_bytes;
    memcpy(tensors, a->before, a->bytes);
    if (!open_program_sync_all(program, true)) {
        return "its memory cannot be synced";
    }
    if (!open_program_run(program, index, index + 1, (open_terms){0})) {
        return errno == ETIMEDOUT ? HANGS : "the driver refuses it";
    }
    if (!open_program_sync_all(program, false)) {
        return "its memory cannot be synced";
    }
    float *is = read_outputs(program, node);
    memcpy(tensors, a->before, a->bytes);
    const bool is_run = rkr_emu_run_node(program->emulator, index) == RKR_OK;
    float *should = is_run ? read_outputs(program, node) : NULL;
    const char *why = is == NULL || should == NULL ? "its answer cannot be compared" : NULL;
    const float *one = is, *other = should;
    for (uint32_t i = 0; is != NULL && should != NULL && i < node->n_outputs; i++) {
        rkr_emu_tensor tensor;
        (void)rkr_emu_get_tensor(program->emulator, node->outputs[i], &tensor);
        why = tensor.n_elems > 0 && wrong_part(&tensor, one, other) > MOST_WRONG ? DIFFERS : why;
        one += tensor.n_elems;
        other += tensor.n_elems;
    }
    free(is);
    free(should);
    return why;
}

static bool ask_node(asker *a, uint32_t index) {
    open_program *program = a->program;
    open_node *placed = &program->nodes[index];
    rkr_emu_node node;
    if (placed->place != RKNN_OPEN_NPU ||
        rkr_emu_get_node(program->emulator, index, &node) != RKR_OK) {
        return true;
    }
    const uint64_t hash = hash_kinds(program, placed);
    const answer *known = find_answer(a, hash);
    bool is_good = known != NULL && known->is_good;
    if (known == NULL) {
        if (a->before == NULL) {
            a->before = malloc(a->bytes + 1);
            if (a->before == NULL) {
                return false;
            }
            fill(a->before, a->bytes);
        }
        const char *why = try_node(a, index, &node);
        if (why == HANGS) { /* or others kept the NPU busy */
            why = try_node(a, index, &node);
        }
        is_good = why == NULL;
        if (is_good || why == HANGS || why == DIFFERS) { /* else another time may tell */
            keep_answer(a, hash, node.op, why);
        }
        if (!add_answer(a, hash, is_good)) {
            return false;
        }
    }
    if (!is_good) {
        program->lacks_shares = program->lacks_shares || placed->of[1].count != 0;
        placed->place = RKNN_OPEN_CPU;
        placed->reason = "this kernel or NPU did not run tasks of its kind when it was asked";
    }
    return true;
}

int open_ask(open_program *program) {
    const char *how = getenv("RKNN_OPEN_ASK");
    if (how != NULL && strcmp(how, "never") == 0) {
        return RKR_OK;
    }
    asker a = {.program = program, .bytes = (size_t)program->info.internal_bytes};
    find_path(&a);
    bool has_room = how != NULL && strcmp(how, "again") == 0 ? true : read_answers(&a);
    for (uint32_t i = 0; has_room && i < program->info.nodes; i++) {
        has_room = ask_node(&a, i);
    }
    if (a.before != NULL) {
        memset(program->at + program->info.model_bytes, 0, a.bytes);
        (void)open_program_sync_all(program, true);
    }
    free(a.before);
    free(a.answers);
    return has_room ? RKR_OK : RKR_ERR_MEMORY;
}
