/* SPDX-License-Identifier: MIT
 *
 * Dot products of windows with 16 kernels at a time: plain C, then the same for the
 * instructions of each CPU.
 *
 *     acc[i][k] = sum over entries, j of v[i, entry, j] * w[entry, j, k]
 *
 * Weights of `side` values lie side by side, [entry][width / side][16 kernels][side]: a vector
 * of weights meets one number of that many values per window.
 *
 *     plain    int16 by int16, side 1
 *     AVX2     int16 by int16, side 2: vpmaddwd adds two products, exactly
 *     dotprod  int8 by int8, side 4: sdot adds four
 *
 * Sums wrap at 32 bits: all orders give the same. */
#include "emulator/convolution.h"

#include "emulator/cpu_level.h"

#if EMU_HAVE_X86
#include <immintrin.h>
#elif EMU_HAVE_ARM64
#include <arm_neon.h>
#endif

const emu_form *emu_convolution_form(bool depthwise) {
    static const emu_form plain = {.side = 1, .width = 1};
#if EMU_HAVE_X86
    static const emu_form avx2 = {.side = 2, .width = 2};
    if (emu_cpu_level() == EMU_CPU_AVX2) {
        return &avx2;
    }
#elif EMU_HAVE_ARM64
    static const emu_form dotprod = {.bytes = true, .side = 4, .width = 16};
    if (emu_cpu_level() == EMU_CPU_DOTPROD && !depthwise) {
        return &dotprod;
    }
#endif
    (void)depthwise;
    return &plain;
}

/* ---- plain C ------------------------------------------------------------------ */

/* `tile` is a constant where it is inlined, here and below: the sums stay in registers. */
static inline __attribute__((always_inline)) void
tile_plain(const emu_dot *dot, const int16_t *input, const uint32_t tile, int32_t *acc) {
    int32_t sums[4][16] = {{0}};
    const int16_t *w = dot->weights;
    for (uint32_t entry = 0; entry < dot->entries; entry++) {
        const int16_t *v = input + dot->offsets[entry];
        for (uint32_t j = 0; j < dot->width; j++, v++, w += 16) {
            for (uint32_t i = 0; i < tile; i++) {
                for (uint32_t lane = 0; lane < 16; lane++) {
                    sums[i][lane] =
                        (int32_t)((uint32_t)sums[i][lane] + (uint32_t)(v[i * dot->step] * w[lane]));
                }
            }
        }
    }
    memcpy(acc, sums, tile * sizeof sums[0]);
}

static void dot_plain(const emu_dot *dot, uint32_t n, int32_t *acc) {
    const int16_t *input = dot->input;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        tile_plain(dot, input + i * dot->step, 4, acc + 16 * i);
    }
    for (; i < n; i++) {
        tile_plain(dot, input + i * dot->step, 1, acc + 16 * i);
    }
}

static void depthwise_plain(const emu_dot *dot, uint32_t n, int32_t *acc) {
    for (uint32_t i = 0; i < n; i++) {
        const int16_t *input = (const int16_t *)dot->input + i * dot->step, *w = dot->weights;
        int32_t sums[16] = {0};
        for (uint32_t tap = 0; tap < dot->entries; tap++, w += 16) {
            const int16_t *v = input + dot->offsets[tap];
            for (uint32_t lane = 0; lane < 16; lane++) {
                sums[lane] += v[lane] * w[lane];
            }
        }
        memcpy(acc + i * 16, sums, sizeof sums);
    }
}

static void widen_plain(const uint8_t *bytes, size_t n, int16_t *words) {
    for (size_t i = 0; i < n; i++) {
        words[i] = (int8_t)bytes[i];
    }
}

#if EMU_HAVE_X86

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))

