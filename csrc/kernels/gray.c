/* SPDX-License-Identifier: MIT
 *
 * Rows of colour to luma, ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B, in 16 fractional bits as
 * Pillow's convert("L") has it; and rows of gray to pixels of several channels.
 *
 *     luma[x] = (19595 R + 38470 G + 7471 B + 2^15) >> 16,   R = src[x * channels + order[0]], ..
 *     dst[x * channels + c] = gray[x]
 *
 * The weight of G does not fit int16, so the AVX2 variant takes half of it with R and half
 * with B: the two products of pixels side by side that pmaddwd adds. */
#include "kernels/gray.h"
#include "kernels/vectors.h"

#include <stdbool.h>

#define WEIGHT_R 19595
#define WEIGHT_G 38470
#define WEIGHT_B 7471

/* Luma: plain C, from pixel x on. */
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

/* Eight pixels as 32-bit lanes, four in each half. */
RKR_VECTOR_INLINE __m256i luma_of_8(const uint8_t *src, size_t src_channels, __m256i red_green,
                                    __m256i green_blue) {
    const __m256i bytes =
        rkr_join_halves(_mm_loadu_si128((const __m128i *)src),
                        _mm_loadu_si128((const __m128i *)(src + 4 * src_channels)));
    const __m256i sum =
        _mm256_add_epi32(_mm256_madd_epi16(_mm256_shuffle_epi8(bytes, red_green),
                                           _mm256_set1_epi32(WEIGHT_R | (WEIGHT_G / 2) << 16)),
                         _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, green_blue),
                                           _mm256_set1_epi32(WEIGHT_G / 2 | WEIGHT_B << 16)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

RKR_VECTOR static void luma_vector(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma) {
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

#elif RKR_HAVE_VECTOR

static uint16x4_t luma_of_4(uint16x4_t a, uint16x4_t b, uint16x4_t c, const uint16_t *weight) {
    uint32x4_t sum = vmull_n_u16(a, weight[0]);
    sum = vmlal_n_u16(sum, b, weight[1]);
    return vrshrn_n_u32(vmlal_n_u16(sum, c, weight[2]), 16);
}

static void luma_vector(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma) {
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

void rkr_prepare_luma(rkr_luma_columns *at, size_t width, size_t src_channels,
                      const uint8_t *order) {
    at->width = width;
    at->src_channels = src_channels;
    memcpy(at->order, order, sizeof at->order);
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 4; i++) {
            uint8_t *lanes = at->control[k] + 4 * i; /* two of 16 bits, whose high bytes are 0 */
            lanes[0] = (uint8_t)(i * src_channels + order[k]);
            lanes[2] = (uint8_t)(i * src_channels + order[k + 1]);
            lanes[1] = lanes[3] = 0x80;
        }
    }
}

static rkr_luma_row_fn *const LUMA[RKR_CPU_LEVELS] = RKR_VARIANTS(luma_plain, luma_vector);

rkr_luma_row_fn *rkr_choose_luma_row(void) {
    return LUMA[rkr_cpu_level()];
}

/* Gray to colour. */

typedef void spread_fn(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst);

RKR_INLINE void spread_from(const uint8_t *restrict gray, size_t width, size_t channels,
                            uint8_t *restrict dst, size_t x) {
    for (; x < width; x++) {
        for (size_t c = 0; c < channels; c++) {
            dst[x * channels + c] = gray[x];
        }
    }
}

static void spread_plain(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst) {
    if (channels == 3) {
        spread_from(gray, width, 3, dst, 0);
    } else {
        spread_from(gray, width, 4, dst, 0);
    }
}

#if RKR_HAVE_VECTOR

#if RKR_HAVE_AVX2

RKR_VECTOR_INLINE void spread_all(const uint8_t *gray, size_t width, const size_t channels,
                                  uint8_t *dst) {
    __m128i control[RKR_MAX_CHANNELS]; /* byte i of the result is byte i / channels of 16 pixels */
    for (size_t k = 0; k < channels; k++) {
        uint8_t from[16];
        for (size_t i = 0; i < 16; i++) {
            from[i] = (uint8_t)((16 * k + i) / channels);
        }
        control[k] = _mm_loadu_si128((const __m128i *)from);
    }
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i pixels = _mm_loadu_si128((const __m128i *)(gray + x));
        for (size_t k = 0; k < channels; k++) {
            _mm_storeu_si128((__m128i *)(dst + x * channels + 16 * k),
                             _mm_shuffle_epi8(pixels, control[k]));
        }
    }
    spread_from(gray, width, channels, dst, x);
}

#else

RKR_INLINE void spread_all(const uint8_t *gray, size_t width, const size_t channels, uint8_t *dst) {
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const uint8x16_t pixels = vld1q_u8(gray + x);
        if (channels == 3) {
            vst3q_u8(dst + 3 * x, ((uint8x16x3_t){{pixels, pixels, pixels}}));
        } else {
            vst4q_u8(dst + 4 * x, ((uint8x16x4_t){{pixels, pixels, pixels, pixels}}));
        }
    }
    spread_from(gray, width, channels, dst, x);
}

#endif

RKR_VECTOR static void spread_vector(const uint8_t *gray, size_t width, size_t channels,
                                     uint8_t *dst) {
    if (channels == 3) {
        spread_all(gray, width, 3, dst);
    } else {
        spread_all(gray, width, 4, dst);
    }
}

#endif

static spread_fn *const SPREAD[RKR_CPU_LEVELS] = RKR_VARIANTS(spread_plain, spread_vector);

void rkr_spread_row(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst) {
    assert(channels == 3 || channels == 4);
    SPREAD[rkr_cpu_level()](gray, width, channels, dst);
}
