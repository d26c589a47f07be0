/* SPDX-License-Identifier: MIT
 *
 * The input of a band of rows: features as they lie in memory, [group of 16 channels][row]
 * [column][16], pixels as [row][column][4]; with padding, insertion and conversion of pixels
 * done, so that the dot products know none of these. Lanes that do not exist hold anything:
 * their weights are zero. */
#include "emulator/convolution.h"

#define AT_ONCE 64 /* columns of few channels */

static int8_t convert_pixel(const emu_conversion *conversion, uint8_t value, uint32_t c) {
    int64_t v = (int8_t)value;
    if (conversion->on && conversion->offset_first) {
        v = emu_rne((int64_t)value * conversion->scale[c] + conversion->offset[c],
                    conversion->shift[c]);
    } else if (conversion->on) {
        v = emu_rne((int64_t)value * conversion->scale[c], conversion->shift[c]) +
            conversion->offset[c];
    }
    return (int8_t)emu_clip(v, -128, 127);
}

void emu_begin_band(emu_band *band) {
    const uint32_t channels = band->conv->pixels ? band->conv->in_c : 0;
    band->is_one_table = true;
    for (uint32_t c = 0; c < channels; c++) {
        for (uint32_t value = 0; value < 256; value++) {
            band->pixels[c][value] = convert_pixel(&band->conv->conversion, (uint8_t)value, c);
        }
        band->is_one_table =
            band->is_one_table && memcmp(band->pixels[c], band->pixels[0], 256) == 0;
    }
}

static size_t value_bytes(const emu_band *band) {
    return band->window->form->bytes ? 1 : 2;
}

static void store_value(const emu_band *band, uint8_t *to, size_t at, int16_t value) {
    if (band->window->form->bytes) {
        to[at] = (uint8_t)value;
    } else {
        memcpy(to + 2 * at, &value, sizeof value);
    }
}

static void pad(const emu_band *band, uint8_t *to, size_t columns) {
    const int16_t value = (int8_t)band->conv->pad_value;
    const size_t bytes = band->window->lanes * value_bytes(band);
    uint8_t column[2 * EMU_LANES];
    for (size_t i = 0; i < band->window->lanes; i++) {
        store_value(band, column, i, value);
    }
    for (size_t x = 0; x < columns; x++) {
        memcpy(to + x * bytes, column, bytes);
    }
}

/* Whole atoms that lie side by side in memory and in the band. */
static void stage_atoms(const emu_band *band, const uint8_t *line, size_t n, uint8_t *out) {
    if (!band->window->form->bytes) {
        emu_widen(line, n, (int16_t *)(void *)out);
        return;
    }
    memcpy(out, line, n);
}

/* 4 channels of `count` columns that lie `step` bytes apart. */
static void stage_thin(const emu_band *band, const uint8_t *from, size_t step, uint32_t count,
                       uint8_t *out) {
    const size_t column = (size_t)band->conv->insert_x * EMU_PIXEL_LANES * value_bytes(band);
    uint8_t packed[AT_ONCE * EMU_PIXEL_LANES];
    for (uint32_t x = 0; band->conv->insert_x != 1 && x < count; x++) {
        stage_atoms(band, from + x * step, EMU_PIXEL_LANES, out + x * column);
    }
    for (uint32_t x = 0; band->conv->insert_x == 1 && x < count; x += AT_ONCE) {
        const uint32_t n = count - x < AT_ONCE ? count - x : AT_ONCE;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(packed + i * EMU_PIXEL_LANES, from + (x + i) * step, EMU_PIXEL_LANES);
        }
        stage_atoms(band, packed, (size_t)n * EMU_PIXEL_LANES, out + x * column);
    }
}

