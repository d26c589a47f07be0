/* SPDX-License-Identifier: MIT
 *
 * Every byte that a decoded task reads lies in the machine's memory, and every byte that it
 * writes lies behind the constants; sizes whose products could overflow are refused. What
 * passes here needs no check when it runs.
 *
 * It also ends soon: no byte is read or written twice in one pass, and every window meets the
 * input. So the steps of a task are bounded by the file's memory times its weights. */
#include "emulator/decode.h"

#include "emulator/numbers.h"

/* The largest side and number of channels or kernels that fit in the registers. */
#define MAX_SIDE 8192u
#define MAX_CHANNELS 65536u

/* The bytes from the first to the last of `planes` x `lines` x `pixels`; where they overlap,
 * as many as they would be side by side. */
static uint64_t extent(uint64_t planes, uint64_t plane, uint64_t lines, uint64_t line,
                       uint64_t pixels, uint64_t pixel, uint64_t bytes) {
    const uint64_t last = (planes - 1) * plane + (lines - 1) * line + (pixels - 1) * pixel + bytes;
    const uint64_t all = planes * lines * pixels * bytes;
    return last < all ? all : last;
}

static bool is_size(uint32_t w, uint32_t h, uint32_t c) {
    return w >= 1 && w <= MAX_SIDE && h >= 1 && h <= MAX_SIDE && c >= 1 && c <= MAX_CHANNELS;
}

static uint32_t groups_of(uint32_t c, uint32_t group) {
    return (c + group - 1) / group;
}

static bool check_input(rkr_emu *emu, const emu_convolution *conv) {
    const uint64_t bytes = conv->wide ? 2 : 1;
    uint64_t last;
    if (conv->pixels) {
        last = extent(1, 0, conv->in_h, conv->in_line, conv->in_w, conv->in_c * bytes,
                      conv->in_c * bytes);
    } else {
        const uint32_t atom = emu->chip->c2_bytes;
        const uint32_t group = conv->wide ? atom / 2 : atom;
        last = extent(groups_of(conv->in_c, group), conv->in_plane, conv->in_h, conv->in_line,
                      conv->in_w, atom, atom);
    }
    return emu_inside(emu, conv->in_address, last) ||
           emu_refuse(emu, "an input at 0x%x of %llu bytes outside of memory", conv->in_address,
                      (unsigned long long)last);
}

/* Whether the first and the last window of a row or column meet the input. */
static bool meets_input(uint32_t in, uint32_t insert, uint32_t out, uint32_t stride, uint32_t pad,
                        uint32_t kernel, uint32_t dilation) {
    return pad <= (uint64_t)(kernel - 1) * dilation &&
           (uint64_t)(out - 1) * stride < (uint64_t)in * insert + pad;
}

static bool check_windows(rkr_emu *emu, const emu_convolution *conv) {
    return (meets_input(conv->in_w, conv->insert_x, conv->out_w, conv->stride_x, conv->pad_left,
                        conv->kernel_w, conv->dilation_x) &&
            meets_input(conv->in_h, conv->insert_y, conv->out_h, conv->stride_y, conv->pad_top,
                        conv->kernel_h, conv->dilation_y)) ||
           emu_refuse(emu, "windows outside of the input: %ux%u of %ux%u", conv->out_w, conv->out_h,
                      conv->in_w, conv->in_h);
}

static bool check_convolution(rkr_emu *emu, const emu_task *task) {
    const emu_convolution *conv = &task->conv;
    if (!is_size(conv->in_w, conv->in_h, conv->in_c) ||
        !is_size(conv->out_w, conv->out_h, conv->kernels) || conv->kernel_w < 1 ||
        conv->kernel_w > 32 || conv->kernel_h < 1 || conv->kernel_h > 32) {
        return emu_refuse(emu, "a convolution of %ux%ux%u by %ux%u to %ux%ux%u", conv->in_w,
                          conv->in_h, conv->in_c, conv->kernel_w, conv->kernel_h, conv->out_w,
                          conv->out_h, conv->kernels);
    }
    if (task->dpu.w != conv->out_w || task->dpu.h != conv->out_h) {
        return emu_refuse(emu, "a convolution to %ux%u whose results are %ux%u", conv->out_w,
                          conv->out_h, task->dpu.w, task->dpu.h);
    }
    if (conv->pixels && conv->in_c > 4) {
        return emu_refuse(emu, "pixels of %u channels", conv->in_c);
    }
    return check_windows(emu, conv) && check_input(emu, conv);
}

/* Of the values of `channels`, whole groups: see dpu.c. */
static uint64_t block_bytes(const emu_dpu *dpu, const emu_stage *stage, uint32_t channels) {
    const uint32_t parts = stage->block_parts, offset = dpu->interleaved_block ? 1 : 2;
    const uint64_t each = (parts & 1 ? 4u : 0u) + (parts & 2 ? offset : 0u) + (parts & 4 ? 2u : 0u);
    return each * channels;
}

static bool check_stage(rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage) {
    if (stage->block_parts == 0) {
        return true;
    }
    const uint32_t padded = emu_align(dpu->c, 16);
    const uint64_t bytes = dpu->is_float ? 4ull * dpu->c : block_bytes(dpu, stage, padded);
    return emu_inside(emu, stage->block, bytes) ||
           emu_refuse(emu, "values of channels at 0x%x outside of memory", stage->block);
}

