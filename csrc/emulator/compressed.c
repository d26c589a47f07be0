/* SPDX-License-Identifier: MIT
 *
 * Weights that the toolkit compressed (compress_weight=True), of all SoCs but RV1103B and RV1106B.
 * They are unpacked when a model is opened, and then read like any others.
 *
 * The weights' bytes, as they would lie in memory, are dealt out to streams, a word to each in
 * turn: RK3588 16 streams and words of 4 bytes, RK3566 and RK3568 8 and 4, the others 2 and 1.
 *
 *   1100 1 int8, 3 int16, 5 float16 or two streams; 0 also where weights are still in the buffer
 *   1104 size of each stream's header: 2 bits, in 16 bytes; lite 3 bits, in 8 bytes
 *   1110 first stream; lite 1114.. the others; else they follow each other, at whole lines
 *   1140.. bytes of each after the first 16, in units of 16; lite has them elsewhere
 *
 * On RK3588 and lite, a stream begins with a header:
 *
 *     byte 0    [3:0] 1 with runs, [7:4] bits n of a long run's index; 0 without runs
 *     1..2      base, int16; all values are base + d, modulo 256
 *     4..7      eight classes, 4 bits each: that of the code 00, of 10, 111, 110, 011, ...
 *     8..       with runs: 2 + 2^n lengths, uint16
 *
 * Then follow codes, each with what its class says; bits from the lowest of each byte on:
 *
 *     class c   a sign, c - 1 bits of d under its highest one; 0 is 0. A sign means ~d
 *     with runs a sign means -d; 0: 1 bit, run 0 or 1 of base; 8: n bits, run 2 + these;
 *               7: 7 bits, the whole of d, and 0 is 128
 *
 * Of 16 bits, these are codes of the upper byte of d, with runs of that plus one unless negative;
 * the lower byte follows. float16 is rotated: its sign is the lowest bit.
 *
 * Of the other SoCs the header is the base to subtract, int32, then the classes. A code of
 * class c is followed by 8 signs and 8 values of c bits: eight weights, of which ~d with a sign.
 *
 * Found by comparing files of the same networks with and without it, byte by byte. */
#include "emulator/maps.h"
#include "emulator/numbers.h"

#define HEADER 16
#define LINE 64
/* Of all layers, for each byte of a file: more than weights of any size shrink by. And their
 * number. */
#define MAX_RATIO 8
#define ANY_RATIO (16u << 20) /* bytes of all layers that may shrink by more */
#define MAX_UNPACKED 2048

typedef struct {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t bit; /* read next */
} stream;

/* Where values go: words of 2^log2 bytes, `step` from one to the next. */
typedef struct {
    int8_t *values;
    uint32_t first, log2, step, count, at;
    bool wide, rotated; /* 16 bits, float16 */
} sink;

/* At most 8 bits. Reads zeros after the end; check is_over afterwards. */
static uint32_t take(stream *s, uint32_t bits) {
    const uint64_t at = s->bit / 8, left = at < s->size ? s->size - at : 0;
    const uint64_t two = emu_number(s->bytes + (left > 0 ? at : 0), left > 1 ? 2 : left);
    const uint32_t value = (uint32_t)(two >> s->bit % 8) & ((1u << bits) - 1u);
    s->bit += bits;
    return value;
}

static bool is_over(const stream *s) {
    return s->bit > s->size * 8;
}

static void put_byte(sink *s, uint32_t value) {
    if (s->at < s->count) {
        const uint32_t inside = s->at & ((1u << s->log2) - 1u);
        s->values[s->first + (s->at >> s->log2) * s->step + inside] = (int8_t)(uint8_t)value;
        s->at++;
    }
}

static void put(sink *s, uint32_t value) {
    value = s->rotated ? (value >> 1 & 0x7fff) | (value & 1) << 15 : value;
    put_byte(s, value);
    if (s->wide) {
        put_byte(s, value >> 8);
    }
}

