/* SPDX-License-Identifier: MIT
 *
 * Rows of Y, U and V to a row of RGB or gray; yuv_rows.h has the formulas and what rows hold.
 *
 * The vector variant works on blocks of 2 * RKR_LANES pixels. It reads lanes after a row's end,
 * for which rows have room; the last pixels are written through a separate block. In rows of
 * bytes the last block ends with the row and overlaps the one before it. */
#include "kernels/yuv_rows.h"
#include "kernels/sizes.h"
#include "kernels/vectors.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK (2 * RKR_LANES)

/* Plain C. */

/* A sum of `shift` fractional bits. */
RKR_INLINE uint8_t to_byte(int sum, int shift) {
    const int value = sum >> shift;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

RKR_INLINE void convert(const rkr_yuv_factors *k, int luma, int first, int last, uint8_t *pixel) {
    const int y = rkr_multiply_high(luma, k->luma);
    const int green =
        rkr_multiply_high(first, k->first_to_green) + rkr_multiply_high(last, k->last_to_green);
    pixel[0] = to_byte(y + rkr_multiply_high(first, k->first) + k->constant[0], RKR_YUV_SHIFT);
    pixel[1] = to_byte(y + green + k->constant[1], RKR_YUV_SHIFT);
    pixel[2] = to_byte(y + rkr_multiply_high(last, k->last) + k->constant[2], RKR_YUV_SHIFT);
}

static inline int lane_at(const rkr_yuv_row *r, size_t channel, size_t x) {
    const int16_t *upper = r->upper[channel], *lower = r->lower[channel];
    const int16_t weight = r->weight[channel];
    return weight == 0 ? upper[x] : rkr_blend(upper[x], lower[x], weight);
}

RKR_PLAIN static void color_plain(const rkr_yuv_row *of, uint8_t *restrict dst) {
    const rkr_yuv_row own = *of, *r = &own;
    const rkr_yuv_factors k = r->k;
    for (size_t x = 0; x < r->width; x++) {
        convert(&k, lane_at(r, 0, x), lane_at(r, 1, x), lane_at(r, 2, x), dst + 3 * x);
    }
}

RKR_PLAIN static void gray_plain(const rkr_yuv_row *of, uint8_t *restrict dst) {
    const rkr_yuv_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        dst[x] = to_byte(rkr_multiply_high(lane_at(r, 0, x), r->k.luma) + r->k.constant_of_gray,
                         RKR_YUV_SHIFT);
    }
}

RKR_INLINE int sample_of(const rkr_yuv_tint_row *r, size_t channel, size_t i) {
    const size_t at = i * r->step[channel] + r->place[channel];
    return (64 - r->weight) * r->upper[channel][at] + r->weight * r->lower[channel][at] - 8192;
}

RKR_PLAIN static void tint_plain(const rkr_yuv_tint_row *of, int16_t *const tint[3]) {
    const rkr_yuv_tint_row own = *of, *r = &own;
    for (size_t i = 0; i < r->count; i++) {
        const int first = sample_of(r, 0, i), last = sample_of(r, 1, i);
        tint[0][i] = (int16_t)rkr_multiply_high(first, r->k.first);
        tint[1][i] = (int16_t)(rkr_multiply_high(first, r->k.first_to_green) +
                               rkr_multiply_high(last, r->k.last_to_green));
        tint[2][i] = (int16_t)rkr_multiply_high(last, r->k.last);
    }
}

/* Pixel 2 i lies at sample i - 1/4, pixel 2 i + 1 at i + 1/4. */
RKR_INLINE uint8_t tint_byte(int luma, const int16_t *tint, size_t x) {
    const int16_t *own = tint + x / 2;
    const int sum = luma + 3 * own[0] + (x % 2 == 0 ? own[-1] : own[1]);
    return to_byte(sum, RKR_YUV_TINT_SHIFT);
}

RKR_PLAIN static void tinted_plain(const rkr_yuv_tinted_row *of, uint8_t *restrict dst) {
    const rkr_yuv_tinted_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        const int luma = (((r->luma[x] << 7) * r->k_luma) >> 15) + r->black;
        for (size_t c = 0; c < 3; c++) {
            dst[3 * x + c] = tint_byte(luma, r->tint[c], x);
        }
    }
}

