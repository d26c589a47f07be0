/* SPDX-License-Identifier: MIT
 *
 * JSON as in RFC 8259, without NaN and Infinity, which librknnrt refuses, too. */
#include "modelfile/json.h"

#include <string.h>

rkr_json rkr_json_of(const uint8_t *text, size_t length) {
    return (rkr_json){text, text, text + length, NULL};
}

static bool fail(rkr_json *json, const char *why) {
    json->why = json->why == NULL ? why : json->why;
    return false;
}

uint8_t rkr_json_mark(rkr_json *json) {
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r')) {
        json->at++;
    }
    return json->at < json->end ? *json->at : 0;
}

static bool take(rkr_json *json, char mark, const char *why) {
    if (json->why != NULL || rkr_json_mark(json) != (uint8_t)mark) {
        return fail(json, why);
    }
    json->at++;
    return true;
}

static char closing_of(char bracket) {
    return bracket == '{' ? '}' : ']';
}

bool rkr_json_enter(rkr_json *json, char bracket) {
    if (!take(json, bracket, bracket == '{' ? "no object" : "no array")) {
        return false;
    }
    const bool is_empty = rkr_json_mark(json) == (uint8_t)closing_of(bracket);
    json->at += is_empty;
    return !is_empty;
}

bool rkr_json_more(rkr_json *json, char closing) {
    if (json->why == NULL && rkr_json_mark(json) == ',') {
        json->at++;
        return true;
    }
    (void)take(json, closing, "neither a comma nor an end");
    return false;
}

static uint32_t hex_digits(rkr_json *json) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint8_t c = json->at < json->end ? *json->at : 0;
        const uint32_t digit = c >= '0' && c <= '9'   ? c - '0'
                               : c >= 'a' && c <= 'f' ? c - 'a' + 10
                               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                      : 16;
        if (digit == 16) {
            (void)fail(json, "an invalid escape");
            return 0;
        }
        json->at++;
        value = value << 4 | digit;
    }
    return value;
}

/* The character behind a backslash. */
static uint32_t take_escape(rkr_json *json) {
    static const char names[] = "bfnrt\"\\/", codes[] = "\b\f\n\r\t\"\\/";
    const uint8_t c = json->at < json->end ? *json->at++ : 0;
    const char *named = c == 0 ? NULL : strchr(names, c);
    if (named != NULL) {
        return (uint8_t)codes[named - names];
    }
    if (c != 'u') {
        (void)fail(json, "an invalid escape");
        return 0;
    }
    const uint32_t code = hex_digits(json);
    if (code >> 10 != 0x36 || json->end - json->at < 6 || json->at[0] != '\\' ||
        json->at[1] != 'u') {
        return code;
    }
    json->at += 2; /* the second half of a pair */
    const uint32_t low = hex_digits(json);
    if (low >> 10 != 0x37) {
        json->at -= 6;
        return code;
    }
    return 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
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

size_t rkr_json_text(rkr_json *json, char *out, size_t size) {
    size_t length = 0;
    if (!take(json, '"', "no string")) {
        return 0;
    }
    while (json->why == NULL && json->at < json->end && *json->at != '"') {
        const uint8_t c = *json->at++;
        char bytes[4] = {(char)c, 0, 0, 0};
        if (c < 0x20) {
            (void)fail(json, "a control character in a string");
            return 0;
        }
        const size_t count = c == '\\' ? put_utf8(take_escape(json), bytes) : 1;
        if (length + count <= size) {
            memcpy(out + length, bytes, count);
        }
        length += count;
    }
    if (json->why == NULL && json->at < json->end) {
        json->at++;
        return length;
    }
    (void)fail(json, "a string without end");
    return 0;
}

size_t rkr_json_key(rkr_json *json, char *out, size_t size) {
    const size_t length = rkr_json_text(json, out, size);
    (void)take(json, ':', "no colon");
    return length;
}

static bool skip_digits(rkr_json *json) {
    const uint8_t *first = json->at;
    while (json->at < json->end && *json->at >= '0' && *json->at <= '9') {
        json->at++;
    }
    return json->at > first;
}

static bool skip_one(rkr_json *json, const char *marks) {
    const bool is_there = json->at < json->end && *json->at != 0 && strchr(marks, *json->at);
    json->at += is_there;
    return is_there;
}

static bool skip_number(rkr_json *json) {
    (void)skip_one(json, "-");
    if (!skip_one(json, "0") && !skip_digits(json)) {
        return false;
    }
    if (skip_one(json, ".") && !skip_digits(json)) {
        return false;
    }
    if (!skip_one(json, "eE")) {
        return true;
    }
    (void)skip_one(json, "+-");
    return skip_digits(json);
}

static bool skip_word(rkr_json *json) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(json->end - json->at) >= length && memcmp(json->at, words[i], length) == 0) {
            json->at += length;
            return true;
        }
    }
    return false;
}

void rkr_json_skip(rkr_json *json, uint32_t depth) {
    const uint8_t mark = rkr_json_mark(json);
    const char bracket = (char)mark;
    if (json->why != NULL) {
        return;
    }
    if (mark == '"') {
        (void)rkr_json_text(json, NULL, 0);
    } else if ((mark == '{' || mark == '[') && depth == 0) {
        (void)fail(json, "too many brackets within each other");
    } else if (mark == '{' || mark == '[') {
        for (bool more = rkr_json_enter(json, bracket); more && json->why == NULL;
             more = rkr_json_more(json, closing_of(bracket))) {
            if (mark == '{') {
                (void)rkr_json_key(json, NULL, 0);
            }
            rkr_json_skip(json, depth - 1);
        }
    } else if (!skip_word(json) && !skip_number(json)) {
        (void)fail(json, "no value");
    }
}

/* Skip one character that UTF-8 spells; false: none, or a byte too many. */
static bool skip_character(const uint8_t **at, const uint8_t *end) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t c = *(*at)++;
    const uint32_t tail = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : 4;
    if (tail == 4 || (size_t)(end - *at) < tail) {
        return false;
    }
    uint32_t code = tail == 0 ? c : c & (0x3fu >> tail);
    for (uint32_t i = 0; i < tail; i++, (*at)++) {
        if (**at >> 6 != 2) {
            return false;
        }
        code = code << 6 | (**at & 0x3f);
    }
    return code >= least[tail] && code < 0x110000 && code >> 11 != 0x1b;
}

bool rkr_json_is_sound(rkr_json *json, uint32_t depth) {
    for (const uint8_t *at = json->start; at < json->end;) {
        const uint8_t *first = at;
        if (!skip_character(&at, json->end)) {
            json->at = first;
            return fail(json, "it is not UTF-8");
        }
    }
    rkr_json_skip(json, depth);
    return json->why == NULL &&
           (rkr_json_mark(json) == 0 && json->at == json->end ? true
                                                              : fail(json, "more behind its end"));
}
