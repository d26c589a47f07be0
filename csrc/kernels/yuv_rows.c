/* SPDX-License-Identifier: MIT
 *
 * Rows of Y, U and V to a row of RGB or gray; yuv.h has the formula and what rows
 * hold. Where the result has the source's width no lanes are made beforehand: the bytes of
 * luma are widened, and those of U and V spread to two pixels each, as they are converted. */
#include "kernels/yuv.h"

#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Plain C. */

static inline uint8_t to_byte(int sum) {
    const int value = sum >> RKR_YUV_SHIFT;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static inline int lane_at(const rkr_yuv_row *r, size_t channel, size_t x) {
    const int16_t *upper = r->upper[channel], *lower = r->lower[channel];
    const int16_t weight = r->weight[channel];
    return weight == 0 ? upper[x] : rkr_blend(upper[x], lower[x], weight);
}

static void color_plain(const rkr_yuv_row *of, uint8_t *restrict dst) {
    const rkr_yuv_row own = *of, *r = &own;
    const rkr_yuv_factors k = r->k;
    for (size_t x = 0; x < r->width; x++) {
        const int luma = rkr_multiply_high(lane_at(r, 0, x), k.luma);
        const int first = lane_at(r, 1, x), last = lane_at(r, 2, x);
        const int green =
            rkr_multiply_high(first, k.first_to_green) + rkr_multiply_high(last, k.last_to_green);
        dst[3 * x] = to_byte(luma + rkr_multiply_high(first, k.first) + k.constant[0]);
        dst[3 * x + 1] = to_byte(luma + green + k.constant[1]);
        dst[3 * x + 2] = to_byte(luma + rkr_multiply_high(last, k.last) + k.constant[2]);
    }
}

static void gray_plain(const rkr_yuv_row *of, uint8_t *restrict dst) {
    const rkr_yuv_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        dst[x] = to_byte(rkr_multiply_high(lane_at(r, 0, x), r->k.luma) + r->k.constant_of_gray);
    }
}

/* Loops that compilers vectorize, for a constant step. */
RKR_INLINE void extract(const uint8_t *restrict src, size_t step, size_t count,
                        uint8_t *restrict dst) {
    for (size_t i = 0; i < count; i++) {
        dst[i] = src[i * step];
    }
}

static void extract_plain(const uint8_t *src, size_t step, size_t count, uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
    }
}

/* Vectors. They read lanes behind the row's end, for which rows have room, and write the last
 * pixels by way of a block beside. */

#if RKR_HAVE_AVX2 || defined(__ARM_NEON)
/* What rows are read and how; constants in every use, so that each case is a loop of its own. */
typedef struct {
    bool blend_luma, blend_differences;
    bool same; /* the rows are bytes */
} reading;

#define READ_ROWS(rows, r, dst, same)                    \
    do {                                                 \
        const bool differences = (r)->weight[1] != 0;    \
        if ((r)->weight[0] != 0 && differences) {        \
            rows(r, dst, (reading){true, true, same});   \
        } else if ((r)->weight[0] != 0) {                \
            rows(r, dst, (reading){true, false, same});  \
        } else if (differences) {                        \
            rows(r, dst, (reading){false, true, same});  \
        } else {                                         \
            rows(r, dst, (reading){false, false, same}); \
        }                                                \
    } while (0)
#endif

#if RKR_HAVE_AVX2

#define AVX2_INLINE RKR_TARGET_AVX2 RKR_INLINE

RKR_TARGET_AVX2 static void extract_avx2(const uint8_t *src, size_t step, size_t count,
                                         uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
    }
}

/* 16 lanes of a row from x on, as luma or as a difference that two pixels share. */
AVX2_INLINE __m256i row_16(const void *lanes, size_t channel, size_t x, bool same) {
    if (!same) {
        return _mm256_loadu_si256((const __m256i *)((const int16_t *)lanes + x));
    }
    const uint8_t *bytes = lanes;
    if (channel == 0) {
        const __m128i luma = _mm_loadu_si128((const __m128i *)(bytes + x));
        return _mm256_slli_epi16(_mm256_cvtepu8_epi16(luma), 7);
    }
    /* Pixel 2 i lies at sample i - 1/4, pixel 2 i + 1 at i + 1/4; weights in 1/128. */
    const __m256i order = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 5,
                                           6, 5, 6, 6, 7, 6, 7, 7, 8, 7, 8, 8, 9);
    const __m256i weights = _mm256_set1_epi32(32 | 96 << 8 | 96 << 16 | 32 << 24);
    const __m128i samples = _mm_loadu_si128((const __m128i *)(bytes + x / 2 - 1));
    const __m256i pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(samples), order);
    return _mm256_maddubs_epi16(pairs, weights);
}

