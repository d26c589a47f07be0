/* SPDX-License-Identifier: MIT
 *
 * Rows of colour to luma, ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B, in 16 fractional bits as
 * Pillow's convert("L") has it:
 *
 *     luma = (19595 R + 38470 G + 7471 B + 2^15) >> 16
 *
 * The weight of G does not fit int16, so the x86 variants take half of it with R and half
 * with B: the two products of pixels side by side that pmaddwd adds. */
#include "kernels/resize.h"

#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define WEIGHT_R 19595
#define WEIGHT_G 38470
#define WEIGHT_B 7471

/* Plain C, from pixel x on. */
RKR_INLINE void luma_from(const uint8_t *restrict src, const rkr_luma_columns *at,
                          uint8_t *restrict luma, size_t x) {
    const size_t red = at->order[0], green = at->order[1], blue = at->order[2];
    for (; x < at->width; x++) {
        const uint8_t *pixel = src + x * at->src_channels;
        const uint32_t sum = WEIGHT_R * (uint32_t)pixel[red] + WEIGHT_G * (uint32_t)pixel[green] +
                             WEIGHT_B * (uint32_t)pixel[blue];
        luma[x] = (uint8_t)((sum + 0x8000) >> 16);
    }
}

static void luma_plain(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma) {
    luma_from(src, at, luma, 0);
}

#if RKR_HAVE_AVX2

#define RED_GREEN (WEIGHT_R | (WEIGHT_G / 2) << 16)
#define GREEN_BLUE (WEIGHT_G / 2 | WEIGHT_B << 16)

/* Eight pixels as 32-bit lanes, four in each half. */
RKR_TARGET_AVX2 RKR_INLINE __m256i luma_of_8(const uint8_t *src, size_t src_channels,
                                             __m256i red_green, __m256i green_blue) {
    const __m128i low = _mm_loadu_si128((const __m128i *)src);
    const __m128i high = _mm_loadu_si128((const __m128i *)(src + 4 * src_channels));
    const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    const __m256i sum = _mm256_add_epi32(
        _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, red_green), _mm256_set1_epi32(RED_GREEN)),
        _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, green_blue), _mm256_set1_epi32(GREEN_BLUE)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

RKR_TARGET_AVX2 static void luma_avx2(const uint8_t *src, const rkr_luma_columns *at,
                                      uint8_t *luma) {
    const __m256i rg =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at->control[0]));
    const __m256i gb =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at->control[1]));
    /* Packing works on halves: the chunks of four pixels come out as 0 2 4 6 1 3 5 7. */
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const size_t n = at->src_channels;
    size_t x = 0;
    /* The last four of 32 pixels are read as 16 bytes: at most four more than they have. */
    for (; x + 34 <= at->width; x += 32) {
        const uint8_t *from = src + n * x;
        const __m256i first =
            _mm256_packus_epi32(luma_of_8(from, n, rg, gb), luma_of_8(from + 8 * n, n, rg, gb));
        const __m256i second = _mm256_packus_epi32(luma_of_8(from + 16 * n, n, rg, gb),
                                                   luma_of_8(from + 24 * n, n, rg, gb));
        const __m256i bytes = _mm256_packus_epi16(first, second);
        _mm256_storeu_si256((__m256i *)(luma + x), _mm256_permutevar8x32_epi32(bytes, in_order));
    }
    luma_from(src, at, luma, x);
}

/* 16 pixels at a time; the rest under a mask. */
RKR_TARGET_AVX512 static void luma_avx512(const uint8_t *src, const rkr_luma_columns *at,
                                          uint8_t *luma) {
    const size_t width = at->width, src_channels = at->src_channels;
    const __m512i red_green = _mm512_loadu_si512(at->control[0]);
    const __m512i green_blue = _mm512_loadu_si512(at->control[1]);
    const __mmask64 low_bytes = 0x5555555555555555;
    for (size_t x = 0; x < width; x += 16) {
        const size_t pixels = rkr_min(16, width - x);
        const __mmask64 readable = ~(__mmask64)0 >> (64 - pixels * src_channels);
        const __m512i bytes = _mm512_maskz_loadu_epi8(readable, src + x * src_channels);
        const __m512i first = _mm512_maskz_permutexvar_epi8(low_bytes, red_green, bytes);
        const __m512i second = _mm512_maskz_permutexvar_epi8(low_bytes, green_blue, bytes);
        const __m512i sum =
            _mm512_add_epi32(_mm512_madd_epi16(first, _mm512_set1_epi32(RED_GREEN)),
                             _mm512_madd_epi16(second, _mm512_set1_epi32(GREEN_BLUE)));
        const __m512i rounded =
            _mm512_srli_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(0x8000)), 16);
        const __m128i narrow = _mm512_cvtepi32_epi8(rounded);
        if (pixels == 16) {
            _mm_storeu_si128((__m128i *)(luma + x), narrow);
        } else {
            _mm_mask_storeu_epi8(luma + x, (__mmask16)(0xffff >> (16 - pixels)), narrow);
        }
    }
}

#elif defined(__ARM_NEON)

static uint16x4_t luma_of_4(uint16x4_t a, uint16x4_t b, uint16x4_t c, const uint16_t *weight) {
    uint32x4_t sum = vmull_n_u16(a, weight[0]);
    sum = vmlal_n_u16(sum, b, weight[1]);
    return vrshrn_n_u32(vmlal_n_u16(sum, c, weight[2]), 16);
}

static void luma_neon(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma) {
    const uint8_t *order = at->order;
    uint16_t weight[RKR_MAX_CHANNELS] = {0};
    const bool distinct = order[0] != order[1] && order[1] != order[2] && order[0] != order[2];
    if (at->src_channels != 3 || !distinct) {
        luma_plain(src, at, luma);
        return;
    }
    weight[order[0]] = WEIGHT_R;
    weight[order[1]] = WEIGHT_G;
    weight[order[2]] = WEIGHT_B;
    size_t x = 0;
    for (; x + 8 <= at->width; x += 8) {
        const uint8x8x3_t pixels = vld3_u8(src + 3 * x);
        const uint16x8_t a = vmovl_u8(pixels.val[0]), b = vmovl_u8(pixels.val[1]);
        const uint16x8_t c = vmovl_u8(pixels.val[2]);
        const uint16x4_t low = luma_of_4(vget_low_u16(a), vget_low_u16(b), vget_low_u16(c), weight);
        const uint16x4_t high =
            luma_of_4(vget_high_u16(a), vget_high_u16(b), vget_high_u16(c), weight);
        vst1_u8(luma + x, vmovn_u16(vcombine_u16(low, high)));
    }
    luma_from(src, at, luma, x);
}

#endif

void rkr_luma_columns_init(rkr_luma_columns *at, size_t width, size_t src_channels,
                           const uint8_t *order) {
    at->width = width;
    at->src_channels = src_channels;
    memcpy(at->order, order, sizeof at->order);
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 16; i++) {
            uint8_t *lanes = at->control[k] + 4 * i; /* two of 16 bits, whose high bytes are 0 */
            lanes[0] = (uint8_t)(i * src_channels + order[k]);
            lanes[2] = (uint8_t)(i * src_channels + order[k + 1]);
            lanes[1] = lanes[3] = 0x80;
        }
    }
}

static rkr_luma_row_fn *const CONVERT[RKR_CPU_LEVELS] =
    RKR_VARIANTS(luma_plain, RKR_ON_NEON(luma_neon, luma_plain), luma_avx2, luma_avx512);

rkr_luma_row_fn *rkr_luma_converter(void) {
    return CONVERT[rkr_cpu_level()];
}
