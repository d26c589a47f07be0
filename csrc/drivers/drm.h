/* SPDX-License-Identifier: MIT
 *
 * What all DRM devices of the kernel answer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    DRM_VERSION = 0x00,
    DRM_CLOSE = 0x09,
    DRM_EXPORT = 0x2d,
    DRM_IMPORT = 0x2e,
    DRM_DRIVERS = 0x40
}; /* a driver's own from there on */

struct drm_version {
    int major, minor, patch;
    size_t name_bytes;
    char *name;
    size_t date_bytes;
    char *date;
    size_t text_bytes;
    char *text;
};

struct drm_close {
    uint32_t handle, pad;
};

/* Of memory, as a dma-buf; and a dma-buf as memory, the same handle each time. */
struct drm_export {
    uint32_t handle, flags;
    int32_t file;
};
