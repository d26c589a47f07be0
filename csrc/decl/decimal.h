/* SPDX-License-Identifier: MIT
 *
 * Floats as the decimal numbers with the fewest digits that give the same float again, and tables
 * of them as text. */

/* What writing a number touches, and what separates it: the longest is "-1.1754944e-38". */
#define RKR_DECIMAL_BYTES 40
/* The longest text of an integer. */
#define RKR_INTEGER_BYTES 11

/* The double next to the decimal number of each float; NaN and infinities stay. */
void rkr_decimal_doubles(const float *values, size_t n, double *out);

/* Five numbers for each of `n` objects: left, top, right and bottom as decimal numbers, or COCO's
 * left, top, width and height; and the confidence as one. 1 if all are finite, else 0. */
uint32_t rkr_box_rows(const float *xyxy, const float *confidence, size_t n, uint32_t is_coco,
                      double *out);

#define RKR_CELL_FLOATS 0
#define RKR_CELL_INTEGERS 1
#define RKR_CELL_TEXTS 2
#define RKR_CELL_CENTRES 3

/* One part of each object's text: `before`, then its numbers, or a text that a number stands for.
 * The values are `rows` times `columns` floats for each object, or one int32_t; of centres left,
 * top, right and bottom, written as centre, width and height. */
typedef struct {
    uint32_t kind;
    uint32_t rows, columns;
    uint32_t before_bytes;
    const char *before;
    double divisors[4];  /* of the columns; the first 0: none */
    const int32_t *keys; /* of the texts, ascending */
    uint32_t n_keys;
    const char *texts;    /* one behind the other */
    const uint32_t *ends; /* where each one ends */
    const char *missing;  /* of a number that is no key, before it; NULL: not even the number */
} rkr_cell;

/* The cells of `n` objects, whose values are in an array for each cell, `end` after each object;
 * `between` columns and `between_rows`, at most 8 bytes each. Returns the bytes written, or 0 if a
 * float is infinite or NaN and all must be finite. `out` has room for `before` and `end` and the
 * longest texts of all objects, RKR_DECIMAL_BYTES for each float and RKR_INTEGER_BYTES for each
 * integer. */
size_t rkr_table_text(const rkr_cell *cells, size_t n_cells, const void *const *values, size_t n,
                      const char *between, const char *between_rows, const char *end,
                      uint32_t are_finite, char *out);
