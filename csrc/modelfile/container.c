/* SPDX-License-Identifier: MIT
 *
 * Header: "RKNN" 0 0 0 0, u64 version word (low byte: container, next: 0x10 mini), u64 bytes of
 * data; 64 bytes in all, 24 in version 1. Standard containers: the data are a flatbuffer with
 * everything. Mini ones: u32 sizes (flatbuffer, task table, number of tasks, commands, internal
 * memory, weights, extra constants) in 64 bytes, then [task table | commands | extra | weights |
 * flatbuffer]. Behind the data: u64 length of a text of JSON, and the text. */
#include "modelfile/modelfile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "modelfile/json.h"

#define HEADER_BYTES 64
#define OLD_HEADER_BYTES 24 /* of version 1 */
#define SECTIONS_BYTES 64
#define MOST_READS 16 /* of the bytes of a file, which are read three times or so */
/* No honest file spends more on its trailer, unless it is small: the biggest part of 857 was an
 * eighth, and each has about a kilobyte. */
#define LEAST_TRAILER ((uint64_t)1 << 20)
#define TRAILER_PART 4
#define TRAILER_DEPTH 500
/* The text in an RKNN1 model may be most of it: few weights are before it. */
#define RKNN1_TEXT ((size_t)1 << 20)

#define CONVERT "convert the network first, on a PC: rknn-runtime convert NETWORK --for SOC"
#define EXPORT "export the network again with rknn-toolkit2"
#define RKNN1                                                  \
    "an RKNN1 model, for RK1808, RK3399Pro, RV1109 or RV1126", \
        EXPORT " (the toolkit of those SoCs was rknn-toolkit, without the 2)"
#define WEB_PAGE "a web page, perhaps of a download that failed", "download it again"

static const struct {
    size_t offset;
    const char *bytes;
    size_t length;
    const char *what, *advice;
} signatures[] = {
    {0, "CYPTRKNN", 8, "an encrypted RKNN model",
     "the vendor's runtime can load it, but nothing can look into it; use the model as it was "
     "before encryption"},
    {0, "RKNNSIM2", 8, "a bundle of the simulated NPU",
     "only the simulated NPU loads it (library=\"sim\"); look into the model that it was made of"},
    {0, "RKCE", 4, "an encrypted RKNN model, of the second kind",
     "it needs a key, which only RKNNLite 2.5.0 and newer takes; use the model as it was before "
     "encryption"},
    {0, "RKNX", 4, "an RKNN3 model, for RK1820, RK1828 or RK3572",
     "it needs the vendor's RKNN3 runtime; " EXPORT " for a SoC of this family"},
    {24, "VPMN", 4, RKNN1},
    {64, "VPMN", 4, RKNN1},
    {32, "{\"network_platform\"", 19, RKNN1},
    {0, "version https://git-lfs", 23, "a Git LFS pointer, not the file itself",
     "run `git lfs pull` in its repository"},
    {4, "TFL3", 4, "a TensorFlow Lite model", CONVERT},
    {0, "PK\x03\x04", 4, "a ZIP archive (PyTorch saves models as such)",
     "unpack the archive, or export the PyTorch model to ONNX and " CONVERT},
    {0, "\x1f\x8b", 2, "a gzip archive", "unpack it"},
    {0,
     "\x7f"
     "ELF",
     4, "a shared library or a program", "pass the path of the .rknn file"},
    {0, "<!DOCTYPE", 9, WEB_PAGE},
    {0, "<html", 5, WEB_PAGE},
};

/* A text of a fixed size, and the status that goes with it. */
typedef struct {
    char *text;
    size_t size;
} complaint;

__attribute__((format(printf, 2, 3))) static int complain(const complaint *to, const char *format,
                                                          ...) {
    va_list arguments;
    va_start(arguments, format);
    if (to->size > 0) {
        (void)vsnprintf(to->text, to->size, format, arguments);
    }
    va_end(arguments);
    return RKR_MODEL_ERR_FILE;
}