RKR_INLINE void gray_bytes(const rkr_yuv_gray_row *of, size_t step, bool is_halved,
                           uint8_t *restrict dst) {
    const rkr_yuv_gray_row r = *of;
    for (size_t x = 0; x < r.width; x++) {
        const size_t i = x * step;
        const int upper = is_halved ? (r.upper[i] + r.upper[i + 1]) << 6 : r.upper[i] << 7;
        const int lower = is_halved ? (r.lower[i] + r.lower[i + 1]) << 6 : r.lower[i] << 7;
        dst[x] =
            to_byte(rkr_multiply_high(rkr_blend(upper, lower, r.weight), r.k_luma) + r.constant,
                    RKR_YUV_SHIFT);
    }
}

RKR_PLAIN static void same_gray_plain(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->step == 1) {
        gray_bytes(r, 1, false, dst);
    } else {
        gray_bytes(r, 2, false, dst);
    }
}

RKR_PLAIN static void halved_gray_plain(const rkr_yuv_gray_row *r, uint8_t *dst) {
    gray_bytes(r, 2, true, dst);
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

#if RKR_HAVE_VECTOR

#if RKR_HAVE_AVX2

/* Which pixel of a half goes where: channel c's byte i is wanted at 3 i + c of 48 bytes, and
 * SPREAD_c has the pixels by that place modulo 16. NATURAL(n) and PAIRED(n) say where pixel n
 * lies: in order, or the even ones before the odd ones. */
#define NATURAL(n) (n)
#define PAIRED(n) ((n) / 2 + (n) % 2 * 8)
#define SPREAD_0(of)                                                                               \
    of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), of(14), of(9), of(4), \
        of(15), of(10), of(5)
#define SPREAD_1(of)                                                                               \
    of(5), of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), of(14), of(9), \
        of(4), of(15), of(10)
#define SPREAD_2(of)                                                                        \
    of(10), of(5), of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), \
        of(14), of(9), of(4), of(15)

static const _Alignas(16) uint8_t SPREAD_NATURAL[3][16] = {
    {SPREAD_0(NATURAL)}, {SPREAD_1(NATURAL)}, {SPREAD_2(NATURAL)}};
static const _Alignas(16) uint8_t SPREAD_PAIRED[3][16] = {
    {SPREAD_0(PAIRED)}, {SPREAD_1(PAIRED)}, {SPREAD_2(PAIRED)}};

RKR_VECTOR_INLINE __m256i spread_bytes(__m256i bytes, const uint8_t places[16]) {
    const __m128i control = _mm_load_si128((const __m128i *)places);
    return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(control));
}

/* Store the pixels of three channels side by side. In each half of 16 pixels every channel's bytes
 * are put where one of the three vectors of the result wants them, then chosen by blends. */
RKR_VECTOR_INLINE void store_interleaved(uint8_t *dst, const __m256i bytes[3],
                                         const uint8_t (*places)[16]) {
    const __m256i a = spread_bytes(bytes[0], places[0]), b = spread_bytes(bytes[1], places[1]);
    const __m256i c = spread_bytes(bytes[2], places[2]);
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

/* Store a block whose channels are sums of RKR_YUV_SHIFT fractional bits. */
RKR_VECTOR_INLINE void store_color(uint8_t *dst, const rkr_lanes low[3], const rkr_lanes high[3]) {
    const __m256i bytes[3] = {rkr_pack_bytes(low[0], high[0], RKR_YUV_SHIFT),
                              rkr_pack_bytes(low[1], high[1], RKR_YUV_SHIFT),
                              rkr_pack_bytes(low[2], high[2], RKR_YUV_SHIFT)};
    store_interleaved(dst, bytes, SPREAD_NATURAL);
}

/* Store a block whose even and odd pixels are apart, of RKR_YUV_TINT_SHIFT fractional bits.
 * Packing works on halves. */
RKR_VECTOR_INLINE void store_pairs(uint8_t *dst, const rkr_lanes even[3], const rkr_lanes odd[3]) {
    __m256i bytes[3];
    for (size_t c = 0; c < 3; c++) {
        bytes[c] = _mm256_packus_epi16(_mm256_srai_epi16(even[c], RKR_YUV_TINT_SHIFT),
                                       _mm256_srai_epi16(odd[c], RKR_YUV_TINT_SHIFT));
    }
    store_interleaved(dst, bytes, SPREAD_PAIRED);
}

/* The luma of a block's even pixels and of its odd ones, times a factor of 1/2^14. */
RKR_VECTOR_INLINE void load_pairs(const uint8_t *luma, int16_t factor, rkr_lanes pair[2]) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)luma);
    const __m256i k = _mm256_set1_epi16(factor);
    pair[0] = _mm256_mulhi_epu16(_mm256_slli_epi16(bytes, 8), k);
    pair[1] = _mm256_mulhi_epu16(_mm256_and_si256(bytes, _mm256_set1_epi16(-256)), k);
}

