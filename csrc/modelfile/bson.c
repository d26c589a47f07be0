/* SPDX-License-Identifier: MIT
 *
 * The attributes that a file keeps by name: BSON in slot 9 of a node (not of mini containers),
 * {name: {"dtype": "is", "value": 1 or {"0": 1, "1": 2}}}. Integers are of 32 or 64 bits, real
 * numbers doubles. Nothing is believed before it is checked. */
#include "modelfile/modelfile.h"

typedef struct {
    const uint8_t *at, *end;
} bson;

typedef struct {
    uint8_t type;
    const char *name;
    bson value; /* from its first byte on */
} element;

enum { DOUBLE = 1, TEXT = 2, DOCUMENT = 3, ARRAY = 4, BOOLEAN = 8, INT32 = 16, INT64 = 18 };

/* The elements of a document, which may say more bytes than there are. */
static bool enter(bson document, bson *elements) {
    const size_t given = (size_t)(document.end - document.at);
    const uint64_t size = given < 5 ? 0 : rkr_number(document.at, 4);
    if (size < 5 || size > given) {
        return false;
    }
    *elements = (bson){document.at + 4, document.at + size - 1};
    return true;
}

static uint64_t value_bytes(uint8_t type, bson rest) {
    const size_t left = (size_t)(rest.end - rest.at);
    const uint64_t length = left < 4 ? UINT64_MAX : rkr_number(rest.at, 4);
    return type == DOUBLE || type == INT64     ? 8
           : type == INT32                     ? 4
           : type == BOOLEAN                   ? 1
           : length == UINT64_MAX              ? UINT64_MAX
           : type == TEXT                      ? 4 + length
           : type == DOCUMENT || type == ARRAY ? length
                                               : UINT64_MAX;
}

/* Take the next element; false at the end, and where nothing can be read. */
static bool next(bson *elements, element *out) {
    if (elements->at >= elements->end) {
        return false;
    }
    const uint8_t *name = elements->at + 1;
    const uint8_t *zero = memchr(name, 0, (size_t)(elements->end - name));
    if (zero == NULL) {
        return false;
    }
    const bson rest = {zero + 1, elements->end};
    const uint64_t bytes = value_bytes(*elements->at, rest);
    if (bytes > (uint64_t)(rest.end - rest.at)) {
        return false;
    }
    *out = (element){*elements->at, (const char *)name, {rest.at, rest.at + bytes}};
    elements->at = rest.at + bytes;
    return true;
}

static bool find(bson document, const char *name, element *out) {
    bson elements;
    if (!enter(document, &elements)) {
        return false;
    }
    while (next(&elements, out)) {
        if (strcmp(out->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether an element is a number; it is then stored, unless there is no room. */
static bool take(const element *found, uint32_t *type, uint8_t *data, size_t size, uint32_t at) {
    int64_t whole = 0;
    double real = 0;
    const bool is_real = found->type == DOUBLE;
    if (is_real) {
        memcpy(&real, found->value.at, 8);
    } else if (found->type == INT32) {
        whole = (int32_t)(uint32_t)rkr_number(found->value.at, 4);
    } else if (found->type == INT64) {
        memcpy(&whole, found->value.at, 8);
    } else if (found->type == BOOLEAN) {
        whole = *found->value.at;
    } else {
        return false;
    }
    if (at == 0) {
        *type = is_real ? RKR_BSON_FLOAT : RKR_BSON_INT64;
    }
    if (*type == RKR_BSON_FLOAT) {
        const float value = is_real ? (float)real : (float)whole;
        if (((size_t)at + 1) * sizeof value <= size) {
            memcpy(data + at * sizeof value, &value, sizeof value);
        }
    } else if (is_real) {
        return false;
    } else if (((size_t)at + 1) * sizeof whole <= size) {
        memcpy(data + at * sizeof whole, &whole, sizeof whole);
    }
    return true;
}

static bool take_all(const element *value, uint32_t *type, uint32_t *count, uint8_t *data,
                     size_t size) {
    *count = 0;
    if (value->type == TEXT) { /* its length counts the NUL at its end */
        const uint64_t length = (uint64_t)(value->value.end - value->value.at) - 4;
        *type = RKR_BSON_TEXT;
        *count = length == 0 ? 0 : (uint32_t)(length - 1);
        memcpy(data, value->value.at + 4, *count < size ? *count : size);
        return true;
    }
    if (value->type != DOCUMENT && value->type != ARRAY) {
        *count = 1;
        return take(value, type, data, size, 0);
    }
    bson elements;
    element item;
    if (!enter(value->value, &elements)) {
        return false;
    }
    while (next(&elements, &item)) {
        if (!take(&item, type, data, size, *count)) {
            return false;
        }
        ++*count;
    }
    return true;
}

bool rkr_find_attribute(const uint8_t *bytes, size_t length, const char *name, uint32_t *type,
                        uint32_t *count, void *data, size_t size) {
    const bson all = {bytes, bytes + length};
    element attribute, value;
    uint8_t nothing[1];
    *type = *count = 0;
    return bytes != NULL && find(all, name, &attribute) && attribute.type == DOCUMENT &&
           find(attribute.value, "value", &value) &&
           take_all(&value, type, count, data == NULL ? nothing : data, size);
}
