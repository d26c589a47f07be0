/* SPDX-License-Identifier: MIT
 *
 * Shows a board to a program on a PC: loaded by LD_PRELOAD, it turns paths of the device tree and
 * of the vendor's library into files under $RKNN_BOARD_ROOT, and gives uname another machine.
 *
 *   /proc/device-tree/X, /sys/firmware/devicetree/base/X -> $RKNN_BOARD_ROOT/device-tree/X
 *   /usr/lib/librknnrt.so and its like, where there is none -> $RKNN_BOARD_ROOT/lib/librknnrt.so
 *   with $RKNN_BOARD_NPU: what shows a driver, a container, the kernel's log -> the same below
 *                         $RKNN_BOARD_ROOT
 *
 * Programs that make system calls without the C library, such as Go's, see the PC. The functions
 * are declared here, since headers of older C libraries define some of them inline, and without
 * `...`: a mode that was not passed is not looked at. */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#undef fopen64 /* a macro of older musl */

#define MOST_BYTES 4096
#define NEXT(name) ((name##_fn *)dlsym(RTLD_NEXT, #name))
/* A function that calls the original one with another path. */
#define TURNED(result, name, parameters, ...)                      \
    typedef result name##_fn parameters;                           \
    __attribute__((visibility("default"))) result name parameters; \
    result name parameters {                                       \
        char room[MOST_BYTES];                                     \
        return NEXT(name)(__VA_ARGS__);                            \
    }
#define PATH mapped(path, room)
/* The same of a function that opens a file, which may be the NPU's device. */
#define OPENED(name)                                                          \
    typedef int name##_fn(const char *path, int flags, unsigned mode);        \
    __attribute__((visibility("default"))) name##_fn name;                    \
    int name(const char *path, int flags, unsigned mode) {                    \
        char room[MOST_BYTES];                                                \
        const int file = board_open_device(path);                             \
        return file != BOARD_NOT_MINE ? file : NEXT(name)(PATH, flags, mode); \
    }

static const char *mapped(const char *path, char *room);

TURNED(int, access, (const char *path, int mode), PATH, mode)
TURNED(int, faccessat, (int at, const char *path, int mode, int flags), at, PATH, mode, flags)
OPENED(open)
OPENED(open64)
TURNED(int, openat, (int at, const char *path, int flags, unsigned mode), at, PATH, flags, mode)
TURNED(int, openat64, (int at, const char *path, int flags, unsigned mode), at, PATH, flags, mode)
TURNED(int, stat, (const char *path, void *found), PATH, found)
TURNED(int, stat64, (const char *path, void *found), PATH, found)
TURNED(int, lstat, (const char *path, void *found), PATH, found)
TURNED(int, lstat64, (const char *path, void *found), PATH, found)
TURNED(int, __xstat, (int version, const char *path, void *found), version, PATH, found)
TURNED(int, __xstat64, (int version, const char *path, void *found), version, PATH, found)
TURNED(int, __lxstat, (int version, const char *path, void *found), version, PATH, found)
TURNED(int, __lxstat64, (int version, const char *path, void *found), version, PATH, found)
TURNED(int, fstatat, (int at, const char *path, void *found, int flags), at, PATH, found, flags)
TURNED(int, fstatat64, (int at, const char *path, void *found, int flags), at, PATH, found, flags)
TURNED(int, statx, (int at, const char *path, int flags, unsigned mask, void *found), at, PATH,
       flags, mask, found)
TURNED(FILE *, fopen, (const char *path, const char *mode), PATH, mode)
TURNED(FILE *, fopen64, (const char *path, const char *mode), PATH, mode)
TURNED(void *, opendir, (const char *path), PATH)
TURNED(void *, dlopen, (const char *path, int flags), PATH, flags)

static const char *const TREES[] = {"/proc/device-tree", "/sys/firmware/devicetree/base"};
static const char *const SHOWN[] = {"/dev/dri",
                                    "/dev/accel",
                                    "/dev/rknpu",
                                    "/dev/kmsg",
                                    "/proc/rknpu",
                                    "/proc/1/cgroup",
                                    "/run/.containerenv",
                                    "/run/systemd/container",
                                    "/.dockerenv",
                                    "/sys/class/drm",
                                    "/sys/class/accel",
                                    "/sys/class/misc/rknpu",
                                    "/sys/module/rknpu",
                                    "/sys/module/rocket",
                                    "/sys/kernel/debug/rknpu",
                                    "/var/log/dmesg",
                                    "/var/log/kern.log"};
static const char *const PLACES[] = {"/usr/", "/lib", "/vendor/", "/oem/", "/system/"};

/* Return the rest of a path in one of these folders, NULL for another path. */
static const char *behind(const char *path, const char *const *folders, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(folders[i]);
        if (!strncmp(path, folders[i], length) && (path[length] == '/' || path[length] == '\0')) {
            return path + length;
        }
    }
    return NULL;
}

/* Return the name, with its slash, of a vendor's library that the system would have here. */
static const char *missing_library(const char *path) {
    const char *name = strrchr(path, '/');
    if (name == NULL || (strcmp(name, "/librknnrt.so") && strcmp(name, "/librknnmrt.so"))) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        if (!strncmp(path, PLACES[i], strlen(PLACES[i])) && NEXT(access)(path, 0) != 0) {
            return name;
        }
    }
    return NULL;
}

/* Return where a file is; `room` has the path if it is elsewhere. */
static const char *mapped(const char *path, char *room) {
    const char *root = getenv("RKNN_BOARD_ROOT");
    if (path == NULL || root == NULL) {
        return path;
    }
    const char *folder = "/device-tree", *rest = behind(path, TREES, sizeof TREES / sizeof *TREES);
    if (rest == NULL && getenv("RKNN_BOARD_NPU") != NULL &&
        behind(path, SHOWN, sizeof SHOWN / sizeof *SHOWN) != NULL) {
        folder = "";
        rest = path;
    }
    if (rest == NULL) {
        folder = "/lib";
        rest = missing_library(path);
    }
    if (rest == NULL || strlen(root) + strlen(folder) + strlen(rest) >= MOST_BYTES) {
        return path;
    }
    strcpy(room, root);
    strcat(room, folder);
    return strcat(room, rest);
}

typedef int uname_fn(struct utsname *name);
__attribute__((visibility("default"))) int uname(struct utsname *name) {
    const int status = NEXT(uname)(name);
    const char *machine = getenv("RKNN_BOARD_MACHINE");
    if (status == 0 && machine != NULL && strlen(machine) < sizeof name->machine) {
        strcpy(name->machine, machine);
    }
    return status;
}