/* The samples of each of two channels that lie alone, from upper and lower bytes side by side. */
RKR_VECTOR_INLINE __m256i blend_alone(const uint8_t *upper, const uint8_t *lower, int weight) {
    const __m128i a = _mm_loadu_si128((const __m128i *)upper);
    const __m128i b = _mm_loadu_si128((const __m128i *)lower);
    const __m256i both = rkr_join_halves(_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
    return _mm256_maddubs_epi16(both, _mm256_set1_epi16((int16_t)((64 - weight) | weight << 8)));
}

/* Blend every second of 32 bytes: the even ones, or the odd ones if `odd`. */
RKR_VECTOR_INLINE __m256i blend_pairs(const uint8_t *upper, const uint8_t *lower, int weight,
                                      bool odd) {
    const int place = odd ? 8 : 0;
    const __m256i a = _mm256_loadu_si256((const __m256i *)upper);
    const __m256i sum =
        _mm256_maddubs_epi16(a, _mm256_set1_epi16((int16_t)((64 - weight) << place)));
    if (weight == 0) {
        return sum;
    }
    const __m256i b = _mm256_loadu_si256((const __m256i *)lower);
    return _mm256_add_epi16(sum,
                            _mm256_maddubs_epi16(b, _mm256_set1_epi16((int16_t)(weight << place))));
}

/* The samples from i on, of the channel that comes first in a group before the other's. */
RKR_VECTOR_INLINE void load_samples(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                                    rkr_lanes pair[2]) {
    const uint8_t *upper = r->upper[0] + step * i, *lower = r->lower[0] + step * i;
    if (step == 1) {
        pair[0] = blend_alone(upper, lower, weight);
        pair[1] = blend_alone(r->upper[1] + i, r->lower[1] + i, weight);
    } else if (step == 2) {
        pair[0] = blend_pairs(upper, lower, weight, false);
        pair[1] = blend_pairs(upper, lower, weight, true);
    } else {
        /* Both are at even places, or both at odd ones. */
        const bool odd = r->place[0] % 2 == 1;
        const __m256i a = blend_pairs(upper, lower, weight, odd);
        const __m256i b = blend_pairs(upper + 32, lower + 32, weight, odd);
        const __m256i low = _mm256_set1_epi32(0xffff);
        const __m256i one = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
        const __m256i two = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
        pair[0] = _mm256_permute4x64_epi64(one, 0xd8);
        pair[1] = _mm256_permute4x64_epi64(two, 0xd8);
    }
    pair[0] = _mm256_sub_epi16(pair[0], _mm256_set1_epi16(8192));
    pair[1] = _mm256_sub_epi16(pair[1], _mm256_set1_epi16(8192));
}

/* A block of luma 2 bytes apart; at the end the upper bytes of pairs that end with it. */
RKR_VECTOR_INLINE void load_apart(const uint8_t *luma, bool at_end, rkr_lanes lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *src = luma + 32 * i - at_end;
        const __m256i pairs = _mm256_loadu_si256((const __m256i *)src);
        lanes[i] = at_end ? _mm256_slli_epi16(_mm256_srli_epi16(pairs, 8), 7)
                          : _mm256_srli_epi16(_mm256_slli_epi16(pairs, 8), 1);
    }
}

