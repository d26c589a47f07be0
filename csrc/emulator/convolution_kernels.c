/* SPDX-License-Identifier: MIT
 *
 * Dot products of windows with 16 kernels at a time: plain C, then the same for the dot
 * product instructions of each CPU.
 *
 *     acc[i][k] = sum over taps, c of u[i, tap, c] * w[tap, c, k]
 *
 * u are bytes 0..255, w -128..127; four channels of 16 kernels lie side by side, so that a
 * vector of weights meets one number of four bytes per window. Sums wrap at 32 bits: all
 * orders give the same. */
#include "convolution.h"

#include "cpu_level.h"

#if EMU_HAVE_X86
#include <immintrin.h>
#elif EMU_HAVE_ARM64
#include <arm_neon.h>
#endif

/* Windows that are computed side by side, so that weights are read once for all of them. */
#define TILE 12

typedef void dot_fn(const emu_dot *dot, const uint8_t *input, uint32_t n, int32_t *acc,
                    int32_t *acc2);

static void dot_plain(const emu_dot *dot, const uint8_t *input, uint32_t n, int32_t *acc,
                      int32_t *acc2) {
    for (uint32_t block = 0; block < (acc2 == NULL ? 1u : 2u); block++) {
        const int8_t *weights = dot->weights + (size_t)block * dot->taps * dot->quads * 64;
        for (uint32_t i = 0; i < n; i++) {
            int32_t sums[16] = {0};
            for (uint32_t tap = 0; tap < dot->taps; tap++) {
                const uint8_t *u = input + i * dot->step + dot->tap_offsets[tap];
                const int8_t *w = weights + (size_t)tap * dot->quads * 64;
                for (uint32_t c = 0; c < dot->quads; c++, u += 4, w += 64) {
                    for (uint32_t lane = 0; lane < 16; lane++) {
                        sums[lane] =
                            (int32_t)((uint32_t)sums[lane] +
                                      (uint32_t)(u[0] * w[4 * lane] + u[1] * w[4 * lane + 1] +
                                                 u[2] * w[4 * lane + 2] + u[3] * w[4 * lane + 3]));
                    }
                }
            }
            memcpy((block == 0 ? acc : acc2) + i * 16, sums, sizeof sums);
        }
    }
}

#if EMU_HAVE_X86

static inline int four_bytes(const uint8_t *bytes) {
    int four;
    memcpy(&four, bytes, sizeof four);
    return four;
}

