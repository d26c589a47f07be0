/* SPDX-License-Identifier: MIT
 *
 * Keeps a copy of a runtime's output for each thread. The runtime's calls of printf() and similar
 * functions come to the functions below, which print as before and note the text. */
#include "rkr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LONGEST 1024 /* of one printf() */

/* Output of this thread since its last call of the runtime began. The oldest text is dropped. */
static _Thread_local struct {
    size_t used;
    char bytes[RKR_LOG_BYTES];
} said;

void rkr_log_begin(void) {
    said.used = 0;
}

static void note(const char *text, size_t length) {
    if (length > sizeof said.bytes) {
        text += length - sizeof said.bytes;
        length = sizeof said.bytes;
    }
    const size_t room = sizeof said.bytes - said.used;
    if (length > room) {
        said.used -= length - room;
        memmove(said.bytes, said.bytes + (length - room), said.used);
    }
    memcpy(said.bytes + said.used, text, length);
    said.used += length;
}

static int is_log(const FILE *stream) {
    return stream == stdout || stream == stderr;
}

__attribute__((format(printf, 2, 0))) static int said_vfprintf(FILE *stream, const char *format,
                                                               va_list arguments) {
    if (is_log(stream)) {
        const int error = errno; /* for %m and for the caller */
        char text[LONGEST];
        va_list copy;
        va_copy(copy, arguments);
        const int length = vsnprintf(text, sizeof text, format, copy);
        va_end(copy);
        if (length > 0) {
            note(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
        }
        errno = error;
    }
    return vfprintf(stream, format, arguments);
}

__attribute__((format(printf, 2, 3))) static int said_fprintf(FILE *stream, const char *format,
                                                              ...) {
    va_list arguments;
    va_start(arguments, format);
    const int result = said_vfprintf(stream, format, arguments);
    va_end(arguments);
    return result;
}

__attribute__((format(printf, 1, 0))) static int said_vprintf(const char *format,
                                                              va_list arguments) {
    return said_vfprintf(stdout, format, arguments);
}

__attribute__((format(printf, 1, 2))) static int said_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int result = said_vfprintf(stdout, format, arguments);
    va_end(arguments);
    return result;
}

static size_t said_fwrite(const void *data, size_t size, size_t count, FILE *stream) {
    if (is_log(stream)) {
        note(data, size * count);
    }
    return fwrite(data, size, count, stream);
}

static int said_fputs(const char *text, FILE *stream) {
    if (is_log(stream)) {
        note(text, strlen(text));
    }
    return fputs(text, stream);
}

static int said_puts(const char *text) {
    note(text, strlen(text));
    note("\n", 1);
    return puts(text);
}

static int said_fputc(int character, FILE *stream) {
    if (is_log(stream)) {
        note(&(char){(char)character}, 1);
    }
    return fputc(character, stream);
}

static int said_putchar(int character) {
    return said_fputc(character, stdout);
}

/* Functions that the vendor's runtimes import, and those that a compiler substitutes for them. */
static const rkr_import PRINTING[] = {
    {"printf", (void (*)(void))said_printf},   {"fprintf", (void (*)(void))said_fprintf},
    {"vprintf", (void (*)(void))said_vprintf}, {"vfprintf", (void (*)(void))said_vfprintf},
    {"puts", (void (*)(void))said_puts},       {"fputs", (void (*)(void))said_fputs},
    {"putchar", (void (*)(void))said_putchar}, {"fputc", (void (*)(void))said_fputc},
    {"putc", (void (*)(void))said_fputc},      {"fwrite", (void (*)(void))said_fwrite},
};

int rkr_log_keep(const void *inside) {
    if (inside == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t count = rkr_replace_imports(inside, PRINTING, sizeof PRINTING / sizeof *PRINTING);
    return count > 0 ? RKR_OK : RKR_ERR_UNAVAILABLE;
}

size_t rkr_log_read(char *text, size_t text_size) {
    const size_t length = text == NULL ? 0 : said.used < text_size ? said.used : text_size;
    if (length > 0) {
        memcpy(text, said.bytes + (said.used - length), length);
    }
    return length;
}
