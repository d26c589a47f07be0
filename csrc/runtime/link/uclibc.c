/* SPDX-License-Identifier: MIT
 *
 * Symbols that a static archive made for uClibc needs and other C libraries lack: the tables
 * behind <ctype.h>, which uClibc's macros read directly.
 *
 * Both tables answer for -128..255 (any signed or unsigned char, and EOF) and are
 * indexed by the character itself. As in the C locale, only ASCII has properties. The
 * bits are uClibc's own, 1 << n in the order below: glibc numbers them otherwise, so its
 * table would not do. */
#include <ctype.h>
#include <stdint.h>

#ifndef __UCLIBC__

#define FIRST (-128)
#define SIZE 384

static uint16_t classes[SIZE];
static int16_t lowered[SIZE];

const uint16_t *__ctype_b = classes - FIRST;
const int16_t *__ctype_tolower = lowered - FIRST;

static unsigned class_bits(int c) {
    const int properties[] = {isupper(c),  islower(c), isalpha(c), isdigit(c),
                              isxdigit(c), isspace(c), isprint(c), isgraph(c),
                              isblank(c),  iscntrl(c), ispunct(c), isalnum(c)};
    unsigned bits = 0;
    for (unsigned n = 0; n < sizeof properties / sizeof *properties; n++) {
        bits |= (properties[n] != 0 ? 1U : 0U) << n;
    }
    return bits;
}

/* Before the archive's own constructors, which may ask already. */
__attribute__((constructor(101))) static void fill_tables(void) {
    for (int c = FIRST; c < FIRST + SIZE; c++) {
        const int is_ascii = c >= 0 && c < 128;
        classes[c - FIRST] = (uint16_t)(is_ascii ? class_bits(c) : 0U);
        lowered[c - FIRST] = (int16_t)(is_ascii ? tolower(c) : c);
    }
}

#endif