/* A frame comes from the L3 cache, and the CPU itself reads ahead only to the end of a page. This
 * saves a fifth of the time. Addresses after the frame do no harm. */
RKR_VECTOR_INLINE void prefetch(const uint8_t *src) {
    _mm_prefetch((const char *)((uintptr_t)src + 2048), _MM_HINT_T0);
}

#else

RKR_INLINE uint8x16_t pack_bytes(int16x8_t low, int16x8_t high) {
    return vcombine_u8(vqshrun_n_s16(low, RKR_YUV_SHIFT), vqshrun_n_s16(high, RKR_YUV_SHIFT));
}

RKR_INLINE void store_color(uint8_t *dst, const rkr_lanes low[3], const rkr_lanes high[3]) {
    vst3q_u8(dst, ((uint8x16x3_t){{pack_bytes(low[0], high[0]), pack_bytes(low[1], high[1]),
                                   pack_bytes(low[2], high[2])}}));
}

RKR_INLINE uint8x16_t zip_bytes(int16x8_t even, int16x8_t odd) {
    const uint8x8x2_t both =
        vzip_u8(vqshrun_n_s16(even, RKR_YUV_TINT_SHIFT), vqshrun_n_s16(odd, RKR_YUV_TINT_SHIFT));
    return vcombine_u8(both.val[0], both.val[1]);
}

RKR_INLINE void store_pairs(uint8_t *dst, const rkr_lanes even[3], const rkr_lanes odd[3]) {
    vst3q_u8(dst, ((uint8x16x3_t){{zip_bytes(even[0], odd[0]), zip_bytes(even[1], odd[1]),
                                   zip_bytes(even[2], odd[2])}}));
}

RKR_INLINE void load_pairs(const uint8_t *luma, int16_t factor, rkr_lanes pair[2]) {
    const uint8x8x2_t bytes = vld2_u8(luma);
    for (size_t i = 0; i < 2; i++) {
        const int16x8_t lanes = vreinterpretq_s16_u16(vshll_n_u8(bytes.val[i], 7));
        pair[i] = vqdmulhq_n_s16(lanes, factor);
    }
}

RKR_INLINE rkr_lanes blend_samples(uint8x8_t upper, uint8x8_t lower, int weight) {
    uint16x8_t sum = vmull_u8(upper, vdup_n_u8((uint8_t)(64 - weight)));
    sum = vmlal_u8(sum, lower, vdup_n_u8((uint8_t)weight));
    return vsubq_s16(vreinterpretq_s16_u16(sum), vdupq_n_s16(8192));
}

RKR_INLINE void load_samples(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                             rkr_lanes pair[2]) {
    const uint8_t *upper = r->upper[0] + step * i, *lower = r->lower[0] + step * i;
    if (step == 1) {
        pair[0] = blend_samples(vld1_u8(upper), vld1_u8(lower), weight);
        pair[1] = blend_samples(vld1_u8(r->upper[1] + i), vld1_u8(r->lower[1] + i), weight);
    } else if (step == 2) {
        const uint8x8x2_t a = vld2_u8(upper), b = vld2_u8(lower);
        pair[0] = blend_samples(a.val[0], b.val[0], weight);
        pair[1] = blend_samples(a.val[1], b.val[1], weight);
    } else {
        const uint8x8x4_t a = vld4_u8(upper), b = vld4_u8(lower);
        const bool odd = r->place[0] % 2 == 1;
        pair[0] = blend_samples(odd ? a.val[1] : a.val[0], odd ? b.val[1] : b.val[0], weight);
        pair[1] = blend_samples(odd ? a.val[3] : a.val[2], odd ? b.val[3] : b.val[2], weight);
    }
}