/* `tile` and `blocks` are constants where it is inlined: the sums stay in registers. */
static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512vnni"))) void
tile_avx512(const emu_dot *dot, const uint8_t *input, const uint32_t tile, const uint32_t blocks,
            int32_t *acc, int32_t *acc2) {
    __m512i sums[2][TILE];
    const size_t second = (size_t)dot->taps * dot->quads * 64;
#pragma GCC unroll 12
    for (uint32_t i = 0; i < tile; i++) {
        sums[0][i] = sums[1][i] = _mm512_setzero_si512();
    }
    const int8_t *w = dot->weights;
    for (uint32_t tap = 0; tap < dot->taps; tap++) {
        const uint8_t *u = input + dot->tap_offsets[tap];
        for (uint32_t c = 0; c < dot->quads; c++, u += 4, w += 64) {
            const __m512i first = _mm512_loadu_si512(w);
            const __m512i other = blocks == 2 ? _mm512_loadu_si512(w + second) : first;
#pragma GCC unroll 12
            for (uint32_t i = 0; i < tile; i++) {
                const __m512i v = _mm512_set1_epi32(four_bytes(u + i * dot->step));
                sums[0][i] = _mm512_dpbusd_epi32(sums[0][i], v, first);
                if (blocks == 2) {
                    sums[1][i] = _mm512_dpbusd_epi32(sums[1][i], v, other);
                }
            }
        }
    }
#pragma GCC unroll 12
    for (uint32_t i = 0; i < tile; i++) {
        _mm512_storeu_si512(acc + 16 * i, sums[0][i]);
        if (blocks == 2) {
            _mm512_storeu_si512(acc2 + 16 * i, sums[1][i]);
        }
    }
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"))) static void
dot_avx512(const emu_dot *dot, const uint8_t *input, uint32_t n, int32_t *acc, int32_t *acc2) {
    uint32_t i = 0;
    for (; i + 12 <= n; i += 12) {
        if (acc2 != NULL) {
            tile_avx512(dot, input + i * dot->step, 12, 2, acc + 16 * i, acc2 + 16 * i);
        } else {
            tile_avx512(dot, input + i * dot->step, 12, 1, acc + 16 * i, NULL);
        }
    }
    for (; i + 4 <= n; i += 4) {
        if (acc2 != NULL) {
            tile_avx512(dot, input + i * dot->step, 4, 2, acc + 16 * i, acc2 + 16 * i);
        } else {
            tile_avx512(dot, input + i * dot->step, 4, 1, acc + 16 * i, NULL);
        }
    }
    for (; i < n; i++) {
        tile_avx512(dot, input + i * dot->step, 1, acc2 != NULL ? 2 : 1, acc + 16 * i,
                    acc2 != NULL ? acc2 + 16 * i : NULL);
    }
}

/* Without dot products of bytes: products of 16 bits, of which a vector holds 4 kernels. */
static inline __attribute__((always_inline, target("avx2"))) void
tile_avx2(const emu_dot *dot, const uint8_t *input, const uint32_t tile, int32_t *acc) {
    __m256i sums[3][4];
#pragma GCC unroll 3
    for (uint32_t i = 0; i < tile; i++) {
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++) {
            sums[i][k] = _mm256_setzero_si256();
        }
    }
    const int8_t *w = dot->weights;
    for (uint32_t tap = 0; tap < dot->taps; tap++) {
        const uint8_t *u = input + dot->tap_offsets[tap];
        for (uint32_t c = 0; c < dot->quads; c++, u += 4, w += 64) {
            __m256i v[3];
#pragma GCC unroll 3
            for (uint32_t i = 0; i < tile; i++) {
                const __m128i four = _mm_cvtsi32_si128(four_bytes(u + i * dot->step));
                v[i] = _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(four));
            }
#pragma GCC unroll 4
            for (uint32_t k = 0; k < 4; k++) {
                const __m256i weights =
                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + 16 * k)));
#pragma GCC unroll 3
                for (uint32_t i = 0; i < tile; i++) {
                    sums[i][k] = _mm256_add_epi32(sums[i][k], _mm256_madd_epi16(v[i], weights));
                }
            }
        }
    }
#pragma GCC unroll 3
    for (uint32_t i = 0; i < tile; i++) { /* two lanes belong to each kernel */
        const __m256i low = _mm256_hadd_epi32(sums[i][0], sums[i][1]);
        const __m256i high = _mm256_hadd_epi32(sums[i][2], sums[i][3]);
        _mm256_storeu_si256((__m256i *)(acc + 16 * i), _mm256_permute4x64_epi64(low, 0xd8));
        _mm256_storeu_si256((__m256i *)(acc + 16 * i + 8), _mm256_permute4x64_epi64(high, 0xd8));
    }
}

#define TILE_FUNCTION tile_avx2
#define PIXELS 3
#define TARGET __attribute__((target("avx2")))
#include "convolution_dot_tmpl.h"

#elif EMU_HAVE_ARM64

/* sdot wants both signed: u - 128, and 128 times the weights' sum is added at the end. */
static inline __attribute__((always_inline, target("arch=armv8.2-a+dotprod"))) void
tile_dotprod(const emu_dot *dot, const uint8_t *input, const uint32_t tile, int32_t *acc) {
    int32x4_t sums[4][4], all[4];
    const uint8x16_t flip = vdupq_n_u8(0x80);
    const int8x16_t ones = vdupq_n_s8(1);
    for (uint32_t k = 0; k < 4; k++) {
        all[k] = vdupq_n_s32(0);
        for (uint32_t i = 0; i < tile; i++) {
            sums[i][k] = vdupq_n_s32(0);
        }
    }
    const int8_t *w = dot->weights;
    for (uint32_t tap = 0; tap < dot->taps; tap++) {
        const uint8_t *u = input + dot->tap_offsets[tap];
        for (uint32_t c = 0; c < dot->quads; c++, u += 4, w += 64) {
            int8x16_t v[4];
            for (uint32_t i = 0; i < tile; i++) {
                uint32_t four;
                memcpy(&four, u + i * dot->step, sizeof four);
                v[i] = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_u32(vdupq_n_u32(four)), flip));
            }
            for (uint32_t k = 0; k < 4; k++) {
                const int8x16_t weights = vld1q_s8(w + 16 * k);
                all[k] = vdotq_s32(all[k], weights, ones);
                for (uint32_t i = 0; i < tile; i++) {
                    sums[i][k] = vdotq_s32(sums[i][k], v[i], weights);
                }
            }
        }
    }
    for (uint32_t i = 0; i < tile; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            vst1q_s32(acc + 16 * i + 4 * k, vaddq_s32(sums[i][k], vshlq_n_s32(all[k], 7)));
        }
    }
}