AVX2_INLINE __m256i lanes_avx2(const rkr_yuv_row *r, size_t channel, size_t x, bool blend,
                               bool same) {
    const __m256i upper = row_16(r->upper[channel], channel, x, same);
    if (!blend) {
        return upper;
    }
    const __m256i lower = row_16(r->lower[channel], channel, x, same);
    const __m256i weight = _mm256_set1_epi16(r->weight[channel]);
    return _mm256_add_epi16(upper, _mm256_mulhrs_epi16(_mm256_sub_epi16(lower, upper), weight));
}

/* packus works on halves: 0 2 1 3 puts the quarters in order again. */
AVX2_INLINE __m256i pack_avx2(__m256i low, __m256i high) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_srai_epi16(low, RKR_YUV_SHIFT),
                                                        _mm256_srai_epi16(high, RKR_YUV_SHIFT)),
                                    0xd8);
}

/* 32 pixels of three channels side by side. In each half of 16 pixels every channel's bytes are
 * put where one of the three vectors of the result wants them, then chosen by blends. */
AVX2_INLINE void store_interleaved_avx2(uint8_t *dst, __m256i first, __m256i green, __m256i last) {
    const __m256i a =
        _mm256_shuffle_epi8(first, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                       0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5)));
    const __m256i b =
        _mm256_shuffle_epi8(green, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                       5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10)));
    const __m256i c =
        _mm256_shuffle_epi8(last, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15)));
    const __m256i one = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i two = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    const __m256i p = _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, one), c, two);
    const __m256i q = _mm256_blendv_epi8(_mm256_blendv_epi8(b, c, one), a, two);
    const __m256i r = _mm256_blendv_epi8(_mm256_blendv_epi8(c, a, one), b, two);
    _mm256_storeu_si256((__m256i *)dst, _mm256_permute2x128_si256(p, q, 0x20));
    _mm256_storeu_si256((__m256i *)(dst + 32), _mm256_permute2x128_si256(r, p, 0x30));
    _mm256_storeu_si256((__m256i *)(dst + 64), _mm256_permute2x128_si256(q, r, 0x31));
}

/* lanes * factor, in 1/32. */
AVX2_INLINE __m256i times_avx2(__m256i lanes, int16_t factor) {
    return _mm256_mulhrs_epi16(lanes, _mm256_set1_epi16(factor));
}

AVX2_INLINE void color_32(const rkr_yuv_row *r, size_t x, reading how, uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    __m256i sum[3][2];
    for (size_t i = 0; i < 2; i++) {
        const __m256i y =
            times_avx2(lanes_avx2(r, 0, x + 16 * i, how.blend_luma, how.same), k.luma);
        const __m256i first = lanes_avx2(r, 1, x + 16 * i, how.blend_differences, how.same);
        const __m256i last = lanes_avx2(r, 2, x + 16 * i, how.blend_differences, how.same);
        const __m256i green = _mm256_add_epi16(times_avx2(first, k.first_to_green),
                                               times_avx2(last, k.last_to_green));
        const __m256i color[3] = {times_avx2(first, k.first), green, times_avx2(last, k.last)};
        for (size_t c = 0; c < 3; c++) {
            sum[c][i] =
                _mm256_add_epi16(_mm256_add_epi16(y, color[c]), _mm256_set1_epi16(k.constant[c]));
        }
    }
    store_interleaved_avx2(dst, pack_avx2(sum[0][0], sum[0][1]), pack_avx2(sum[1][0], sum[1][1]),
                           pack_avx2(sum[2][0], sum[2][1]));
}

