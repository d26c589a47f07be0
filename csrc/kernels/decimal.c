/* SPDX-License-Identifier: MIT
 *
 *     digits = v * 10^k, rounded half to even, the first of 6, 7, 8, 9 digits with (float)(digits /
 * 10^k) == v
 *
 * Any number of 6 digits comes back from a float, so that a shorter one is found with 6, too; 9
 * always suffice. `digits` and 10^k are exact in a double, so their quotient is the double next to
 * the decimal number. Very small and very large floats take the C library's way. */
#include "rkr.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double POWERS[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5,  1e6,
                                1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13};

/* The least k with 2^(e + 1) * 10^k > 1e5, for e from -14. */
static const uint8_t FIRST[] = {9, 9, 9, 9, 8, 8, 8, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 4, 4,
                                4, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};

/* The nearest integer, half to even, of a number from 0 to 2^51. */
static double nearest(double v) {
    const double magic = 0x1.8p52;
    return v + magic - magic;
}

/* The digits of a float from 1e-4 to 1e7, how many of them are behind the point, and the double
 * next to the number that they are. */
static uint32_t digits_of(float value, uint32_t *places, double *shown) {
    const double v = value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t k = FIRST[(bits >> 23) - (127 - 14)];
    if (v * POWERS[k] < 1e5) {
        k++;
    }
    double digits = nearest(v * POWERS[k]);
    while ((float)(*shown = digits / POWERS[k]) != value) {
        k++;
        digits = nearest(v * POWERS[k]);
    }
    *places = k;
    return (uint32_t)digits;
}

static bool is_plain(float magnitude) {
    return magnitude >= 1e-4f && magnitude < 1e7f;
}

/* Any other finite number, as "%.*e" with the fewest digits. */
static double rare(double value, char text[RKR_DECIMAL_BYTES]) {
    int digits = 0;
    do {
        snprintf(text, RKR_DECIMAL_BYTES, "%.*e", digits++, value);
    } while ((float)strtod(text, NULL) != (float)value);
    return strtod(text, NULL);
}

void rkr_decimal_doubles(const float *values, size_t n, double *out) {
    for (size_t i = 0; i < n; i++) {
        const float magnitude = fabsf(values[i]);
        if (is_plain(magnitude)) {
            uint32_t places;
            double shown;
            digits_of(magnitude, &places, &shown);
            out[i] = copysign(shown, (double)values[i]);
        } else if (magnitude > 0 && isfinite(magnitude)) {
            char text[RKR_DECIMAL_BYTES];
            out[i] = rare((double)values[i], text);
        } else {
            out[i] = (double)values[i];
        }
    }
}

uint32_t rkr_box_rows(const float *xyxy, const float *confidence, size_t n, uint32_t is_coco,
                      double *out) {
    double sum = 0;
    for (; n > 0; n--, xyxy += 4, confidence++, out += 5) {
        for (size_t i = 0; i < 4 && is_coco; i++) {
            out[i] = (double)xyxy[i] - (i < 2 ? 0.0 : (double)xyxy[i - 2]);
        }
        rkr_decimal_doubles(xyxy, is_coco ? 0 : 4, out);
        rkr_decimal_doubles(confidence, 1, out + 4);
        for (size_t i = 0; i < 5; i++) {
            sum += out[i] * 0; /* NaN if it is infinite or NaN */
        }
    }
    return sum == 0 ? 1u : 0u;
}

static char *append(char *out, const char *text) {
    while (*text != 0) {
        *out++ = *text++;
    }
    return out;
}

static char *append_signed(char *out, int32_t number) {
    uint32_t value = number < 0 ? 0u - (uint32_t)number : (uint32_t)number;
    char digits[10];
    uint32_t n = 0;
    if (number < 0) {
        *out++ = '-';
    }
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) {
        *out++ = digits[--n];
    }
    return out;
}