/* They decide when a model is opened whether sums fit and how products are formed: no run may
 * change them. A file ends behind the last group of channels, as far as those exist. */
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu) {
    const emu_stage *bs = &dpu->bs;
    const uint32_t group = dpu->interleaved_block ? 8 : dpu->bias_group;
    const uint64_t bytes = block_bytes(dpu, bs, emu_align(dpu->c, group));
    return dpu->weight_offset != EMU_MEMORY ||
           (bs->block >= emu->model->command_bytes &&
            bs->block + bytes <= emu->model->constant_bytes) ||
           emu_refuse(emu, "offsets of weights at 0x%x that are no constants", bs->block);
}

static bool check_operand(rkr_emu *emu, const emu_dpu *dpu) {
    const emu_ew *ew = &dpu->ew;
    if (ew->op == EMU_EW_NONE || ew->source != EMU_MEMORY) {
        return true;
    }
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, ew->precision);
    const uint32_t group = atom / emu_bytes_of(ew->precision);
    const uint64_t pixels = ew->per_channel ? 1 : (uint64_t)dpu->w * dpu->h;
    const uint64_t bytes = extent(groups_of(dpu->c, group), ew->plane, 1, 0, pixels, atom, atom);
    return emu_inside(emu, ew->address, bytes) ||
           emu_refuse(emu, "an operand at 0x%x outside of memory", ew->address);
}

static bool check_source(rkr_emu *emu, const emu_dpu *dpu) {
    if (!dpu->from_memory) {
        return true;
    }
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, dpu->in_precision);
    const uint32_t planes = groups_of(dpu->c, atom / emu_bytes_of(dpu->in_precision));
    const uint64_t bytes = extent(dpu->in_combined ? (planes + 1) / 2 : planes, dpu->in_plane,
                                  dpu->h, dpu->in_line, dpu->w, atom, atom);
    return (emu_inside(emu, dpu->in_address, bytes) &&
            (!dpu->in_combined || emu_inside(emu, dpu->in_odd_address, bytes))) ||
           emu_refuse(emu, "a source at 0x%x of %llu bytes outside of memory", dpu->in_address,
                      (unsigned long long)bytes);
}

static bool check_dpu(rkr_emu *emu, const emu_dpu *dpu) {
    if (!is_size(dpu->w, dpu->h, dpu->c) || dpu->repeat_x > 8 || dpu->repeat_y > 8) {
        return emu_refuse(emu, "results of %ux%ux%u", dpu->w, dpu->h, dpu->c);
    }
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, dpu->out_precision);
    const uint32_t group = atom / emu_bytes_of(dpu->out_precision);
    const uint64_t bytes =
        extent(groups_of(dpu->c, group), dpu->out_plane, (uint64_t)dpu->h * dpu->repeat_y,
               dpu->out_line, (uint64_t)dpu->w * dpu->repeat_x, dpu->out_pixel, atom);
    if (!emu_writable(emu, dpu->out_address, bytes)) {
        return emu_refuse(emu, "results at 0x%x of %llu bytes outside of the tensors' memory",
                          dpu->out_address, (unsigned long long)bytes);
    }
    return check_source(emu, dpu) && check_operand(emu, dpu) && check_stage(emu, dpu, &dpu->bs) &&
           check_stage(emu, dpu, &dpu->bn);
}

/* Its registers do not tell int16 from int8; the node's input does, if the task has a node. Cores
 * that share a node of another kind meet in a pooling of a few bytes. */
static bool check_pooled_type(rkr_emu *emu, const emu_task *task) {
    const rkr_emu_node *node = &emu->nodes[task->node].public;
    const emu_model *model = emu->model;
    const bool is_meeting = model->meeting != 0 && task->pool.out_address >= model->meeting;
    if (node->n_inputs == 0 || is_meeting) {
        return true;
    }
    const uint32_t bytes = emu->model->tensors[node->inputs[0]].public.elem_bytes;
    return bytes == emu_bytes_of(task->pool.precision) ||
           emu_refuse(emu, "pooling of values of %u bytes", bytes);
}

static bool check_pooling(rkr_emu *emu, const emu_pooling *pool) {
    const uint32_t group = pool->atom_bytes / emu_bytes_of(pool->precision);
    if (!is_size(pool->in_w, pool->in_h, pool->c) || !is_size(pool->out_w, pool->out_h, 1)) {
        return emu_refuse(emu, "pooling of %ux%ux%u to %ux%u", pool->in_w, pool->in_h, pool->c,
                          pool->out_w, pool->out_h);
    }
    const uint32_t planes = groups_of(pool->c, group);
    const uint64_t source = extent(planes, pool->in_plane, pool->in_h, pool->in_line, pool->in_w,
                                   pool->atom_bytes, pool->atom_bytes);
    const uint64_t result = extent(planes, pool->out_plane, pool->out_h, pool->out_line,
                                   pool->out_w, pool->atom_bytes, pool->atom_bytes);
    return (emu_inside(emu, pool->in_address, source) &&
            emu_writable(emu, pool->out_address, result)) ||
           emu_refuse(emu, "pooling from 0x%x to 0x%x outside of memory", pool->in_address,
                      pool->out_address);
}

bool emu_check_task(rkr_emu *emu, const emu_task *task) {
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        return check_convolution(emu, task) && check_dpu(emu, &task->dpu);
    case EMU_TASK_DPU:
        return check_dpu(emu, &task->dpu);
    case EMU_TASK_POOLING:
        return check_pooled_type(emu, task) && check_pooling(emu, &task->pool);
    default:
        return true;
    }
}