#define TILE_FUNCTION tile_dotprod
#define PIXELS 4
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#include "convolution_dot_tmpl.h"

#endif

void emu_dot_blocks(const emu_dot *dot, uint32_t n, int32_t *acc, int32_t *acc2) {
    switch (emu_cpu_level()) {
#if EMU_HAVE_X86
    case EMU_CPU_AVX512:
        dot_avx512(dot, dot->input, n, acc, acc2);
        return;
    case EMU_CPU_AVX2:
        dot_blocks(dot, dot->input, n, acc, acc2);
        return;
#elif EMU_HAVE_ARM64
    case EMU_CPU_DOTPROD:
        dot_blocks(dot, dot->input, n, acc, acc2);
        return;
#endif
    default:
        dot_plain(dot, dot->input, n, acc, acc2);
        return;
    }
}

/* ---- depthwise, sums of channels: plain loops in wider vectors -------------------- */

static inline __attribute__((always_inline)) void depthwise(const emu_dot *dot, uint32_t n,
                                                            int32_t *acc) {
    for (uint32_t i = 0; i < n; i++) {
        int32_t sums[16] = {0};
        for (uint32_t tap = 0; tap < dot->taps; tap++) {
            const uint8_t *u = dot->input + i * dot->step + dot->tap_offsets[tap] + dot->channel;
            const int16_t *w = dot->words + (size_t)tap * 16;
            for (uint32_t lane = 0; lane < 16; lane++) {
                sums[lane] += (u[lane] - EMU_BIAS_OF_U) * w[lane];
            }
        }
        memcpy(acc + i * 16, sums, sizeof sums);
    }
}

static inline __attribute__((always_inline)) void
sum_channels(const uint8_t *bytes, size_t pixels, uint32_t channels, uint32_t step, int32_t *sums) {
    for (size_t i = 0; i < pixels; i++, bytes += step) {
        int32_t sum = 0;
        for (uint32_t c = 0; c < channels; c++) {
            sum += bytes[c];
        }
        sums[i] = sum;
    }
}

#if EMU_HAVE_X86
__attribute__((target("avx2"))) static void depthwise_avx2(const emu_dot *dot, uint32_t n,
                                                           int32_t *acc) {
    depthwise(dot, n, acc);
}

__attribute__((target("avx2"))) static void sum_channels_avx2(const uint8_t *bytes, size_t pixels,
                                                              uint32_t channels, uint32_t step,
                                                              int32_t *sums) {
    if (channels % 16 != 0) {
        sum_channels(bytes, pixels, channels, step, sums);
        return;
    }
    for (size_t i = 0; i < pixels; i++, bytes += step) {
        __m128i sum = _mm_setzero_si128();
        for (uint32_t c = 0; c < channels; c += 16) {
            const __m128i sixteen = _mm_loadu_si128((const __m128i *)(bytes + c));
            sum = _mm_add_epi64(sum, _mm_sad_epu8(sixteen, _mm_setzero_si128()));
        }
        sums[i] = _mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2);
    }
}
#endif

void emu_dot_depthwise(const emu_dot *dot, uint32_t n, int32_t *acc) {
#if EMU_HAVE_X86
    if (emu_cpu_level() != EMU_CPU_PLAIN) {
        depthwise_avx2(dot, n, acc);
        return;
    }
#endif
    depthwise(dot, n, acc);
}

void emu_sum_channels(const uint8_t *bytes, size_t pixels, uint32_t channels, uint32_t step,
                      int32_t *sums) {
#if EMU_HAVE_X86
    if (emu_cpu_level() != EMU_CPU_PLAIN) {
        sum_channels_avx2(bytes, pixels, channels, step, sums);
        return;
    }
#endif
    sum_channels(bytes, pixels, channels, step, sums);
}