/* Whether bytes stand at an offset. */
static bool has(rkr_source *source, size_t offset, const char *bytes, size_t length) {
    return rkr_source_load(source, offset, length) &&
           memcmp(source->bytes + offset, bytes, length) == 0;
}

static bool names_rknn1(rkr_json *json) {
    static const char *const socs[] = {"rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126"};
    bool found = false;
    for (bool more = rkr_json_enter(json, '['); more; more = rkr_json_more(json, ']')) {
        char name[16];
        if (rkr_json_mark(json) != '"') {
            return false;
        }
        const size_t length = rkr_json_text(json, name, sizeof name);
        for (size_t i = 0; i < length && i < sizeof name; i++) {
            name[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : name[i];
        }
        for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
            found = found || (strlen(socs[i]) == length && memcmp(socs[i], name, length) == 0);
        }
    }
    return found && json->why == NULL;
}

/* Tell a file of the form: magic, the size of raw weights at 16, weights, u64, JSON. What follows
 * the JSON is not looked at. */
static bool is_rknn1(rkr_source *source) {
    static const char key[] = "target_platform";
    if (!rkr_source_load(source, 0, OLD_HEADER_BYTES)) {
        return false;
    }
    const uint64_t weights = rkr_number(source->bytes + 16, 8);
    if (weights >= source->size || !has(source, OLD_HEADER_BYTES + (size_t)weights + 8, "{", 1)) {
        return false;
    }
    const size_t start = OLD_HEADER_BYTES + (size_t)weights + 8, left = source->size - start;
    const size_t part = source->size / TRAILER_PART;
    const size_t most = part > RKNN1_TEXT ? part : RKNN1_TEXT, length = left < most ? left : most;
    if (!rkr_source_load(source, start, length)) {
        return false;
    }
    bool found = false;
    rkr_json json = rkr_json_of(source->bytes + start, length);
    for (bool more = rkr_json_enter(&json, '{'); more && json.why == NULL;
         more = rkr_json_more(&json, '}')) {
        char name[sizeof key];
        const size_t bytes = rkr_json_key(&json, name, sizeof name);
        if (bytes == sizeof key - 1 && memcmp(name, key, bytes) == 0 &&
            rkr_json_mark(&json) == '[') {
            found = names_rknn1(&json);
        } else {
            rkr_json_skip(&json, TRAILER_DEPTH);
        }
    }
    return found && json.why == NULL;
}

static int refuse_unknown(rkr_source *source, const complaint *to) {
    char head[8 * 4 + 1] = "";
    size_t length = 0;
    for (size_t i = 0; i < source->size && i < 8; i++) {
        const uint8_t c = source->bytes[i];
        const bool is_plain = c >= ' ' && c < 0x7f && c != '\'' && c != '\\';
        length +=
            (size_t)snprintf(head + length, sizeof head - length, is_plain ? "%c" : "\\x%02x", c);
    }
    return complain(to, "not an RKNN model: it begins with b'%s'", head);
}

static int check_format(rkr_source *source, bool signatures_only, const complaint *to) {
    static const char magic[8] = "RKNN";
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        if (has(source, signatures[i].offset, signatures[i].bytes, signatures[i].length)) {
            return complain(to, "this is %s; %s", signatures[i].what, signatures[i].advice);
        }
    }
    if (signatures_only) {
        return RKR_OK;
    }
    if (has(source, 0, magic, 8)) {
        static const char *const rknn1[] = {RKNN1};
        return is_rknn1(source) ? complain(to, "this is %s; %s", rknn1[0], rknn1[1]) : RKR_OK;
    }
    const size_t short_head = source->size < 8 ? source->size : 0;
    if (short_head > 0 && has(source, 0, magic, short_head)) {
        return complain(to, "truncated: %zu bytes are less than the header", source->size);
    }
    if (rkr_source_load(source, 0, 3) && source->bytes[0] == 8 && source->bytes[1] < 0x20 &&
        memchr("\x12\x1a\x22\x28\x32\x3a\x42", source->bytes[2], 7) != NULL) {
        return complain(to, "this is an ONNX model; " CONVERT);
    }
    return refuse_unknown(source, to);
}

