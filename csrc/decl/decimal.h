/* SPDX-License-Identifier: MIT
 *
 * Floats as the decimal numbers with the fewest digits that give the same float again. */

/* The longest text of a number, "-1.1754944e-38", and what separates it. */
#define RKR_DECIMAL_BYTES 32

/* The double next to the decimal number of each float; NaN and infinities stay. */
void rkr_decimal_doubles(const float *values, size_t n, double *out);

/* The numbers as text, as Python writes them: `n` times `rows` times `columns` numbers, with one
 * separator of at most 8 bytes between columns, one between rows, and a line's end after each of
 * the `n`. `out` has RKR_DECIMAL_BYTES for each number; returns the bytes written. */
size_t rkr_decimal_text(const float *values, size_t n, size_t rows, size_t columns,
                        const char *between, const char *between_rows, char *out);
