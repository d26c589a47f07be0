/* SPDX-License-Identifier: MIT
 *
 * Camera frames of which nothing is resampled: to RGB of the same size, and to gray of the same or
 * half the width; yuv.h has the formulas and what rows hold. */
#include "kernels/yuv_store.h"

#include <string.h>

/* Plain C. */

RKR_INLINE int sample_of(const rkr_yuv_tint_row *r, size_t channel, size_t i) {
    const size_t at = i * r->step[channel] + r->place[channel];
    return (64 - r->weight) * r->upper[channel][at] + r->weight * r->lower[channel][at] - 8192;
}

static void tint_plain(const rkr_yuv_tint_row *of, int16_t *const tint[3]) {
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
RKR_INLINE uint8_t tinted(int luma, const int16_t *tint, size_t x) {
    const int16_t *own = tint + x / 2;
    const int sum = luma + 3 * own[0] + (x % 2 == 0 ? own[-1] : own[1]);
    return rkr_to_byte(sum, RKR_YUV_SAME_SHIFT);
}

static void same_size_plain(const rkr_yuv_same_row *of, uint8_t *restrict dst) {
    const rkr_yuv_same_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        const int luma = (((r->luma[x] << 7) * r->k_luma) >> 15) + r->black;
        for (size_t c = 0; c < 3; c++) {
            dst[3 * x + c] = tinted(luma, r->tint[c], x);
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
            rkr_to_byte(rkr_multiply_high(rkr_blend(upper, lower, r.weight), r.k_luma) + r.constant,
                        RKR_YUV_SHIFT);
    }
}

static void same_gray_plain(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->step == 1) {
        gray_bytes(r, 1, false, dst);
    } else {
        gray_bytes(r, 2, false, dst);
    }
}

static void halved_gray_plain(const rkr_yuv_gray_row *r, uint8_t *dst) {
    gray_bytes(r, 2, true, dst);
}

/* Vectors. */

#if RKR_HAVE_AVX2

/* The luma of even pixels and that of odd ones. */
AVX2_INLINE void luma_pair_avx2(const uint8_t *luma, int16_t factor, __m256i pair[2]) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)luma);
    const __m256i k = _mm256_set1_epi16(factor);
    pair[0] = _mm256_mulhi_epu16(_mm256_slli_epi16(bytes, 8), k);
    pair[1] = _mm256_mulhi_epu16(_mm256_and_si256(bytes, _mm256_set1_epi16(-256)), k);
}

/* 16 samples of each of two channels that lie alone, from upper and lower bytes side by side. */
AVX2_INLINE __m256i blend_alone_avx2(const uint8_t *upper, const uint8_t *lower, int weight) {
    const __m128i a = _mm_loadu_si128((const __m128i *)upper);
    const __m128i b = _mm_loadu_si128((const __m128i *)lower);
    const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
    return _mm256_maddubs_epi16(both, _mm256_set1_epi16((int16_t)((64 - weight) | weight << 8)));
}

/* 32 bytes, blended; of every two only the one that `odd` says. */
AVX2_INLINE __m256i blend_pairs_avx2(const uint8_t *upper, const uint8_t *lower, int weight,
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
AVX2_INLINE void samples_avx2(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                              __m256i pair[2]) {
    const uint8_t *upper = r->upper[0] + step * i, *lower = r->lower[0] + step * i;
    if (step == 1) {
        pair[0] = blend_alone_avx2(upper, lower, weight);
        pair[1] = blend_alone_avx2(r->upper[1] + i, r->lower[1] + i, weight);
    } else if (step == 2) {
        pair[0] = blend_pairs_avx2(upper, lower, weight, false);
        pair[1] = blend_pairs_avx2(upper, lower, weight, true);
    } else {
        /* Both are at even places, or both at odd ones. */
        const bool odd = r->place[0] % 2 == 1;
        const __m256i a = blend_pairs_avx2(upper, lower, weight, odd);
        const __m256i b = blend_pairs_avx2(upper + 32, lower + 32, weight, odd);
        const __m256i low = _mm256_set1_epi32(0xffff);
        const __m256i one = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
        const __m256i two = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
        pair[0] = _mm256_permute4x64_epi64(one, 0xd8);
        pair[1] = _mm256_permute4x64_epi64(two, 0xd8);
    }
    pair[0] = _mm256_sub_epi16(pair[0], _mm256_set1_epi16(8192));
    pair[1] = _mm256_sub_epi16(pair[1], _mm256_set1_epi16(8192));
}

/* Luma as lanes; at the end that of `step` 2 are the upper bytes of pairs that end with it. */
AVX2_INLINE void same_lanes_avx2(const uint8_t *luma, size_t step, bool at_end, __m256i lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        if (step == 1) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(luma + 16 * i));
            lanes[i] = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7);
        } else if (at_end) {
            const __m256i pairs = _mm256_loadu_si256((const __m256i *)(luma - 1 + 32 * i));
            lanes[i] = _mm256_slli_epi16(_mm256_srli_epi16(pairs, 8), 7);
        } else {
            const __m256i pairs = _mm256_loadu_si256((const __m256i *)(luma + 32 * i));
            lanes[i] = _mm256_srli_epi16(_mm256_slli_epi16(pairs, 8), 1);
        }
    }
}