AVX2_INLINE void color_rows_avx2(const rkr_yuv_row *of, uint8_t *dst, reading how) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + 32 <= r->width; x += 32) {
        color_32(r, x, how, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t beside[96];
        color_32(r, x, how, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

RKR_TARGET_AVX2 static void color_avx2(const rkr_yuv_row *r, uint8_t *dst) {
    READ_ROWS(color_rows_avx2, r, dst, false);
}

RKR_TARGET_AVX2 static void same_avx2(const rkr_yuv_row *r, uint8_t *dst) {
    READ_ROWS(color_rows_avx2, r, dst, true);
}

AVX2_INLINE __m256i gray_16(const rkr_yuv_row *r, size_t x, bool blend) {
    return _mm256_add_epi16(times_avx2(lanes_avx2(r, 0, x, blend, false), r->k.luma),
                            _mm256_set1_epi16(r->k.constant_of_gray));
}

RKR_TARGET_AVX2 static void gray_avx2(const rkr_yuv_row *of, uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own;
    const bool blend = r->weight[0] != 0;
    for (size_t x = 0; x < r->width; x += 32) {
        const __m256i bytes = pack_avx2(gray_16(r, x, blend), gray_16(r, x + 16, blend));
        if (x + 32 <= r->width) {
            _mm256_storeu_si256((__m256i *)(dst + x), bytes);
        } else {
            uint8_t beside[32];
            _mm256_storeu_si256((__m256i *)beside, bytes);
            memcpy(dst + x, beside, r->width - x);
        }
    }
}

/* The same on 64 pixels. */

#define AVX512_INLINE RKR_TARGET_AVX512 RKR_INLINE

/* Where byte i of the result lies among the packed bytes of the three channels, of which
 * channel 1 follows channel 0 and channel 2 is a table of its own. Packing works on quarters. */
#define PACKED(x) ((x) % 32 / 8 * 16 + (x) / 32 * 8 + (x) % 8)
#define PLACE(i) (uint8_t)(PACKED((i) / 3) + ((i) % 3 == 1 ? 64 : 0))
#define PLACES_4(i) PLACE(i), PLACE((i) + 1), PLACE((i) + 2), PLACE((i) + 3)
#define PLACES_16(i) PLACES_4(i), PLACES_4((i) + 4), PLACES_4((i) + 8), PLACES_4((i) + 12)
#define PLACES_64(i) PLACES_16(i), PLACES_16((i) + 16), PLACES_16((i) + 32), PLACES_16((i) + 48)

static const _Alignas(64) uint8_t PLACES[3][64] = {
    {PLACES_64(0)}, {PLACES_64(64)}, {PLACES_64(128)}};
/* The bytes of channel 2 in each vector of the result: every third one. */
static const uint64_t LAST_CHANNEL[3] = {0x4924924924924924, 0x2492492492492492,
                                         0x9249249249249249};

/* Samples 0, step, 2 * step .. of 64 * step bytes, step 2 or 4. */
#define EVERY_2(i) 2 * (i), 2 * (i) + 2, 2 * (i) + 4, 2 * (i) + 6
#define EVERY_2_16(i) EVERY_2(i), EVERY_2((i) + 4), EVERY_2((i) + 8), EVERY_2((i) + 12)
static const _Alignas(64) uint8_t EVERY_SECOND[64] = {EVERY_2_16(0), EVERY_2_16(16), EVERY_2_16(32),
                                                      EVERY_2_16(48)};

/* Pixel 2 i from samples i and i + 1, pixel 2 i + 1 from i + 1 and i + 2. */
#define SHARED_2(i) (i), (i) + 1, (i) + 1, (i) + 2
#define SHARED_8(i) SHARED_2(i), SHARED_2((i) + 1), SHARED_2((i) + 2), SHARED_2((i) + 3)
static const _Alignas(64) uint8_t SHARED[64] = {SHARED_8(0), SHARED_8(4), SHARED_8(8),
                                                SHARED_8(12)};

AVX512_INLINE __m512i every_second(const uint8_t *src) {
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(src), _mm512_load_si512(EVERY_SECOND),
                                    _mm512_loadu_si512(src + 64));
}

AVX512_INLINE __m512i every_fourth(const uint8_t *src) {
    return _mm512_permutex2var_epi8(every_second(src), _mm512_load_si512(EVERY_SECOND),
                                    every_second(src + 128));
}

/* Vectors end before the last sample, behind which nothing may be read. The last vector
 * overlaps the one before it. */
RKR_TARGET_AVX512 static void extract_avx512(const uint8_t *src, size_t step, size_t count,
                                             uint8_t *dst) {
    if (count <= 64) {
        extract_avx2(src, step, count, dst);
        return;
    }
    for (size_t next = 0, i = 0; next + 1 < count; next = i + 64) {
        i = rkr_min(next, count - 65);
        const __m512i bytes = step == 2 ? every_second(src + 2 * i) : every_fourth(src + 4 * i);
        _mm512_storeu_si512(dst + i, bytes);
    }
    dst[count - 1] = src[(count - 1) * step];
}

AVX512_INLINE __m512i row_32(const void *lanes, size_t channel, size_t x, bool same) {
    if (!same) {
        return _mm512_loadu_si512((const int16_t *)lanes + x);
    }
    const uint8_t *bytes = lanes;
    if (channel == 0) {
        const __m256i luma = _mm256_loadu_si256((const __m256i *)(bytes + x));
        return _mm512_slli_epi16(_mm512_cvtepu8_epi16(luma), 7);
    }
    const __m512i weights = _mm512_set1_epi32(32 | 96 << 8 | 96 << 16 | 32 << 24);
    const __m256i samples = _mm256_loadu_si256((const __m256i *)(bytes + x / 2 - 1));
    const __m512i pairs =
        _mm512_permutexvar_epi8(_mm512_load_si512(SHARED), _mm512_castsi256_si512(samples));
    return _mm512_maddubs_epi16(pairs, weights);
}

AVX512_INLINE __m512i lanes_avx512(const rkr_yuv_row *r, size_t channel, size_t x, bool blend,
                                   bool same) {
    const __m512i upper = row_32(r->upper[channel], channel, x, same);
    if (!blend) {
        return upper;
    }
    const __m512i lower = row_32(r->lower[channel], channel, x, same);
    const __m512i weight = _mm512_set1_epi16(r->weight[channel]);
    return _mm512_add_epi16(upper, _mm512_mulhrs_epi16(_mm512_sub_epi16(lower, upper), weight));
}

AVX512_INLINE __m512i times_avx512(__m512i lanes, int16_t factor) {
    return _mm512_mulhrs_epi16(lanes, _mm512_set1_epi16(factor));
}

AVX512_INLINE void color_64(const rkr_yuv_row *r, size_t x, reading how, uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    __m512i sum[3][2], bytes[3];
    for (size_t i = 0; i < 2; i++) {
        const __m512i y =
            times_avx512(lanes_avx512(r, 0, x + 32 * i, how.blend_luma, how.same), k.luma);
        const __m512i first = lanes_avx512(r, 1, x + 32 * i, how.blend_differences, how.same);
        const __m512i last = lanes_avx512(r, 2, x + 32 * i, how.blend_differences, how.same);
        const __m512i green = _mm512_add_epi16(times_avx512(first, k.first_to_green),
                                               times_avx512(last, k.last_to_green));
        const __m512i color[3] = {times_avx512(first, k.first), green, times_avx512(last, k.last)};
        for (size_t c = 0; c < 3; c++) {
            const __m512i exact =
                _mm512_add_epi16(_mm512_add_epi16(y, color[c]), _mm512_set1_epi16(k.constant[c]));
            sum[c][i] = _mm512_srai_epi16(exact, RKR_YUV_SHIFT);
        }
    }
    for (size_t c = 0; c < 3; c++) {
        bytes[c] = _mm512_packus_epi16(sum[c][0], sum[c][1]);
    }
    for (size_t i = 0; i < 3; i++) {
        const __m512i places = _mm512_load_si512(PLACES[i]);
        const __m512i two = _mm512_permutex2var_epi8(bytes[0], places, bytes[1]);
        _mm512_storeu_si512(dst + 64 * i,
                            _mm512_mask_permutexvar_epi8(two, LAST_CHANNEL[i], places, bytes[2]));
    }
}

AVX512_INLINE void color_rows_avx512(const rkr_yuv_row *of, uint8_t *dst, reading how) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + 64 <= r->width; x += 64) {
        color_64(r, x, how, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t beside[192];
        color_64(r, x, how, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

RKR_TARGET_AVX512 static void color_avx512(const rkr_yuv_row *r, uint8_t *dst) {
    READ_ROWS(color_rows_avx512, r, dst, false);
}

RKR_TARGET_AVX512 static void same_avx512(const rkr_yuv_row *r, uint8_t *dst) {
    READ_ROWS(color_rows_avx512, r, dst, true);
}

#elif defined(__ARM_NEON)

RKR_INLINE int16x8_t lanes_neon(const rkr_yuv_row *r, size_t channel, size_t x, bool blend) {
    const int16x8_t upper = vld1q_s16((const int16_t *)r->upper[channel] + x);
    if (!blend) {
        return upper;
    }
    const int16x8_t lower = vld1q_s16((const int16_t *)r->lower[channel] + x);
    return vaddq_s16(upper, vqrdmulhq_n_s16(vsubq_s16(lower, upper), r->weight[channel]));
}

/* The narrowing shift holds to 0..255. */
RKR_INLINE uint8x8_t to_bytes_neon(int16x8_t luma, int16x8_t color, int16_t constant) {
    const int16x8_t sum = vaddq_s16(vaddq_s16(luma, color), vdupq_n_s16(constant));
    return vqshrun_n_s16(sum, RKR_YUV_SHIFT);
}

RKR_INLINE void color_8(const rkr_yuv_row *r, size_t x, reading how, uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    const int16x8_t y = vqrdmulhq_n_s16(lanes_neon(r, 0, x, how.blend_luma), k.luma);
    const int16x8_t first = lanes_neon(r, 1, x, how.blend_differences);
    const int16x8_t last = lanes_neon(r, 2, x, how.blend_differences);
    const int16x8_t green =
        vaddq_s16(vqrdmulhq_n_s16(first, k.first_to_green), vqrdmulhq_n_s16(last, k.last_to_green));
    const uint8x8x3_t pixels = {{to_bytes_neon(y, vqrdmulhq_n_s16(first, k.first), k.constant[0]),
                                 to_bytes_neon(y, green, k.constant[1]),
                                 to_bytes_neon(y, vqrdmulhq_n_s16(last, k.last), k.constant[2])}};
    vst3_u8(dst, pixels);
}

RKR_INLINE void color_rows_neon(const rkr_yuv_row *of, uint8_t *dst, reading how) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + 8 <= r->width; x += 8) {
        color_8(r, x, how, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t beside[24];
        color_8(r, x, how, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

static void color_neon(const rkr_yuv_row *r, uint8_t *dst) {
    READ_ROWS(color_rows_neon, r, dst, false);
}

static void gray_neon(const rkr_yuv_row *of, uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own;
    const bool blend = r->weight[0] != 0;
    for (size_t x = 0; x < r->width; x += 8) {
        const int16x8_t y = vqrdmulhq_n_s16(lanes_neon(r, 0, x, blend), r->k.luma);
        const int16x8_t sum = vaddq_s16(y, vdupq_n_s16(r->k.constant_of_gray));
        const uint8x8_t bytes = vqshrun_n_s16(sum, RKR_YUV_SHIFT);
        if (x + 8 <= r->width) {
            vst1_u8(dst + x, bytes);
        } else {
            uint8_t beside[8];
            vst1_u8(beside, bytes);
            memcpy(dst + x, beside, r->width - x);
        }
    }
}

#endif

static const rkr_yuv_kernels PLAIN = {color_plain, gray_plain, NULL, extract_plain};
#if defined(__ARM_NEON)
static const rkr_yuv_kernels NEON = {color_neon, gray_neon, NULL, extract_plain};
#endif
#if RKR_HAVE_AVX2
static const rkr_yuv_kernels AVX2 = {color_avx2, gray_avx2, same_avx2, extract_avx2};
static const rkr_yuv_kernels AVX512 = {color_avx512, gray_avx2, same_avx512, extract_avx512};
#endif

static const rkr_yuv_kernels *const KERNELS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(&PLAIN, RKR_ON_NEON(&NEON, &PLAIN), &AVX2, &AVX512);

const rkr_yuv_kernels *rkr_yuv_kernels_in_use(void) {
    return KERNELS[rkr_cpu_level()];
}
