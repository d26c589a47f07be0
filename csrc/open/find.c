/* SPDX-License-Identifier: MIT
 *
 * Finds the NPU's driver: a DRM device by its name, or /dev/rknpu.
 *
 * RKNN_OPEN_DEVICE=/dev/... names the file; without it the first of them that there is. */
#define _GNU_SOURCE
#include "find.h"

#include "drivers/drm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MOST_NODES 16
#define NAME_BYTES 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static open_device *found; /* never freed: graphs of a parent still name its own */

/* The driver of an open file; NULL: another one's. /dev/rknpu answers the question, too, as it
 * looks at a call's number alone, and says nothing. */
static const open_driver *driver_of(open_device *device) {
    char name[NAME_BYTES] = "";
    struct drm_version version = {.name_bytes = sizeof name - 1, .name = name};
    if (open_call(device, _IOWR('d', DRM_VERSION, struct drm_version), &version) != 0) {
        return NULL;
    }
    if (name[0] == '\0') {
        return NULL;
    }
    device->is_drm = true;
    device->version = (uint32_t)(version.major * 10000 + version.minor * 100 + version.patch);
    return strcmp(name, open_rknpu.name) == 0    ? &open_rknpu
           : strcmp(name, open_rocket.name) == 0 ? &open_rocket
                                                 : NULL;
}

static void note(char *reason, size_t size, const char *path, const char *why) {
    const size_t used = strlen(reason);
    snprintf(reason + used, size - used, "%s%s: %s", used == 0 ? "" : "; ", path, why);
}

/* What is there and cannot be used is said; what is not there is no news. */
static bool try_path(const char *path, bool is_said, char *reason, size_t size) {
    open_device device = {.file = open(path, O_RDWR | O_CLOEXEC), .process = getpid()};
    snprintf(device.path, sizeof device.path, "%s", path);
    if (device.file < 0) {
        if (errno != ENOENT || is_said) {
            note(reason, size, path, strerror(errno));
        }
        return false;
    }
    device.driver = driver_of(&device);
    if (device.driver == NULL && strstr(path, "rknpu") != NULL) {
        device.driver = &open_rknpu;
    }
    if (device.driver == NULL) {
        close(device.file);
        if (is_said) {
            note(reason, size, path, "not an NPU that is known");
        }
        return false;
    }
    device.driver->describe(&device);
    found = malloc(sizeof *found);
    if (found == NULL) {
        close(device.file);
        return false;
    }
    *found = device;
    return true;
}

static bool search(char *reason, size_t size) {
    static const char *const forms[] = {"/dev/accel/accel%d", "/dev/dri/renderD%d"};
    const char *named = getenv("RKNN_OPEN_DEVICE");
    if (named != NULL && named[0] != '\0') {
        return try_path(named, true, reason, size);
    }
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        for (int i = 0; i < MOST_NODES; i++) {
            char path[DEVICE_BYTES];
            snprintf(path, sizeof path, forms[form], (int)form * 128 + i);
            if (try_path(path, false, reason, size)) {
                return true;
            }
        }
    }
    return try_path("/dev/rknpu", false, reason, size);
}

open_device *open_find_device(char *reason, size_t reason_size) {
    reason[0] = '\0';
    pthread_mutex_lock(&lock);
    const bool is_there = (found != NULL && !open_is_foreign(found)) || search(reason, reason_size);
    open_device *device = is_there ? found : NULL;
    pthread_mutex_unlock(&lock);
    if (device == NULL && reason[0] == '\0') {
        snprintf(reason, reason_size,
                 "no NPU: neither /dev/accel/accel* of the driver rocket, nor /dev/dri/renderD* of "
                 "rknpu, nor /dev/rknpu");
    }
    return device;
}

open_device *open_own_file(open_device *device) {
    if (!device->driver->queues_by_file) {
        return device;
    }
    open_device *own = malloc(sizeof *own);
    if (own != NULL) {
        *own = *device;
        own->file = open(device->path, O_RDWR | O_CLOEXEC);
    }
    if (own != NULL && own->file < 0) {
        free(own);
        own = NULL;
    }
    return own;
}

void open_close_file(open_device *device) {
    if (device != NULL && device->driver->queues_by_file) {
        close(device->file);
        free(device);
    }
}