INLINE int load_int(const void *bytes) {
    int number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

INLINE AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

/* ---- AVX2 ---------------------------------------------------------------------- */

INLINE AVX2 void tile_avx2(const emu_dot *dot, const int16_t *input, const uint32_t tile,
                           int32_t *acc) {
    __m256i sums[6][2];
    const size_t step = dot->step;
#pragma GCC unroll 6
    for (uint32_t i = 0; i < tile; i++) {
        sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    }
    const int16_t *w = dot->weights;
    for (uint32_t entry = 0; entry < dot->entries; entry++) {
        const int16_t *v = input + dot->offsets[entry];
        for (const int16_t *end = v + dot->width; v != end; v += 2, w += 32) {
            const __m256i low = load(w), high = load(w + 16);
#pragma GCC unroll 6
            for (uint32_t i = 0; i < tile; i++) {
                const __m256i two = _mm256_set1_epi32(load_int(v + i * step));
                sums[i][0] = _mm256_add_epi32(sums[i][0], _mm256_madd_epi16(two, low));
                sums[i][1] = _mm256_add_epi32(sums[i][1], _mm256_madd_epi16(two, high));
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t i = 0; i < tile; i++) {
        _mm256_storeu_si256((__m256i *)(acc + 16 * i), sums[i][0]);
        _mm256_storeu_si256((__m256i *)(acc + 16 * i + 8), sums[i][1]);
    }
}

/* Windows are shared out evenly: fewer than four at once do not keep the CPU busy. */
AVX2 static void dot_avx2(const emu_dot *dot, uint32_t n, int32_t *acc) {
    const int16_t *input = dot->input;
    for (uint32_t tiles = (n + 5) / 6; tiles > 0; tiles--) {
        const uint32_t tile = (n + tiles - 1) / tiles;
        switch (tile) {
#define CASE(n)                        \
    case n:                            \
        tile_avx2(dot, input, n, acc); \
        break;
            CASE(6)
            CASE(5)
            CASE(4)
            CASE(3)
            CASE(2)
#undef CASE
        default:
            tile_avx2(dot, input, 1, acc);
        }
        input += tile * dot->step;
        acc += tile * 16;
        n -= tile;
    }
}

/* Two taps side by side: [taps / 2][16][2] weights, one without weights where taps are odd. Halves
 * of the two vectors of sums belong together: unpacking works on each half of a vector. */
INLINE AVX2 void depthwise_tile(const emu_dot *dot, const int16_t *input, const uint32_t tile,
                                int32_t *acc) {
    __m256i sums[4][2];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < tile; i++) {
        sums[i][0] = sums[i][1] = _mm256_setzero_si256();
    }
    const int16_t *w = dot->weights;
    for (uint32_t tap = 0; tap < dot->entries; tap += 2, w += 32) {
        const int16_t *first = input + dot->offsets[tap];
        const int16_t *second = input + dot->offsets[tap + 1];
        const __m256i low = _mm256_permute2x128_si256(load(w), load(w + 16), 0x20);
        const __m256i high = _mm256_permute2x128_si256(load(w), load(w + 16), 0x31);
#pragma GCC unroll 4
        for (uint32_t i = 0; i < tile; i++) {
            const __m256i a = load(first + i * dot->step), b = load(second + i * dot->step);
            const __m256i lows = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), low);
            const __m256i highs = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), high);
            sums[i][0] = _mm256_add_epi32(sums[i][0], lows);
            sums[i][1] = _mm256_add_epi32(sums[i][1], highs);
        }
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < tile; i++) {
        _mm256_storeu_si256((__m256i *)(acc + 16 * i),
                            _mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x20));
        _mm256_storeu_si256((__m256i *)(acc + 16 * i + 8),
                            _mm256_permute2x128_si256(sums[i][0], sums[i][1], 0x31));
    }
}

AVX2 static void depthwise_avx2(const emu_dot *dot, uint32_t n, int32_t *acc) {
    const int16_t *input = dot->input;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        depthwise_tile(dot, input + i * dot->step, 4, acc + 16 * i);
    }
    for (; i < n; i++) {
        depthwise_tile(dot, input + i * dot->step, 1, acc + 16 * i);
    }
}

/* A square of 8 numbers of 32 bits each is turned. */
AVX2 static void unpack_words_avx2(const int8_t *weights, size_t stride, const int32_t *offsets,
                                   int16_t *words) {
    __m256i a[8], b[8];
    for (uint32_t k = 0; k < 8; k++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(weights + k * stride));
        a[k] = _mm256_add_epi16(_mm256_cvtepi8_epi16(bytes), _mm256_set1_epi16((short)offsets[k]));
    }
    for (uint32_t k = 0; k < 8; k += 4) {
        b[k] = _mm256_unpacklo_epi32(a[k], a[k + 1]);
        b[k + 1] = _mm256_unpackhi_epi32(a[k], a[k + 1]);
        b[k + 2] = _mm256_unpacklo_epi32(a[k + 2], a[k + 3]);
        b[k + 3] = _mm256_unpackhi_epi32(a[k + 2], a[k + 3]);
        a[k] = _mm256_unpacklo_epi64(b[k], b[k + 2]);
        a[k + 1] = _mm256_unpackhi_epi64(b[k], b[k + 2]);
        a[k + 2] = _mm256_unpacklo_epi64(b[k + 1], b[k + 3]);
        a[k + 3] = _mm256_unpackhi_epi64(b[k + 1], b[k + 3]);
    }
    for (uint32_t k = 0; k < 4; k++) {
        _mm256_storeu_si256((__m256i *)(words + 32 * k),
                            _mm256_permute2x128_si256(a[k], a[k + 4], 0x20));
        _mm256_storeu_si256((__m256i *)(words + 32 * (k + 4)),
                            _mm256_permute2x128_si256(a[k], a[k + 4], 0x31));
    }
}