RKR_INLINE void load_apart(const uint8_t *luma, bool at_end, rkr_lanes lanes[2]) {
    const uint8x16_t bytes = at_end ? vld2q_u8(luma - 1).val[1] : vld2q_u8(luma).val[0];
    lanes[0] = vreinterpretq_s16_u16(vshll_n_u8(vget_low_u8(bytes), 7));
    lanes[1] = vreinterpretq_s16_u16(vshll_n_u8(vget_high_u8(bytes), 7));
}

RKR_INLINE void prefetch(const uint8_t *src) {
    (void)src;
}

#endif

/* Lanes times a factor, and with a constant added. */
RKR_VECTOR_INLINE rkr_lanes times(rkr_lanes a, int16_t factor) {
    return rkr_multiply_lanes(a, rkr_fill_lanes(factor));
}

RKR_VECTOR_INLINE rkr_lanes plus(rkr_lanes a, int16_t constant) {
    return rkr_add_lanes(a, rkr_fill_lanes(constant));
}

/* Rows of lanes. */

RKR_VECTOR_INLINE rkr_lanes blended(const rkr_yuv_row *r, size_t channel, size_t x, bool blend) {
    const rkr_lanes upper = rkr_load_lanes(r->upper[channel] + x);
    if (!blend) {
        return upper;
    }
    const rkr_lanes lower = rkr_load_lanes(r->lower[channel] + x);
    return rkr_blend_lanes(upper, lower, rkr_fill_lanes(r->weight[channel]));
}

/* `luma` and `differences`: which rows are blended of two; constants in every use, so that each
 * case is a separate loop. */
RKR_VECTOR_INLINE void color_block(const rkr_yuv_row *r, size_t x, bool luma, bool differences,
                                   uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    rkr_lanes sum[2][3];
    for (size_t i = 0; i < 2; i++) {
        const size_t at = x + i * RKR_LANES;
        const rkr_lanes y = times(blended(r, 0, at, luma), k.luma);
        const rkr_lanes first = blended(r, 1, at, differences);
        const rkr_lanes last = blended(r, 2, at, differences);
        const rkr_lanes color[3] = {
            times(first, k.first),
            rkr_add_lanes(times(first, k.first_to_green), times(last, k.last_to_green)),
            times(last, k.last)};
        for (size_t c = 0; c < 3; c++) {
            sum[i][c] = plus(rkr_add_lanes(y, color[c]), k.constant[c]);
        }
    }
    store_color(dst, sum[0], sum[1]);
}