/* Rows of pixels: what their bytes become, side by side. */
static void stage_pixels(const emu_band *band, const uint8_t *line, uint32_t count, uint8_t *out) {
    const size_t channels = band->conv->in_c;
    const size_t column = (size_t)band->conv->insert_x * EMU_PIXEL_LANES * value_bytes(band);
    int8_t pixels[AT_ONCE * EMU_PIXEL_LANES + EMU_PIXEL_LANES];
    memset(pixels, 0, sizeof pixels);
    for (uint32_t x = 0; x < count; x += AT_ONCE) {
        const uint32_t n = count - x < AT_ONCE ? count - x : AT_ONCE;
        memcpy(pixels, line + x * channels, n * channels);
        if (band->is_one_table) {
            emu_look_up(band->pixels[0], n * channels, pixels);
        }
        for (size_t c = 0; !band->is_one_table && c < channels; c++) {
            for (size_t i = c; i < n * channels; i += channels) {
                pixels[i] = band->pixels[c][(uint8_t)pixels[i]];
            }
        }
        stage_thin(band, (const uint8_t *)pixels, channels, n, out + x * column);
    }
}

/* `count` columns of a group of 16 channels, in planes of the SoC's atoms. */
static void stage_feature(const emu_band *band, uint64_t line, uint32_t group, uint32_t count,
                          uint8_t *out) {
    const emu_convolution *conv = band->conv;
    const uint32_t atom = band->emu->chip->c2_bytes;
    for (uint32_t lane = 0; lane < EMU_LANES; lane += atom) {
        const uint32_t c = group * EMU_LANES + lane;
        const uint8_t *plane = band->emu->memory + line + (uint64_t)(c / atom) * conv->in_plane;
        if (c >= conv->in_c) {
            break;
        }
        if (atom == EMU_LANES && conv->insert_x == 1) {
            stage_atoms(band, plane, (size_t)count * EMU_LANES, out);
            break;
        }
        for (uint32_t x = 0; x < count; x++) {
            const size_t at = (size_t)x * conv->insert_x * EMU_LANES + lane;
            stage_atoms(band, plane + (size_t)x * atom, atom, out + at * value_bytes(band));
        }
    }
}

void emu_stage_row(const emu_band *band, int64_t row, uint32_t at) {
    const emu_convolution *conv = band->conv;
    const emu_window *window = band->window;
    const size_t column = window->lanes * value_bytes(band);
    const bool exists = row >= 0 && row % conv->insert_y == 0 && row / conv->insert_y < conv->in_h;
    const uint32_t left = conv->pad_left, step = conv->insert_x;
    const uint32_t room = band->columns > left ? (band->columns - left + step - 1) / step : 0;
    const uint32_t count = !exists ? 0 : room < conv->in_w ? room : conv->in_w;
    const bool is_whole = count > 0 && step == 1;
    const uint64_t line =
        exists ? conv->in_address + (uint64_t)(row / conv->insert_y) * conv->in_line : 0;
    for (uint32_t group = 0; group < window->groups; group++) {
        uint8_t *out = band->values + ((size_t)group * band->rows + at) * band->columns * column;
        if (is_whole) {
            pad(band, out, left);
            pad(band, out + (left + count) * column, band->columns - left - count);
        } else {
            pad(band, out, band->columns);
        }
        if (count > 0 && conv->pixels) {
            stage_pixels(band, band->emu->memory + line, count, out + left * column);
        } else if (count > 0 && window->lanes == EMU_PIXEL_LANES) {
            stage_thin(band, band->emu->memory + line, band->emu->chip->c2_bytes, count,
                       out + left * column);
        } else if (count > 0) {
            stage_feature(band, line, group, count, out + left * column);
        }
    }
}

/* `lanes` is a constant where it is inlined. */
static inline __attribute__((always_inline)) void
sum_lanes(const int8_t *values, size_t step, uint32_t lanes, uint32_t n, int32_t *sums) {
    for (uint32_t x = 0; x < n; x++, values += step) {
        int32_t sum = 0;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            sum += values[lane];
        }
        sums[x] += sum;
    }
}

void emu_sum_channels(const emu_band *band, uint32_t at, int32_t *sums) {
    const emu_window *window = band->window;
    memset(sums, 0, band->columns * sizeof *sums);
    for (uint32_t group = 0; group < window->groups; group++) {
        const int8_t *values = (const int8_t *)band->values +
                               ((size_t)group * band->rows + at) * band->columns * window->lanes;
        const uint32_t left = band->conv->in_c - group * EMU_LANES;
        if (left >= EMU_LANES) {
            sum_lanes(values, EMU_LANES, EMU_LANES, band->columns, sums);
        } else {
            sum_lanes(values, window->lanes, left, band->columns, sums);
        }
    }
}
