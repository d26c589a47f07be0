/* SPDX-License-Identifier: MIT
 *
 * What one writes without the package: int8 NC1HWC2 (C2 = 16) to float32 NCHW in plain tiled C and
 * with intrinsics in some 20 lines, and quantization in plain C. bench_quantization.py times them.
 *
 * On ARM their instructions and the package's are counted under emulation:
 *
 *     gcc -shared -fPIC -DMARK=124 -DQEMU_PLUGIN_API=1 -o count.so benchmarks/count_instructions.c
 *     aarch64-linux-gnu-gcc -O3 -std=gnu11 -ffp-contract=off -mtune=cortex-a55 -static -DMARK=124 \
 *         -Icsrc benchmarks/kernels_baseline.c csrc/kernels/{cpu,dequantize_nc1hwc2,interleave}.c \
 *         csrc/kernels/{layout,quantize,rows}.c -o kernels -lm
 *     qemu-aarch64 -plugin ./count.so ./kernels
 *
 * Marks come in pairs, one for each name that the program prints. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

#define C2 16

static void unpack_rest(const int8_t *src, float *dst, size_t channels, size_t hw, size_t begin,
                        int32_t zero_point, float scale) {
    for (size_t c = 0; c < channels; c++) {
        for (size_t p = begin; p < hw; p++) {
            dst[c * hw + p] = (float)(src[(c / C2 * hw + p) * C2 + c % C2] - zero_point) * scale;
        }
    }
}

void tiled_nchw(const int8_t *src, float *dst, size_t channels, size_t hw, int32_t zero_point,
                float scale) {
    for (size_t start = 0; start < hw; start += 64) {
        const size_t end = start + 64 < hw ? start + 64 : hw;
        for (size_t c = 0; c < channels; c++) {
            const int8_t *from = src + c / C2 * hw * C2 + c % C2;
            float *to = dst + c * hw;
            for (size_t p = start; p < end; p++) {
                to[p] = (float)(from[p * C2] - zero_point) * scale;
            }
        }
    }
}

#if defined(__ARM_NEON) && defined(__aarch64__)

void by_hand_nchw(const int8_t *src, float *dst, size_t channels, size_t hw, int32_t zero_point,
                  float scale) {
    const int8x8_t zero = vdup_n_s8((int8_t)zero_point);
    for (size_t first = 0; first < channels; first += C2, src += hw * C2) {
        for (size_t p = 0; p + 16 <= hw; p += 16) {
            int8x16_t v[16], w[16];
            for (size_t i = 0; i < 16; i++) {
                v[i] = vld1q_s8(src + (p + i) * C2);
            }
            for (int zip = 0; zip < 4; zip++) {
                for (size_t i = 0; i < 8; i++) {
                    w[2 * i] = vzip1q_s8(v[i], v[i + 8]);
                    w[2 * i + 1] = vzip2q_s8(v[i], v[i + 8]);
                }
                for (size_t i = 0; i < 16; i++) {
                    v[i] = w[i];
                }
            }
            for (size_t c = 0; c < 16 && first + c < channels; c++) {
                const int16x8_t half[2] = {vsubl_s8(vget_low_s8(v[c]), zero),
                                           vsubl_s8(vget_high_s8(v[c]), zero)};
                for (size_t i = 0; i < 2; i++) {
                    float *to = dst + (first + c) * hw + p + 8 * i;
                    const int32x4_t low = vmovl_s16(vget_low_s16(half[i]));
                    const int32x4_t high = vmovl_s16(vget_high_s16(half[i]));
                    vst1q_f32(to, vmulq_n_f32(vcvtq_f32_s32(low), scale));
                    vst1q_f32(to + 4, vmulq_n_f32(vcvtq_f32_s32(high), scale));
                }
            }
        }
    }
    unpack_rest(src - (channels + C2 - 1) / C2 * hw * C2, dst, channels, hw, hw / 16 * 16,
                zero_point, scale);
}

#elif defined(__x86_64__)

__attribute__((target("avx2"))) void by_hand_nchw(const int8_t *src, float *dst, size_t channels,
                                                  size_t hw, int32_t zero_point, float scale) {
    for (size_t first = 0; first < channels; first += C2, src += hw * C2) {
        for (size_t p = 0; p + 16 <= hw; p += 16) {
            __m128i v[16], w[16];
            for (size_t i = 0; i < 16; i++) {
                v[i] = _mm_loadu_si128((const __m128i *)(src + (p + i) * C2));
            }
            for (int zip = 0; zip < 4; zip++) {
                for (size_t i = 0; i < 8; i++) {
                    w[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 8]);
                    w[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 8]);
                }
                for (size_t i = 0; i < 16; i++) {
                    v[i] = w[i];
                }
            }
            for (size_t c = 0; c < 16 && first + c < channels; c++) {
                const __m128i half[2] = {v[c], _mm_srli_si128(v[c], 8)};
                for (size_t i = 0; i < 2; i++) {
                    const __m256i q = _mm256_sub_epi32(_mm256_cvtepi8_epi32(half[i]),
                                                       _mm256_set1_epi32(zero_point));
                    _mm256_storeu_ps(dst + (first + c) * hw + p + 8 * i,
                                     _mm256_mul_ps(_mm256_cvtepi32_ps(q), _mm256_set1_ps(scale)));
                }
            }
        }
    }
    unpack_rest(src - (channels + C2 - 1) / C2 * hw * C2, dst, channels, hw, hw / 16 * 16,
                zero_point, scale);
}

#else

void by_hand_nchw(const int8_t *src, float *dst, size_t channels, size_t hw, int32_t zero_point,
                  float scale) {
    unpack_rest(src, dst, channels, hw, 0, zero_point, scale);
}

#endif

void plain_quantize(const float *src, int8_t *dst, size_t len, int32_t zero_point, float scale) {
    for (size_t i = 0; i < len; i++) {
        const float value = src[i] / scale + (float)zero_point;
        const float clamped = value < -128 ? -128 : value > 127 ? 127 : value;
        dst[i] = (int8_t)lrintf(clamped);
    }
}

#ifdef MARK

#include "rkr.h"

#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(name, call)    \
    do {                     \
        puts(name);          \
        (void)syscall(MARK); \
        call;                \
        (void)syscall(MARK); \
    } while (0)

int main(void) {
    const size_t hw = 8400, channels = 84, groups = 6;
    int8_t *packed = malloc(groups * hw * C2), *narrow = malloc(channels * hw);
    float *wide = malloc(channels * hw * sizeof *wide);
    if (packed == NULL || narrow == NULL || wide == NULL) {
        return 1;
    }
    for (size_t i = 0; i < groups * hw * C2; i++) {
        packed[i] = (int8_t)(i * 37);
    }
    COUNT("tiled C, 705600 elements", tiled_nchw(packed, wide, channels, hw, -5, 0.25f));
    COUNT("by hand", by_hand_nchw(packed, wide, channels, hw, -5, 0.25f));
    COUNT("package",
          (void)rkr_dequantize_nchw(RKNN_TENSOR_INT8, packed, groups * hw * C2, wide, channels * hw,
                                    1, channels, hw, groups, hw, C2, -5, 0.25f));
    COUNT("one channel: tiled C, 8400 elements", tiled_nchw(packed, wide, 1, hw, -5, 0.25f));
    COUNT("one channel: package", (void)rkr_dequantize_nchw(RKNN_TENSOR_INT8, packed, hw * C2, wide,
                                                            hw, 1, 1, hw, 1, hw, C2, -5, 0.25f));
    COUNT("quantize: plain C, 705600 elements",
          plain_quantize(wide, narrow, channels * hw, -5, 0.25f));
    COUNT("quantize: package",
          (void)rkr_quantize(RKNN_TENSOR_INT8, wide, channels * hw, narrow, -5, 0.25f));
    return 0;
}

#endif