RKR_VECTOR_INLINE void color_row(const rkr_yuv_row *of, bool luma, bool differences, uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + BLOCK <= r->width; x += BLOCK) {
        color_block(r, x, luma, differences, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t beside[3 * BLOCK];
        color_block(r, x, luma, differences, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

RKR_VECTOR static void color_vector(const rkr_yuv_row *r, uint8_t *dst) {
    const bool differences = r->weight[1] != 0;
    if (r->weight[0] != 0 && differences) {
        color_row(r, true, true, dst);
    } else if (r->weight[0] != 0) {
        color_row(r, true, false, dst);
    } else if (differences) {
        color_row(r, false, true, dst);
    } else {
        color_row(r, false, false, dst);
    }
}

RKR_VECTOR_INLINE void gray_block(const rkr_yuv_row *r, size_t x, bool blend, uint8_t *dst) {
    const rkr_lanes low = times(blended(r, 0, x, blend), r->k.luma);
    const rkr_lanes high = times(blended(r, 0, x + RKR_LANES, blend), r->k.luma);
    RKR_STORE_BYTES(dst, plus(low, r->k.constant_of_gray), plus(high, r->k.constant_of_gray),
                    RKR_YUV_SHIFT);
}

RKR_VECTOR static void gray_vector(const rkr_yuv_row *of, uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own;
    const bool blend = r->weight[0] != 0;
    size_t x = 0;
    for (; x + BLOCK <= r->width; x += BLOCK) {
        gray_block(r, x, blend, dst + x);
    }
    if (x < r->width) {
        uint8_t beside[BLOCK];
        gray_block(r, x, blend, beside);
        memcpy(dst + x, beside, r->width - x);
    }
}

/* Rows of a result of the source's size. */

RKR_VECTOR_INLINE void tint_block(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                                  int16_t *const tint[3]) {
    rkr_lanes pair[2];
    load_samples(r, step, weight, i, pair);
    const rkr_lanes green = times(pair[0], r->k.first_to_green);
    rkr_store_lanes(tint[0] + i, times(pair[0], r->k.first));
    rkr_store_lanes(tint[1] + i, rkr_add_lanes(green, times(pair[1], r->k.last_to_green)));
    rkr_store_lanes(tint[2] + i, times(pair[1], r->k.last));
}

/* The last block ends with the last sample and overlaps the one before it. */
RKR_VECTOR_INLINE void tint_row(const rkr_yuv_tint_row *of, size_t step, int weight,
                                int16_t *const tints[3]) {
    rkr_yuv_tint_row own = *of;
    const rkr_yuv_tint_row *const r = &own;
    const bool swapped = of->place[0] > of->place[1];
    int16_t *const tint[3] = {tints[swapped ? 2 : 0], tints[1], tints[swapped ? 0 : 2]};
    if (swapped) {
        own.k.first = of->k.last;
        own.k.last = of->k.first;
        own.k.first_to_green = of->k.last_to_green;
        own.k.last_to_green = of->k.first_to_green;
    }
    for (size_t i = 0; i + RKR_LANES < r->count; i += RKR_LANES) {
        tint_block(r, step, weight, i, tint);
    }
    tint_block(r, step, weight, r->count - RKR_LANES, tint);
}

RKR_VECTOR static void tint_vector(const rkr_yuv_tint_row *r, int16_t *const tint[3]) {
    const bool are_groups = r->upper[0] == r->upper[1], are_planes = r->step[0] + r->step[1] == 2;
    if (r->count < RKR_LANES || (!are_groups && !are_planes)) {
        tint_plain(r, tint);
    } else if (are_planes) {
        tint_row(r, 1, r->weight, tint);
    } else if (r->step[0] == 2) {
        tint_row(r, 2, r->weight, tint);
    } else if (r->weight == 0) {
        tint_row(r, 4, 0, tint);
    } else {
        tint_row(r, 4, r->weight, tint);
    }
}

/* A vector holds the even pixels and another the odd ones. */
RKR_VECTOR_INLINE void tinted_block(const rkr_yuv_tinted_row *r, const uint8_t *luma, size_t i,
                                    uint8_t *dst) {
    rkr_lanes y[2], sum[2][3];
    load_pairs(luma, r->k_luma, y);
    y[0] = plus(y[0], r->black);
    y[1] = plus(y[1], r->black);
    for (size_t c = 0; c < 3; c++) {
        const int16_t *tint = r->tint[c] + i;
        const rkr_lanes own = rkr_load_lanes(tint);
        const rkr_lanes thrice = rkr_add_lanes(rkr_add_lanes(own, own), own);
        sum[0][c] = rkr_add_lanes_held(y[0], rkr_add_lanes(thrice, rkr_load_lanes(tint - 1)));
        sum[1][c] = rkr_add_lanes_held(y[1], rkr_add_lanes(thrice, rkr_load_lanes(tint + 1)));
    }
    store_pairs(dst, sum[0], sum[1]);
}

RKR_VECTOR static void tinted_vector(const rkr_yuv_tinted_row *of, uint8_t *dst) {
    const rkr_yuv_tinted_row own = *of, *r = &own;
    size_t x = 0;
    for (; x + BLOCK <= r->width; x += BLOCK) {
        tinted_block(r, r->luma + x, x / 2, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t luma[BLOCK] = {0}, beside[3 * BLOCK];
        memcpy(luma, r->luma + x, r->width - x);
        tinted_block(r, luma, x / 2, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

/* Rows of bytes of luma to gray. */

/* A block of luma; `step` is 1 or 2, or 0 for rows of half the width. At the end no byte behind
 * the last luma is read, but with step 2 one before the first. */
RKR_VECTOR_INLINE void load_luma(const uint8_t *row, size_t step, size_t x, bool at_end,
                                 rkr_lanes luma[2]) {
    if (step == 2) {
        load_apart(row + 2 * x, at_end, luma);
    } else if (step == 1) {
        rkr_widen_bytes(row + x, luma);
    } else {
        luma[0] = rkr_add_neighbours(row + 2 * x, 6);
        luma[1] = rkr_add_neighbours(row + 2 * x + BLOCK, 6);
    }
}

RKR_VECTOR_INLINE void store_luma(const rkr_yuv_gray_row *r, const rkr_lanes luma[2],
                                  uint8_t *dst) {
    RKR_STORE_BYTES(dst, plus(times(luma[0], r->k_luma), r->constant),
                    plus(times(luma[1], r->k_luma), r->constant), RKR_YUV_SHIFT);
}

RKR_VECTOR_INLINE void luma_block(const rkr_yuv_gray_row *r, size_t step, bool blend, size_t x,
                                  bool at_end, uint8_t *dst) {
    rkr_lanes luma[2], lower[2];
    load_luma(r->upper, step, x, at_end, luma);
    if (blend) {
        load_luma(r->lower, step, x, at_end, lower);
        luma[0] = rkr_blend_lanes(luma[0], lower[0], rkr_fill_lanes(r->weight));
        luma[1] = rkr_blend_lanes(luma[1], lower[1], rkr_fill_lanes(r->weight));
    }
    store_luma(r, luma, dst + x);
}

RKR_VECTOR_INLINE void luma_row(const rkr_yuv_gray_row *of, size_t step, bool blend, uint8_t *dst) {
    const rkr_yuv_gray_row own = *of, *r = &own;
    for (size_t x = 0; x + BLOCK < r->width; x += BLOCK) {
        luma_block(r, step, blend, x, false, dst);
    }
    luma_block(r, step, blend, r->width - BLOCK, true, dst);
}

RKR_VECTOR static void same_gray_vector(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->width <= BLOCK) {
        same_gray_plain(r, dst);
    } else if (r->step == 1 && r->weight == 0) {
        luma_row(r, 1, false, dst);
    } else if (r->step == 1) {
        luma_row(r, 1, true, dst);
    } else if (r->weight == 0) {
        luma_row(r, 2, false, dst);
    } else {
        luma_row(r, 2, true, dst);
    }
}

/* Halved in both directions, a blend is the mean of four bytes, exactly. */
RKR_VECTOR_INLINE void mean_row(const rkr_yuv_gray_row *of, uint8_t *dst) {
    const rkr_yuv_gray_row own = *of, *r = &own;
    for (size_t next = 0, x = 0; next < r->width; next = x + BLOCK) {
        rkr_lanes luma[2];
        x = rkr_min(next, r->width - BLOCK);
        prefetch(r->upper + 2 * x);
        prefetch(r->lower + 2 * x);
        luma[0] = rkr_add_squares(r->upper + 2 * x, r->lower + 2 * x, 5);
        luma[1] = rkr_add_squares(r->upper + 2 * x + BLOCK, r->lower + 2 * x + BLOCK, 5);
        store_luma(r, luma, dst + x);
    }
}

RKR_VECTOR static void halved_gray_vector(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->width < BLOCK) {
        halved_gray_plain(r, dst);
    } else if (r->weight == 0) {
        luma_row(r, 0, false, dst);
    } else if (r->weight == 1 << 14) {
        mean_row(r, dst);
    } else {
        luma_row(r, 0, true, dst);
    }
}

RKR_VECTOR static void extract_vector(const uint8_t *src, size_t step, size_t count, uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
    }
}

#endif

#define ROWS_OF(isa)                                                 \
    {color_##isa,     gray_##isa,        tint_##isa,   tinted_##isa, \
     same_gray_##isa, halved_gray_##isa, extract_##isa}
static const rkr_yuv_rows ROWS[RKR_CPU_LEVELS] = RKR_VARIANTS(ROWS_OF(plain), ROWS_OF(vector));

const rkr_yuv_rows *rkr_choose_yuv_rows(void) {
    return &ROWS[rkr_cpu_level()];
}
