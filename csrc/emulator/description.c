/* SPDX-License-Identifier: MIT
 *
 * What a file says of the model besides its graph: Model slots 8 or 11 custom string, and of
 * standard containers 12 and 13 the types that are told to callers (texts of JSON), 14 batch
 * (text), 19 {0 bytes of weights, 1 of scratch memory}. Mini containers have these sizes in
 * their header, and no others. */
#include "emulator/loader.h"

#include <string.h>

#define SLOT_MINI_CUSTOM_STRING 8
#define SLOT_CUSTOM_STRING 11
#define SLOT_INPUT_TYPES 12
#define SLOT_OUTPUT_TYPES 13
#define SLOT_BATCH 14
#define SLOT_MEMORY 19
#define MAX_TYPES_BYTES (1u << 19)
#define MAX_NAME_BYTES 256u

/* ---- types, as text -------------------------------------------------------- */

/* {"name": {"dtype": "int8", ...}, ...}: read by position, and nothing is kept. */
typedef struct {
    const uint8_t *at, *end;
    bool bad;
} scanner;

static uint8_t next_mark(scanner *s) {
    while (s->at < s->end && (*s->at == ' ' || (*s->at >= '\t' && *s->at <= '\r'))) {
        s->at++;
    }
    return s->at < s->end ? *s->at : 0;
}

static bool take(scanner *s, uint8_t mark) {
    const bool is_there = next_mark(s) == mark;
    s->at += is_there;
    return is_there;
}

static uint32_t hex_digits(scanner *s, uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t c = s->at < s->end ? *s->at++ : 0;
        const uint32_t digit = c >= '0' && c <= '9'   ? c - '0'
                               : c >= 'a' && c <= 'f' ? c - 'a' + 10
                               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                      : 16;
        s->bad = s->bad || digit == 16;
        value = value << 4 | (digit & 15);
    }
    return value;
}

static size_t put_utf8(uint32_t code, char *out) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const uint32_t tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out[0] = (char)(0xff00u >> (tail + 1) | code >> 6 * tail);
    for (uint32_t i = 1; i <= tail; i++) {
        out[i] = (char)(0x80 | (code >> 6 * (tail - i) & 0x3f));
    }
    return tail + 1;
}

/* The character behind a backslash. */
static uint32_t take_escape(scanner *s) {
    static const char names[] = "abfnrtv", codes[] = "\a\b\f\n\r\t\v";
    const uint8_t c = s->at < s->end ? *s->at++ : 0;
    const char *named = c == 0 ? NULL : strchr(names, c);
    if (named != NULL) {
        return (uint8_t)codes[named - names];
    }
    if (c != 'u' && c != 'x') {
        s->bad = s->bad || c == 0;
        return c;
    }
    const uint32_t code = hex_digits(s, c == 'u' ? 4 : 2);
    if (code >> 10 != 0x36 || s->end - s->at < 6 || s->at[0] != '\\' || s->at[1] != 'u') {
        return code;
    }
    s->at += 2; /* the second half of a pair */
    return 0x10000 + ((code & 0x3ff) << 10) + (hex_digits(s, 4) & 0x3ff);
}

/* A text in quotes; one that does not fit becomes "". */
static void take_text(scanner *s, char *out, size_t size) {
    size_t length = 0;
    const uint8_t quote = next_mark(s);
    s->bad = s->bad || (quote != '"' && quote != '\'');
    s->at += !s->bad;
    while (!s->bad && s->at < s->end && *s->at != quote) {
        const uint8_t c = *s->at++;
        char bytes[4] = {(char)c, 0, 0, 0};
        const size_t count = c == '\\' ? put_utf8(take_escape(s), bytes) : 1;
        if (length + count < size) {
            memcpy(out + length, bytes, count);
        }
        length += count;
    }
    s->bad = s->bad || !take(s, quote);
    out[length < size ? length : 0] = 0;
}

/* A value that is not needed: up to the comma or bracket behind it. */
static void skip_value(scanner *s) {
    char text[1];
    uint32_t depth = 0;
    for (uint8_t mark = next_mark(s); !s->bad; mark = next_mark(s)) {
        if (mark == '"' || mark == '\'') {
            take_text(s, text, sizeof text);
            continue;
        }
        const bool closes = mark == ']' || mark == '}' || mark == ')';
        if (mark == 0 || (depth == 0 && (closes || mark == ','))) {
            s->bad = mark == 0;
            return;
        }
        depth += mark == '[' || mark == '{' || mark == '(' ? 1u : 0u;
        depth -= closes ? 1u : 0u;
        s->at++;
    }
}