int rkr_check_format(const uint8_t *bytes, size_t size, int file, uint32_t signatures_only,
                     char *error, size_t error_size) {
    rkr_source source;
    const complaint to = {error, error_size};
    int status = rkr_source_open(&source, bytes, size, file);
    if (status != RKR_OK) {
        return status;
    }
    status = check_format(&source, signatures_only != 0, &to);
    const int failed = source.error;
    rkr_source_close(&source);
    errno = failed;
    return failed != 0 ? RKR_MODEL_ERR_READ : status;
}

size_t rkr_model_data(const rkr_model *model) {
    return model->version > 1 ? HEADER_BYTES : OLD_HEADER_BYTES;
}

static int read_sections(rkr_model *model, const complaint *to) {
    const size_t start = model->flat.start, size = model->flat.end - start;
    if (size < SECTIONS_BYTES) {
        return complain(to, "truncated: no section table");
    }
    if (!rkr_source_load(&model->source, start, SECTIONS_BYTES)) {
        return complain(to, "damaged: the section table cannot be read");
    }
    memcpy(&model->sections, model->source.bytes + start, sizeof model->sections);
    const rkr_sections *s = &model->sections;
    const uint64_t sum =
        (uint64_t)SECTIONS_BYTES + s->table + s->commands + s->weights + s->extra + s->flatbuffer;
    if (sum != size) {
        return complain(to, "damaged: the sections do not add up to the data");
    }
    model->flat.start = model->flat.end - s->flatbuffer;
    return RKR_OK;
}

static int read_container(rkr_model *model, const complaint *to) {
    rkr_source *source = &model->source;
    const size_t size = source->size;
    int status = check_format(source, false, to);
    if (status != RKR_OK) {
        return status;
    }
    if (!rkr_source_load(source, 0, OLD_HEADER_BYTES)) {
        return complain(to, "truncated: %zu bytes are less than the header", size);
    }
    const uint64_t word = rkr_number(source->bytes + 8, 8);
    const uint64_t data = rkr_number(source->bytes + 16, 8);
    const uint64_t kind = word >> 8;
    model->version = (uint32_t)(word & 0xff);
    model->is_mini = kind == 0x10;
    if (model->version == 0 || (kind != 0 && kind != 0x10)) {
        return complain(to, "unknown container version %#llx; " EXPORT, (unsigned long long)word);
    }
    const size_t header = rkr_model_data(model);
    if (size < header || data > size - header) {
        const uint64_t end = data > UINT64_MAX - header ? UINT64_MAX : header + data;
        return complain(
            to,
            "truncated: the header says %llu bytes or more, the file has %zu; " RKR_ADVICE_AGAIN,
            (unsigned long long)end, size);
    }
    model->flat = (rkr_flat){.source = source,
                             .bytes = source->bytes,
                             .start = header,
                             .end = header + (size_t)data,
                             .left = MOST_READS * data};
    if (model->is_mini) {
        status = read_sections(model, to);
    } else if (!has(source, header + 4, "RKNN", 4)) {
        return complain(to, "damaged: no RKNN flatbuffer behind the header");
    }
    if (status == RKR_OK) {
        model->root = rkr_flat_root(&model->flat);
        status = rkr_model_status(model);
        if (status != RKR_OK) {
            return complain(to, "%s", model->error);
        }
    }
    return status;
}