static uint32_t take_class(stream *s, const uint8_t classes[8]) {
    switch (take(s, 2)) {
    case 0: /* 00 */
        return classes[0];
    case 1: /* 10 */
        return classes[1];
    case 3: /* 11. */
        return classes[take(s, 1) == 1 ? 2 : 3];
    default: /* 01. */
        if (take(s, 1) == 1) {
            return classes[4];
        }
        return take(s, 1) == 1 ? classes[5] : classes[take(s, 1) == 1 ? 6 : 7];
    }
}

/* Classes by code; false where one is there twice or too large. */
static bool read_classes(const uint8_t *header, uint32_t largest, uint8_t classes[8]) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 8; i++) {
        classes[i] = header[4 + i / 2] >> i % 2 * 4 & 0xf;
        if (classes[i] > largest || (seen >> classes[i] & 1) != 0) {
            return false;
        }
        seen |= 1u << classes[i];
    }
    return true;
}

/* d of a class, behind its code. */
static uint32_t take_value(stream *s, uint32_t class, bool runs) {
    const bool sign = take(s, 1) != 0;
    uint32_t d = 0;
    if (runs && class == 7) {
        d = take(s, 7);
        d = d == 0 ? 128 : d;
    } else if (class != 0) {
        d = take(s, class - 1) | 1u << (class - 1);
    }
    return !sign ? d : runs ? 0u - d : ~d;
}

static bool unpack_codes(stream s, sink to, uint32_t header_bytes) {
    const uint8_t *header = s.bytes;
    const uint32_t n = header[0] >> 4, base = (uint32_t)emu_number(header + 1, 2);
    const bool runs = n != 0;
    uint8_t classes[8];
    s.bit = 8ull * emu_align(runs ? 12 + (2u << n) : HEADER, HEADER);
    if (s.bit != 8ull * header_bytes || (header[0] & 0xf) != runs || header[3] != 0 ||
        !read_classes(header, runs ? 8 : 7, classes) || is_over(&s)) {
        return false;
    }
    while (to.at < to.count) {
        const uint32_t class = take_class(&s, classes);
        if (runs && (class == 0 || class == 8)) {
            const uint32_t index = class == 0 ? take(&s, 1) : 2 + take(&s, n);
            const uint32_t length = (uint32_t)emu_number(header + 8 + 2 * index, 2);
            if (length == 0 || length << to.wide > to.count - to.at) {
                return false;
            }
            for (uint32_t i = 0; i < length; i++) {
                put(&to, base);
            }
        } else {
            uint32_t d = take_value(&s, class, runs);
            if (to.wide) {
                d = (runs && (int32_t)d > 0 ? d - 1 : d) << 8 | take(&s, 8);
            }
            put(&to, base + d);
        }
        if (is_over(&s)) {
            return false;
        }
    }
    return true;
}

static bool unpack_eights(stream s, sink to, uint32_t header_bytes) {
    uint8_t classes[8];
    if (header_bytes != HEADER || emu_number(s.bytes + 8, 8) != 0 ||
        !read_classes(s.bytes, 7, classes)) {
        return false;
    }
    const uint32_t base = (uint32_t)emu_number(s.bytes, 4);
    s.bit = 8 * HEADER;
    while (to.at < to.count) {
        const uint32_t class = take_class(&s, classes), signs = take(&s, 8);
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t d = take(&s, class);
            put(&to, ((signs >> i & 1) != 0 ? ~d : d) - base);
        }
        if (is_over(&s)) {
            return false;
        }
    }
    return true;
}

/* Lite names each; else a stream lies behind the one before, at a line. */
static void find_starts(const rkr_emu *emu, const emu_registers *r, uint32_t count,
                        uint32_t starts[EMU_MAX_STREAMS]) {
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t bytes = (emu_reg(r, 0x113c + 4 * i) & 0xffffff) * HEADER + HEADER;
        starts[i] =
            emu_is_lite(emu) ? emu_reg(r, 0x1110 + 4 * i) : starts[i - 1] + emu_align(bytes, LINE);
    }
}

