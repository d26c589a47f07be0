/* SPDX-License-Identifier: MIT
 *
 * Rows of Y, U and V to a row of RGB or gray; yuv.h has the formula and what rows hold. */
#include "kernels/yuv.h"

#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Plain C. */

RKR_INLINE uint8_t to_byte(int sum) {
    const int value = sum >> RKR_YUV_SHIFT;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

RKR_INLINE void convert(const rkr_yuv_factors *k, int luma, int first, int last, uint8_t *pixel) {
    const int y = rkr_multiply_high(luma, k->luma);
    const int green =
        rkr_multiply_high(first, k->first_to_green) + rkr_multiply_high(last, k->last_to_green);
    pixel[0] = to_byte(y + rkr_multiply_high(first, k->first) + k->constant[0]);
    pixel[1] = to_byte(y + green + k->constant[1]);
    pixel[2] = to_byte(y + rkr_multiply_high(last, k->last) + k->constant[2]);
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
        dst[x] = to_byte(rkr_multiply_high(lane_at(r, 0, x), r->k.luma) + r->k.constant_of_gray);
    }
}

/* Pixel 2 i lies at sample i - 1/4, pixel 2 i + 1 at i + 1/4. */
RKR_INLINE int sample_at(const int16_t *samples, size_t x) {
    const int16_t *own = samples + x / 2;
    return 3 * own[0] + (x % 2 == 0 ? own[-1] : own[1]);
}

static void same_size_plain(const rkr_yuv_same_row *of, uint8_t *restrict dst) {
    const rkr_yuv_same_row own = *of, *r = &own;
    for (size_t x = 0; x < r->width; x++) {
        convert(&r->k, r->luma[x] << 7, sample_at(r->first, x), sample_at(r->last, x), dst + 3 * x);
    }
}

/* Vectors. */

#if RKR_HAVE_AVX2

#define AVX2_INLINE RKR_TARGET_AVX2 RKR_INLINE

AVX2_INLINE void luma_pair_avx2(const uint8_t *luma, __m256i pair[2]) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)luma);
    pair[0] = _mm256_srli_epi16(_mm256_slli_epi16(bytes, 8), 1);
    pair[1] = _mm256_slli_epi16(_mm256_srli_epi16(bytes, 8), 7);
}

/* Packing works on halves. */
AVX2_INLINE __m256i pack_avx2(__m256i low, __m256i high) {
    return _mm256_packus_epi16(_mm256_srai_epi16(low, RKR_YUV_SHIFT),
                               _mm256_srai_epi16(high, RKR_YUV_SHIFT));
}

/* 0 2 1 3 puts the quarters in order again. */
AVX2_INLINE __m256i pack_in_order_avx2(__m256i low, __m256i high) {
    return _mm256_permute4x64_epi64(pack_avx2(low, high), 0xd8);
}

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

AVX2_INLINE __m256i spread_bytes(__m256i bytes, const uint8_t places[16]) {
    const __m128i control = _mm_load_si128((const __m128i *)places);
    return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(control));
}

/* 32 pixels of three channels side by side. In each half of 16 pixels every channel's bytes are
 * put where one of the three vectors of the result wants them, then chosen by blends. */
AVX2_INLINE void store_interleaved_avx2(uint8_t *dst, const __m256i bytes[3],
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

AVX2_INLINE void store_color_avx2(uint8_t *dst, const __m256i low[3], const __m256i high[3]) {
    const __m256i bytes[3] = {pack_in_order_avx2(low[0], high[0]),
                              pack_in_order_avx2(low[1], high[1]),
                              pack_in_order_avx2(low[2], high[2])};
    store_interleaved_avx2(dst, bytes, SPREAD_NATURAL);
}

AVX2_INLINE void store_pairs_avx2(uint8_t *dst, const __m256i even[3], const __m256i odd[3]) {
    const __m256i bytes[3] = {pack_avx2(even[0], odd[0]), pack_avx2(even[1], odd[1]),
                              pack_avx2(even[2], odd[2])};
    store_interleaved_avx2(dst, bytes, SPREAD_PAIRED);
}

AVX2_INLINE void store_gray_avx2(uint8_t *dst, __m256i low, __m256i high) {
    _mm256_storeu_si256((__m256i *)dst, pack_in_order_avx2(low, high));
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
#include "kernels/yuv_same_tmpl.h"
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

RKR_INLINE void luma_pair_neon(const uint8_t *luma, int16x8_t pair[2]) {
    const uint8x8x2_t bytes = vld2_u8(luma);
    pair[0] = vreinterpretq_s16_u16(vshll_n_u8(bytes.val[0], 7));
    pair[1] = vreinterpretq_s16_u16(vshll_n_u8(bytes.val[1], 7));
}

/* The narrowing shift holds to 0..255. */
RKR_INLINE uint8x16_t pack_neon(int16x8_t low, int16x8_t high) {
    return vcombine_u8(vqshrun_n_s16(low, RKR_YUV_SHIFT), vqshrun_n_s16(high, RKR_YUV_SHIFT));
}

RKR_INLINE void store_color_neon(uint8_t *dst, const int16x8_t low[3], const int16x8_t high[3]) {
    const uint8x16x3_t pixels = {
        {pack_neon(low[0], high[0]), pack_neon(low[1], high[1]), pack_neon(low[2], high[2])}};
    vst3q_u8(dst, pixels);
}

RKR_INLINE uint8x16_t zip_neon(int16x8_t even, int16x8_t odd) {
    const uint8x8x2_t both =
        vzip_u8(vqshrun_n_s16(even, RKR_YUV_SHIFT), vqshrun_n_s16(odd, RKR_YUV_SHIFT));
    return vcombine_u8(both.val[0], both.val[1]);
}

RKR_INLINE void store_pairs_neon(uint8_t *dst, const int16x8_t even[3], const int16x8_t odd[3]) {
    const uint8x16x3_t pixels = {
        {zip_neon(even[0], odd[0]), zip_neon(even[1], odd[1]), zip_neon(even[2], odd[2])}};
    vst3q_u8(dst, pixels);
}

RKR_INLINE void store_gray_neon(uint8_t *dst, int16x8_t low, int16x8_t high) {
    vst1q_u8(dst, pack_neon(low, high));
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
#include "kernels/yuv_same_tmpl.h"

#endif

static const rkr_yuv_kernels PLAIN = {color_plain, gray_plain, same_size_plain};
#if defined(__ARM_NEON)
static const rkr_yuv_kernels NEON = {color_neon, gray_neon, same_size_neon};
#endif
#if RKR_HAVE_AVX2
static const rkr_yuv_kernels AVX2 = {color_avx2, gray_avx2, same_size_avx2};
static const rkr_yuv_kernels AVX512 = {color_avx512, gray_avx2, same_size_avx2};
#endif

static const rkr_yuv_kernels *const KERNELS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(&PLAIN, RKR_ON_NEON(&NEON, &PLAIN), &AVX2, &AVX512);

const rkr_yuv_kernels *rkr_yuv_kernels_in_use(void) {
    return KERNELS[rkr_cpu_level()];
}
