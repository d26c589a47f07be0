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

/* The digits of a float from 1e-4 to 1e6, and how many of them are behind the point. */
static uint32_t digits_of(float value, uint32_t *places) {
    const double v = value;
    uint32_t k = 0;
    while (v * POWERS[k] < 1e5) {
        k++;
    }
    uint32_t digits = (uint32_t)rint(v * POWERS[k]);
    while ((float)(digits / POWERS[k]) != value) {
        k++;
        digits = (uint32_t)rint(v * POWERS[k]);
    }
    *places = k;
    return digits;
}

static bool is_plain(float magnitude) {
    return magnitude >= 1e-4f && magnitude < 1e6f;
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
            const uint32_t digits = digits_of(magnitude, &places);
            out[i] = copysign(digits / POWERS[places], (double)values[i]);
        } else if (magnitude > 0 && isfinite(magnitude)) {
            char text[RKR_DECIMAL_BYTES];
            out[i] = rare((double)values[i], text);
        } else {
            out[i] = (double)values[i];
        }
    }
}

static char *append(char *out, const char *text) {
    while (*text != 0) {
        *out++ = *text++;
    }
    return out;
}

static char *append_integer(char *out, uint32_t value, uint32_t at_least) {
    char digits[16];
    uint32_t n = 0;
    while (value > 0 || n < at_least) {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    }
    while (n > 0) {
        *out++ = digits[--n];
    }
    return out;
}

static char *append_plain(char *out, float magnitude) {
    uint32_t places;
    uint32_t digits = digits_of(magnitude, &places);
    while (places > 1 && digits % 10 == 0) {
        digits /= 10;
        places--;
    }
    if (places == 0) {
        digits *= 10;
        places = 1;
    }
    if (places > 9) { /* below 1 */
        return append_integer(append(out, "0."), digits, places);
    }
    const uint32_t power = (uint32_t)POWERS[places];
    out = append_integer(out, digits / power, 1);
    *out++ = '.';
    return append_integer(out, digits % power, places);
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

size_t rkr_decimal_text(const float *values, size_t n, size_t rows, size_t columns,
                        const char *between, const char *between_rows, char *out) {
    char *end = out;
    for (size_t i = 0; i < n; i++) {
        for (size_t row = 0; row < rows; row++) {
            for (size_t column = 0; column < columns; column++) {
                end = column > 0 ? append(end, between) : end;
                end = append_number(end, *values++);
            }
            end = row + 1 < rows ? append(end, between_rows) : end;
        }
        *end++ = '\n';
    }
    return (size_t)(end - out);
}