static bool unpack(const rkr_emu *emu, const emu_registers *r, emu_unpacked *unpacked) {
    const uint32_t count = emu->soc->weight_streams, log2 = count == 2 ? 0 : 2;
    const uint32_t mode = emu_reg(r, 0x1100);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t start = unpacked->starts[i];
        const uint32_t header = emu_is_lite(emu) ? emu_bits(r, 0x1104, 3 * i + 2, 3 * i) * 8
                                                 : emu_bits(r, 0x1104, 2 * i + 1, 2 * i) * 16;
        if (start < emu->model->command_bytes ||
            (uint64_t)start + HEADER > emu->model->constant_bytes) {
            return false;
        }
        const stream from = {emu->memory + start, emu->model->constant_bytes - start, 0};
        const uint32_t words = ((unpacked->bytes >> log2) + count - 1 - i) / count;
        const sink to = {unpacked->values,
                         i << log2,
                         log2,
                         count << log2,
                         words << log2,
                         0,
                         count != 2 && mode != 1,
                         count != 2 && mode == 5};
        if (!(count == 2 ? unpack_eights : unpack_codes)(from, to, header)) {
            return false;
        }
    }
    return true;
}

/* Find weights by their first `named` streams: a task may name only the first one. */
static const emu_unpacked *find(const rkr_emu *emu, uint32_t bytes, const uint32_t *starts,
                                uint32_t named) {
    const emu_unpacked *each = emu->unpacked;
    while (each != NULL &&
           (each->bytes != bytes || memcmp(each->starts, starts, named * sizeof *starts) != 0)) {
        each = each->next;
    }
    return each;
}

static const emu_unpacked *unpack_new(rkr_emu *emu, const emu_registers *r, uint32_t bytes,
                                      const uint32_t *starts) {
    emu->unpacked_bytes += bytes;
    emu->n_unpacked++;
    if (emu->unpacked_bytes > MAX_RATIO * emu->model->constant_bytes + ANY_RATIO ||
        emu->n_unpacked > MAX_UNPACKED) {
        (void)emu_refuse(emu, "compressed weights of %llu bytes, %u layers, in a file of %llu",
                         (unsigned long long)emu->unpacked_bytes, emu->n_unpacked,
                         (unsigned long long)emu->model->constant_bytes);
        return NULL;
    }
    emu_unpacked *unpacked = emu_allocate(emu->model, 1, sizeof *unpacked + bytes);
    if (unpacked == NULL) {
        return NULL;
    }
    unpacked->bytes = bytes;
    memcpy(unpacked->starts, starts, sizeof unpacked->starts);
    if (!unpack(emu, r, unpacked)) {
        (void)emu_refuse_register(emu, r, 0x1100, "compressed weights, whose streams are damaged");
        return NULL;
    }
    unpacked->next = emu->unpacked;
    emu->unpacked = unpacked;
    return unpacked;
}

bool emu_decompress_weights(rkr_emu *emu, const emu_registers *r, uint32_t bytes,
                            emu_convolution *conv) {
    const uint32_t count = emu->soc->weight_streams, mode = emu_reg(r, 0x1100);
    uint32_t starts[EMU_MAX_STREAMS] = {conv->weights};
    if (mode == 0) {
        /* The weights may be those that a task before left in the NPU's buffer. */
        conv->unpacked = find(emu, bytes, starts, 1);
        return true;
    }
    if (mode != (count == 2 || conv->fp16 ? 5u : conv->wide ? 3u : 1u)) {
        return emu_refuse_register(emu, r, 0x1100, "compressed weights");
    }
    if (count != 2 && bytes % 4 != 0) {
        return emu_refuse(emu, "compressed weights of %u bytes", bytes);
    }
    find_starts(emu, r, count, starts);
    conv->unpacked = find(emu, bytes, starts, count);
    if (conv->unpacked == NULL) {
        conv->unpacked = unpack_new(emu, r, bytes, starts);
    }
    return conv->unpacked != NULL;
}