AVX2_INLINE void halved_lanes_avx2(const uint8_t *luma, __m256i lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        const __m256i pairs = _mm256_loadu_si256((const __m256i *)(luma + 32 * i));
        lanes[i] = _mm256_maddubs_epi16(pairs, _mm256_set1_epi8(64));
    }
}

/* A frame comes from the L3 cache, and the CPU itself reads ahead to the end of a page only: with
 * this it takes a fifth less. Addresses behind the frame may be asked for. */
#define AHEAD_BYTES 2048

AVX2_INLINE void mean_lanes_avx2(const uint8_t *upper, const uint8_t *lower, __m256i lanes[2]) {
    const __m256i quarter = _mm256_set1_epi8(32);
    _mm_prefetch((const char *)((uintptr_t)upper + AHEAD_BYTES), _MM_HINT_T0);
    _mm_prefetch((const char *)((uintptr_t)lower + AHEAD_BYTES), _MM_HINT_T0);
    for (size_t i = 0; i < 2; i++) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(upper + 32 * i));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(lower + 32 * i));
        lanes[i] =
            _mm256_add_epi16(_mm256_maddubs_epi16(a, quarter), _mm256_maddubs_epi16(b, quarter));
    }
}

static const _Alignas(16) uint8_t SPREAD_PAIRED[3][16] = {
    {SPREAD_0(PAIRED)}, {SPREAD_1(PAIRED)}, {SPREAD_2(PAIRED)}};

/* Packing works on halves. */
AVX2_INLINE __m256i pack_pairs_avx2(__m256i even, __m256i odd) {
    return _mm256_packus_epi16(_mm256_srai_epi16(even, RKR_YUV_SAME_SHIFT),
                               _mm256_srai_epi16(odd, RKR_YUV_SAME_SHIFT));
}

AVX2_INLINE void store_pairs_avx2(uint8_t *dst, const __m256i even[3], const __m256i odd[3]) {
    const __m256i bytes[3] = {pack_pairs_avx2(even[0], odd[0]), pack_pairs_avx2(even[1], odd[1]),
                              pack_pairs_avx2(even[2], odd[2])};
    store_interleaved_avx2(dst, bytes, SPREAD_PAIRED);
}

#define ISA avx2
#define TARGET RKR_TARGET_AVX2
#define VECTOR __m256i
#define LANES 16
#define LOAD(lanes) _mm256_loadu_si256((const __m256i *)(lanes))
#define STORE(lanes, vector) _mm256_storeu_si256((__m256i *)(lanes), vector)
#define FILL _mm256_set1_epi16
#define ADD _mm256_add_epi16
#define ADD_HELD _mm256_adds_epi16
#define SUBTRACT _mm256_sub_epi16
#define TIMES(lanes, factor) _mm256_mulhrs_epi16(lanes, _mm256_set1_epi16(factor))
#include "kernels/yuv_same_tmpl.h"
#include "kernels/yuv_luma_tmpl.h"

#elif defined(__ARM_NEON)

RKR_INLINE void luma_pair_neon(const uint8_t *luma, int16_t factor, int16x8_t pair[2]) {
    const uint8x8x2_t bytes = vld2_u8(luma);
    for (size_t i = 0; i < 2; i++) {
        const int16x8_t lanes = vreinterpretq_s16_u16(vshll_n_u8(bytes.val[i], 7));
        pair[i] = vqdmulhq_n_s16(lanes, factor);
    }
}

RKR_INLINE uint8x16_t zip_neon(int16x8_t even, int16x8_t odd) {
    const uint8x8x2_t both =
        vzip_u8(vqshrun_n_s16(even, RKR_YUV_SAME_SHIFT), vqshrun_n_s16(odd, RKR_YUV_SAME_SHIFT));
    return vcombine_u8(both.val[0], both.val[1]);
}

