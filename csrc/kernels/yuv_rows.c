/* SPDX-License-Identifier: MIT
 *
 * Rows of Y, U and V to a row of RGB or gray; yuv.h has the formula and what rows hold. */
#include "kernels/yuv_store.h"

#include <string.h>

/* Plain C. */

RKR_INLINE void convert(const rkr_yuv_factors *k, int luma, int first, int last, uint8_t *pixel) {
    const int y = rkr_multiply_high(luma, k->luma);
    const int green =
        rkr_multiply_high(first, k->first_to_green) + rkr_multiply_high(last, k->last_to_green);
    pixel[0] = rkr_to_byte(y + rkr_multiply_high(first, k->first) + k->constant[0], RKR_YUV_SHIFT);
    pixel[1] = rkr_to_byte(y + green + k->constant[1], RKR_YUV_SHIFT);
    pixel[2] = rkr_to_byte(y + rkr_multiply_high(last, k->last) + k->constant[2], RKR_YUV_SHIFT);
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
        convert(&k, lane_at(r, 0, x), lane_at(r, 1, x), lane_at(r, 2, x), dst + 3 * x);
    }
}

static void gray_plain(const rkr_yuv_row *of, uint8_t *restrict dst) {
    const rkr_yuv_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        dst[x] = rkr_to_byte(rkr_multiply_high(lane_at(r, 0, x), r->k.luma) + r->k.constant_of_gray,
                             RKR_YUV_SHIFT);
    }
}

/* Vectors. */

#if RKR_HAVE_AVX2

static const _Alignas(16) uint8_t SPREAD_NATURAL[3][16] = {
    {SPREAD_0(NATURAL)}, {SPREAD_1(NATURAL)}, {SPREAD_2(NATURAL)}};

AVX2_INLINE void store_color_avx2(uint8_t *dst, const __m256i low[3], const __m256i high[3]) {
    const __m256i bytes[3] = {pack_in_order_avx2(low[0], high[0]),
                              pack_in_order_avx2(low[1], high[1]),
                              pack_in_order_avx2(low[2], high[2])};
    store_interleaved_avx2(dst, bytes, SPREAD_NATURAL);
}

#define ISA avx2
#define TARGET RKR_TARGET_AVX2
#define VECTOR __m256i
#define LANES 16
#define LOAD(lanes) _mm256_loadu_si256((const __m256i *)(lanes))
#define FILL _mm256_set1_epi16
#define ADD _mm256_add_epi16
#define SUBTRACT _mm256_sub_epi16
#define TIMES(lanes, factor) _mm256_mulhrs_epi16(lanes, _mm256_set1_epi16(factor))
#include "kernels/yuv_color_tmpl.h"
#include "kernels/yuv_gray_tmpl.h"
#undef ISA
#undef TARGET
#undef VECTOR
#undef LANES
#undef LOAD
#undef FILL
#undef ADD
#undef SUBTRACT
#undef TIMES

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

AVX512_INLINE void store_color_avx512(uint8_t *dst, const __m512i low[3], const __m512i high[3]) {
    __m512i bytes[3];
    for (size_t c = 0; c < 3; c++) {
        bytes[c] = _mm512_packus_epi16(_mm512_srai_epi16(low[c], RKR_YUV_SHIFT),
                                       _mm512_srai_epi16(high[c], RKR_YUV_SHIFT));
    }
    for (size_t i = 0; i < 3; i++) {
        const __m512i places = _mm512_load_si512(PLACES[i]);
        const __m512i two = _mm512_permutex2var_epi8(bytes[0], places, bytes[1]);
        _mm512_storeu_si512(dst + 64 * i,
                            _mm512_mask_permutexvar_epi8(two, LAST_CHANNEL[i], places, bytes[2]));
    }
}

#define ISA avx512
#define TARGET RKR_TARGET_AVX512
#define VECTOR __m512i
#define LANES 32
#define LOAD(lanes) _mm512_loadu_si512(lanes)
#define FILL _mm512_set1_epi16
#define ADD _mm512_add_epi16
#define SUBTRACT _mm512_sub_epi16
#define TIMES(lanes, factor) _mm512_mulhrs_epi16(lanes, _mm512_set1_epi16(factor))
#include "kernels/yuv_color_tmpl.h"

#elif defined(__ARM_NEON)

RKR_INLINE void store_color_neon(uint8_t *dst, const int16x8_t low[3], const int16x8_t high[3]) {
    const uint8x16x3_t pixels = {
        {pack_neon(low[0], high[0]), pack_neon(low[1], high[1]), pack_neon(low[2], high[2])}};
    vst3q_u8(dst, pixels);
}

#define ISA neon
#define TARGET
#define VECTOR int16x8_t
#define LANES 8
#define LOAD(lanes) vld1q_s16(lanes)
#define FILL vdupq_n_s16
#define ADD vaddq_s16
#define SUBTRACT vsubq_s16
#define TIMES(lanes, factor) vqrdmulhq_n_s16(lanes, factor)
#include "kernels/yuv_color_tmpl.h"
#include "kernels/yuv_gray_tmpl.h"

#endif

static const rkr_yuv_kernels PLAIN = {color_plain, gray_plain};
#if defined(__ARM_NEON)
static const rkr_yuv_kernels NEON = {color_neon, gray_neon};
#endif
#if RKR_HAVE_AVX2
static const rkr_yuv_kernels AVX2 = {color_avx2, gray_avx2};
static const rkr_yuv_kernels AVX512 = {color_avx512, gray_avx2};
#endif

static const rkr_yuv_kernels *const KERNELS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(&PLAIN, RKR_ON_NEON(&NEON, &PLAIN), &AVX2, &AVX512);

const rkr_yuv_kernels *rkr_yuv_kernels_in_use(void) {
    return KERNELS[rkr_cpu_level()];
}