/* Numbers of two digits, so that half as many divisions do. */
static const char PAIRS[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

/* Copies 16 bytes each before and behind the point, of which at most 7 and 9 are digits. */
static char *append_plain(char *out, float magnitude) {
    uint32_t places;
    double shown;
    uint32_t value = digits_of(magnitude, &places, &shown);
    char digits[32];
    memset(digits, '0', sizeof digits);
    uint32_t first = 16;
    while (value > 0) {
        first -= 2;
        memcpy(digits + first, PAIRS + value % 100 * 2, 2);
        value /= 100;
    }
    const uint32_t point = 16 - places;
    if (first < point && digits[first] == '0') {
        first++;
    }
    first = first < point ? first : point - 1;
    memcpy(out, digits + first, 16);
    out += point - first;
    *out++ = '.';
    if (places == 0) {
        *out++ = '0';
        return out;
    }
    uint32_t end = 16;
    while (end > point + 1 && digits[end - 1] == '0') {
        end--;
    }
    memcpy(out, digits + point, 16);
    return out + (end - point);
}

static char *append_number(char *out, float value) {
    const float magnitude = fabsf(value);
    if (isnan(value)) {
        return append(out, "nan");
    }
    if (signbit(value)) {
        *out++ = '-';
    }
    if (is_plain(magnitude)) {
        return append_plain(out, magnitude);
    }
    if (magnitude == 0 || isinf(magnitude)) {
        return append(out, magnitude == 0 ? "0.0" : "inf");
    }
    char text[RKR_DECIMAL_BYTES];
    const double number = rare((double)magnitude, text);
    if (magnitude >= 1e-4f && magnitude < 1e16f) {
        snprintf(text, sizeof text, "%.1f", number);
    }
    for (char *c = text; *c != 0; c++) { /* the point may be a comma by the locale */
        *out++ = (*c >= '0' && *c <= '9') || strchr("e+-", *c) != NULL ? *c : '.';
    }
    return out;
}

static char *append_bytes(char *out, const char *bytes, size_t n) {
    memcpy(out, bytes, n);
    return out + n;
}

static char *append_text_of(char *out, const rkr_cell *cell, int32_t key) {
    uint32_t first = 0, end = cell->n_keys;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (cell->keys[middle] < key) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    if (first == cell->n_keys || cell->keys[first] != key) {
        return cell->missing == NULL ? out : append_signed(append(out, cell->missing), key);
    }
    const uint32_t begin = first == 0 ? 0 : cell->ends[first - 1];
    return append_bytes(out, cell->texts + begin, cell->ends[first] - begin);
}

/* The box as YOLO's labels have it. */
static void centre_of(const float box[4], const double divisors[4], float out[4]) {
    for (int i = 0; i < 2; i++) {
        const double low = (double)box[i], high = (double)box[i + 2];
        out[i] = (float)((low + high) / 2 / divisors[i]);
        out[i + 2] = (float)((high - low) / divisors[i]);
    }
}

/* Writes the floats of one object, and adds 0 times each to a sum, which is NaN if one is not
 * finite. */
static char *append_floats(char *out, const rkr_cell *cell, const float *values,
                           const char *between, const char *between_rows, float *sum) {
    float centre[4];
    if (cell->kind == RKR_CELL_CENTRES) {
        centre_of(values, cell->divisors, centre);
        values = centre;
    }
    const bool divides = cell->kind == RKR_CELL_FLOATS && cell->divisors[0] > 0;
    for (uint32_t row = 0; row < cell->rows; row++) {
        out = row > 0 ? append(out, between_rows) : out;
        for (uint32_t column = 0; column < cell->columns; column++) {
            float value = *values++;
            if (divides) {
                value = (float)((double)value / cell->divisors[column]);
            }
            *sum += value * 0;
            out = append_number(column > 0 ? append(out, between) : out, value);
        }
    }
    return out;
}

size_t rkr_table_text(const rkr_cell *cells, size_t n_cells, const void *const *values, size_t n,
                      const char *between, const char *between_rows, const char *end,
                      uint32_t are_finite, char *out) {
    char *at = out;
    float sum = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t c = 0; c < n_cells; c++) {
            const rkr_cell *cell = cells + c;
            const int32_t *integers = values[c];
            at = append_bytes(at, cell->before, cell->before_bytes);
            if (cell->kind == RKR_CELL_TEXTS) {
                at = append_text_of(at, cell, integers[i]);
            } else if (cell->kind == RKR_CELL_INTEGERS) {
                at = append_signed(at, integers[i]);
            } else {
                const float *floats = values[c];
                floats += i * cell->rows * cell->columns;
                at = append_floats(at, cell, floats, between, between_rows, &sum);
            }
        }
        at = append(at, end);
    }
    return are_finite && isnan(sum) ? 0 : (size_t)(at - out);
}