RKR_INLINE void store_pairs_neon(uint8_t *dst, const int16x8_t even[3], const int16x8_t odd[3]) {
    const uint8x16x3_t pixels = {
        {zip_neon(even[0], odd[0]), zip_neon(even[1], odd[1]), zip_neon(even[2], odd[2])}};
    vst3q_u8(dst, pixels);
}

RKR_INLINE int16x8_t blend_neon(uint8x8_t upper, uint8x8_t lower, int weight) {
    uint16x8_t sum = vmull_u8(upper, vdup_n_u8((uint8_t)(64 - weight)));
    sum = vmlal_u8(sum, lower, vdup_n_u8((uint8_t)weight));
    return vsubq_s16(vreinterpretq_s16_u16(sum), vdupq_n_s16(8192));
}

/* The samples from i on, of the channel that comes first in a group before the other's. */
RKR_INLINE void samples_neon(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                             int16x8_t pair[2]) {
    const uint8_t *upper = r->upper[0] + step * i, *lower = r->lower[0] + step * i;
    if (step == 1) {
        pair[0] = blend_neon(vld1_u8(upper), vld1_u8(lower), weight);
        pair[1] = blend_neon(vld1_u8(r->upper[1] + i), vld1_u8(r->lower[1] + i), weight);
    } else if (step == 2) {
        const uint8x8x2_t a = vld2_u8(upper), b = vld2_u8(lower);
        pair[0] = blend_neon(a.val[0], b.val[0], weight);
        pair[1] = blend_neon(a.val[1], b.val[1], weight);
    } else {
        const uint8x8x4_t a = vld4_u8(upper), b = vld4_u8(lower);
        const bool odd = r->place[0] % 2 == 1;
        pair[0] =
            odd ? blend_neon(a.val[1], b.val[1], weight) : blend_neon(a.val[0], b.val[0], weight);
        pair[1] =
            odd ? blend_neon(a.val[3], b.val[3], weight) : blend_neon(a.val[2], b.val[2], weight);
    }
}

RKR_INLINE void same_lanes_neon(const uint8_t *luma, size_t step, bool at_end, int16x8_t lanes[2]) {
    uint8x16_t bytes;
    if (step == 1) {
        bytes = vld1q_u8(luma);
    } else if (at_end) {
        bytes = vld2q_u8(luma - 1).val[1];
    } else {
        bytes = vld2q_u8(luma).val[0];
    }
    lanes[0] = vreinterpretq_s16_u16(vshll_n_u8(vget_low_u8(bytes), 7));
    lanes[1] = vreinterpretq_s16_u16(vshll_n_u8(vget_high_u8(bytes), 7));
}

RKR_INLINE void halved_lanes_neon(const uint8_t *luma, int16x8_t lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        const uint16x8_t sums = vpaddlq_u8(vld1q_u8(luma + 16 * i));
        lanes[i] = vreinterpretq_s16_u16(vshlq_n_u16(sums, 6));
    }
}

RKR_INLINE void mean_lanes_neon(const uint8_t *upper, const uint8_t *lower, int16x8_t lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        const uint16x8_t sums = vpaddlq_u8(vld1q_u8(upper + 16 * i));
        const uint16x8_t all = vpadalq_u8(sums, vld1q_u8(lower + 16 * i));
        lanes[i] = vreinterpretq_s16_u16(vshlq_n_u16(all, 5));
    }
}

#define ISA neon
#define TARGET
#define VECTOR int16x8_t
#define LANES 8
#define LOAD(lanes) vld1q_s16(lanes)
#define STORE(lanes, vector) vst1q_s16(lanes, vector)
#define FILL vdupq_n_s16
#define ADD vaddq_s16
#define ADD_HELD vqaddq_s16
#define SUBTRACT vsubq_s16
#define TIMES(lanes, factor) vqrdmulhq_n_s16(lanes, factor)
#include "kernels/yuv_same_tmpl.h"
#include "kernels/yuv_luma_tmpl.h"

#endif

#define KERNELS_OF(isa) {tint_##isa, same_size_##isa, same_gray_##isa, halved_gray_##isa}
static const rkr_yuv_same_kernels PLAIN = KERNELS_OF(plain);
#if defined(__ARM_NEON)
static const rkr_yuv_same_kernels NEON = KERNELS_OF(neon);
#endif
#if RKR_HAVE_AVX2
static const rkr_yuv_same_kernels AVX2 = KERNELS_OF(avx2);
#endif

static const rkr_yuv_same_kernels *const KERNELS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(&PLAIN, RKR_ON_NEON(&NEON, &PLAIN), &AVX2, &AVX2);

const rkr_yuv_same_kernels *rkr_yuv_same_kernels_in_use(void) {
    return KERNELS[rkr_cpu_level()];
}