int rkr_open_model(const uint8_t *bytes, size_t size, int file, rkr_model **out, char *error,
                   size_t error_size) {
    const complaint to = {error, error_size};
    rkr_model *model = calloc(1, sizeof *model);
    *out = NULL;
    if (model == NULL || rkr_source_open(&model->source, bytes, size, file) != RKR_OK) {
        free(model);
        (void)complain(&to, "no memory for the model");
        return RKR_ERR_MEMORY;
    }
    const int status = read_container(model, &to);
    if (status == RKR_OK) {
        *out = model;
        return RKR_OK;
    }
    const int failed = model->source.error;
    rkr_close_model(model);
    errno = failed;
    return failed != 0 ? RKR_MODEL_ERR_READ : status;
}

void rkr_close_model(rkr_model *model) {
    if (model != NULL) {
        rkr_source_close(&model->source);
        free(model);
    }
}

const char *rkr_model_error(const rkr_model *model) {
    return model->error;
}

int rkr_model_damaged(rkr_model *model, const char *format, ...) {
    static const char damaged[] = "damaged: ";
    va_list arguments;
    va_start(arguments, format);
    memcpy(model->error, damaged, sizeof damaged);
    (void)vsnprintf(model->error + sizeof damaged - 1, sizeof model->error - sizeof damaged + 1,
                    format, arguments);
    va_end(arguments);
    return rkr_model_status(model) == RKR_OK ? RKR_MODEL_ERR_FILE : rkr_model_status(model);
}

int rkr_model_status(rkr_model *model) {
    const rkr_flat *flat = &model->flat;
    if (model->source.error != 0) {
        errno = model->source.error;
        return RKR_MODEL_ERR_READ;
    }
    if (!flat->bad) {
        return RKR_OK;
    }
    const int length = snprintf(model->error, sizeof model->error, "damaged: ");
    (void)snprintf(model->error + length, sizeof model->error - (size_t)length, flat->why,
                   (unsigned long long)flat->wrong[0], (unsigned long long)flat->wrong[1]);
    return RKR_MODEL_ERR_FILE;
}

/* The JSON at the end of a file, which an interrupted copy loses first. librknnrt 1.5.2, 1.6.0
 * and 2.3.2 parse it without checking the length: if it is missing, cut or no JSON, they end the
 * process; otherwise they load the model, whatever it says. librknnmrt ignores it. */
static int check_trailer(rkr_model *model) {
    rkr_source *source = &model->source;
    const size_t size = source->size, start = model->flat.end;
    const size_t left = size - start < 8 ? size - start : 8;
    const complaint to = {model->error, sizeof model->error};
    if (!rkr_source_load(source, start, left)) {
        return complain(&to, "damaged: its end cannot be read");
    }
    const uint64_t length = rkr_number(source->bytes + start, left);
    if (left < 8 || length > size - start - 8) {
        const uint64_t missing = length + 8 - (size - start);
        return complain(&to, "truncated: at least %llu bytes are missing; " RKR_ADVICE_AGAIN,
                        (unsigned long long)missing);
    }
    if (length > LEAST_TRAILER && length > size / TRAILER_PART) {
        return complain(&to, "damaged: a trailer of %llu bytes; " RKR_ADVICE_AGAIN,
                        (unsigned long long)length);
    }
    if (!rkr_source_load(source, start + 8, (size_t)length)) {
        return complain(&to, "damaged: its end cannot be read");
    }
    rkr_json json = rkr_json_of(source->bytes + start + 8, (size_t)length);
    if (!rkr_json_is_sound(&json, TRAILER_DEPTH)) {
        return complain(&to,
                        "damaged: the JSON at its end is none: %s at byte %zu; " RKR_ADVICE_AGAIN,
                        json.why, (size_t)(json.at - source->bytes));
    }
    return RKR_OK;
}

int rkr_model_check_trailer(rkr_model *model) {
    const int status = check_trailer(model);
    if (status == RKR_OK) {
        return RKR_OK;
    }
    errno = model->source.error;
    return model->source.error != 0 ? RKR_MODEL_ERR_READ : status;
}