static uint32_t type_of(const char *name) {
    static const char *const names[] = {"",      "float32", "uint8", "int8", "uint16", "int16",
                                        "int32", "int64",   "",      "bool", "float16"};
    for (uint32_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0 && name[0] != 0) {
            return i;
        }
    }
    return 0;
}

/* The entry of one tensor; returns its type. */
static uint32_t take_entry(scanner *s) {
    char key[16], value[16];
    uint32_t type = 0;
    if (next_mark(s) != '{') {
        skip_value(s);
        return 0;
    }
    for (bool more = take(s, '{') && next_mark(s) != '}'; more && !s->bad; more = take(s, ',')) {
        take_text(s, key, sizeof key);
        s->bad = s->bad || !take(s, ':');
        if (strcmp(key, "dtype") == 0 && (next_mark(s) == '"' || next_mark(s) == '\'')) {
            take_text(s, value, sizeof value);
            type = type_of(value);
        } else {
            skip_value(s);
        }
    }
    s->bad = s->bad || !take(s, '}');
    return type;
}

static void tell_type(emu_model *model, const char *name, uint32_t type, bool is_output) {
    const uint32_t count = is_output ? model->n_outputs : model->n_inputs;
    const uint32_t *indices = is_output ? model->outputs : model->inputs;
    for (uint32_t i = 0; i < count; i++) {
        rkr_emu_tensor *tensor = &model->tensors[indices[i]].public;
        if (strcmp(tensor->name, name) == 0) {
            tensor->told_type = type;
        }
    }
}

static int read_types(loader *l, bool is_output) {
    const uint32_t slot = is_output ? SLOT_OUTPUT_TYPES : SLOT_INPUT_TYPES;
    const emu_vector text = emu_flat_vector(&l->flat, l->root, slot, 1);
    const uint8_t *bytes = l->flat.bytes + text.position;
    scanner s = {bytes, bytes + text.length, text.length > MAX_TYPES_BYTES};
    if (text.length == 0) {
        return RKR_OK;
    }
    s.bad = s.bad || !take(&s, '{');
    for (bool more = next_mark(&s) != '}'; more && !s.bad; more = take(&s, ',')) {
        char name[MAX_NAME_BYTES];
        take_text(&s, name, sizeof name);
        s.bad = s.bad || !take(&s, ':');
        const uint32_t type = take_entry(&s);
        if (!s.bad) {
            tell_type(l->model, name, type, is_output);
        }
    }
    s.bad = s.bad || !take(&s, '}') || next_mark(&s) != 0;
    return s.bad ? emu_bad_file(l, "the types of its inputs or outputs") : RKR_OK;
}

/* ---- the rest --------------------------------------------------------------- */

static int read_batch(loader *l, uint32_t *batch) {
    const emu_vector text = emu_flat_vector(&l->flat, l->root, SLOT_BATCH, 1);
    *batch = 0;
    for (uint32_t i = 0; i < text.length; i++) {
        const uint8_t c = l->flat.bytes[text.position + i];
        if (c < '0' || c > '9' || text.length > 9) {
            return emu_bad_file(l, "its batch size");
        }
        *batch = *batch * 10 + (c - '0');
    }
    *batch = *batch == 0 ? 1 : *batch;
    return RKR_OK;
}

static int read_custom_string(loader *l, rkr_emu_file *file) {
    const uint32_t slot = l->mini ? SLOT_MINI_CUSTOM_STRING : SLOT_CUSTOM_STRING;
    const emu_vector text = emu_flat_vector(&l->flat, l->root, slot, 1);
    if (text.length >= sizeof file->custom_string) {
        return emu_bad_file(l, "its custom string");
    }
    memcpy(file->custom_string, l->flat.bytes + text.position, text.length);
    return RKR_OK;
}

int emu_read_description(loader *l) {
    rkr_emu_file *file = &l->model->file;
    file->is_mini = l->mini;
    file->container = l->version;
    int status = read_custom_string(l, file);
    if (l->mini) {
        file->batch = 1;
        file->weight_bytes = l->weights;
        file->scratch_bytes = l->internal;
        file->command_bytes = l->regcmd + l->extra;
    } else if (status == RKR_OK) {
        const emu_table memory = emu_flat_child(&l->flat, l->root, SLOT_MEMORY);
        file->weight_bytes = emu_flat_scalar(&l->flat, memory, 0, 8);
        file->scratch_bytes = emu_flat_scalar(&l->flat, memory, 1, 8);
        status = read_batch(l, &file->batch);
        status = status == RKR_OK ? read_types(l, false) : status;
        status = status == RKR_OK ? read_types(l, true) : status;
    }
    return l->flat.bad ? emu_bad_file(l, "what it says of itself") : status;
}
