/* SPDX-License-Identifier: MIT
 *
 * JSON, read by position: only requested values are kept. The first thing that is wrong is
 * in `why`, and then nothing more is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *start, *at, *end;
    const char *why; /* NULL: nothing is wrong so far */
} rkr_json;

rkr_json rkr_json_of(const uint8_t *text, size_t length);
/* The next byte that is no blank; 0 at the end. */
uint8_t rkr_json_mark(rkr_json *json);
/* Begin an object or an array by its bracket; true: it has items. Then tell, behind an item,
 * whether another one follows. */
bool rkr_json_enter(rkr_json *json, char bracket);
bool rkr_json_more(rkr_json *json, char closing);
/* Read a string as UTF-8, or the key of a value and its colon, and return how many bytes it has;
 * `out` gets as many as `size`. */
size_t rkr_json_text(rkr_json *json, char *out, size_t size);
size_t rkr_json_key(rkr_json *json, char *out, size_t size);
/* Read any value, in which at most `depth` brackets are open at a time. */
void rkr_json_skip(rkr_json *json, uint32_t depth);
/* Whether a text is one value and nothing else, in UTF-8; `json` has the error. */
bool rkr_json_is_sound(rkr_json *json, uint32_t depth);