AVX2 static void widen_avx2(const uint8_t *bytes, size_t n, int16_t *words) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m128i sixteen = _mm_loadu_si128((const __m128i *)(bytes + i));
        _mm256_storeu_si256((__m256i *)(words + i), _mm256_cvtepi8_epi16(sixteen));
    }
    for (; i < n; i++) {
        words[i] = (int8_t)bytes[i];
    }
}

#elif EMU_HAVE_ARM64

/* ---- NEON with dot products -------------------------------------------------------- */

#define DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))

/* 16 values of a window are one vector, of which an instruction takes four. */
static inline __attribute__((always_inline)) DOTPROD void
tile_dotprod(const emu_dot *dot, const int8_t *input, const uint32_t tile, int32_t *acc) {
    int32x4_t sums[5][4];
    for (uint32_t i = 0; i < tile; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            sums[i][k] = vdupq_n_s32(0);
        }
    }
    const int8_t *w = dot->weights;
    for (uint32_t entry = 0; entry < dot->entries; entry++) {
        const int8_t *from = input + dot->offsets[entry];
        for (uint32_t j = 0; j < dot->width; j += 16, from += 16, w += 256) {
            int8x16_t v[5];
            for (uint32_t i = 0; i < tile; i++) {
                v[i] = vld1q_s8(from + i * dot->step);
            }
#define FOUR_VALUES(at)                                                    \
    for (uint32_t k = 0; k < 4; k++) {                                     \
        const int8x16_t weights = vld1q_s8(w + (at) * 64 + 16 * k);        \
        for (uint32_t i = 0; i < tile; i++) {                              \
            sums[i][k] = vdotq_laneq_s32(sums[i][k], weights, v[i], (at)); \
        }                                                                  \
    }
            FOUR_VALUES(0)
            FOUR_VALUES(1)
            FOUR_VALUES(2)
            FOUR_VALUES(3)
#undef FOUR_VALUES
        }
    }
    for (uint32_t i = 0; i < tile; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            vst1q_s32(acc + 16 * i + 4 * k, sums[i][k]);
        }
    }
}

DOTPROD static void dot_dotprod(const emu_dot *dot, uint32_t n, int32_t *acc) {
    const int8_t *input = dot->input;
    uint32_t i = 0;
    for (; i + 5 <= n; i += 5) {
        tile_dotprod(dot, input + i * dot->step, 5, acc + 16 * i);
    }
    for (; i < n; i++) {
        tile_dotprod(dot, input + i * dot->step, 1, acc + 16 * i);
    }
}

#endif

/* ---- the best of this CPU ------------------------------------------------------------ */

void emu_dot_blocks(const emu_dot *dot, uint32_t n, int32_t *acc) {
#if EMU_HAVE_ARM64
    if (emu_cpu_level() == EMU_CPU_DOTPROD) {
        dot_dotprod(dot, n, acc);
        return;
    }
#endif
    EMU_BEST(dot)(dot, n, acc);
}

void emu_dot_depthwise(const emu_dot *dot, uint32_t n, int32_t *acc) {
    EMU_BEST(depthwise)(dot, n, acc);
}

bool emu_unpack_words(const int8_t *weights, size_t stride, const int32_t *offsets,
                      int16_t *words) {
#if EMU_HAVE_X86
    if (emu_cpu_level() == EMU_CPU_AVX2) {
        unpack_words_avx2(weights, stride, offsets, words);
        return true;
    }
#endif
    (void)weights, (void)stride, (void)offsets, (void)words;
    return false;
}

void emu_widen(const uint8_t *bytes, size_t n, int16_t *words) {
    EMU_BEST(widen)(bytes, n, words);
}
