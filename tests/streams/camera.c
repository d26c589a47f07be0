/*
 * A camera on USB for tests, to be loaded with LD_PRELOAD: /dev/video9 is there, and answers as
 * the driver of such cameras does (Linux, V4L2: QUERYCAP to STREAMOFF). Its descriptor is that of
 * memory, so mmap, select and close need no stand-in.
 *
 * CAMERA_FRAME    a file with one frame, which is sent again and again: 64x48 in YUYV, or a JPEG
 * CAMERA_TROUBLE  "no permission", "busy", "no pictures", or after how many frames it is unplugged
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIDTH = 64, HEIGHT = 48, BUFFERS = 8, BUFFER_BYTES = 16384, FRAMES_A_SECOND = 50 };

static struct {
    unsigned char frame[BUFFER_BYTES];
    unsigned frame_bytes, format;
    ino_t node; /* of the memory that stands in for the device */
    unsigned char *memory;
    unsigned buffers, queued[BUFFERS], waiting, sent;
    int is_on;
} camera;

static int fails(int error) {
    errno = error;
    return -1;
}

static const char *trouble(void) {
    const char *text = getenv("CAMERA_TROUBLE");
    return text ? text : "";
}

static int is(const char *text) {
    return strcmp(trouble(), text) == 0;
}

static int is_unplugged(void) {
    int most = atoi(trouble());
    return most > 0 && camera.sent >= (unsigned)most;
}

static int open_camera(void) {
    if (is("no permission"))
        return fails(EACCES);
    if (is_unplugged())
        return fails(ENOENT);
    FILE *file = fopen(getenv("CAMERA_FRAME"), "rb");
    camera.frame_bytes = (unsigned)fread(camera.frame, 1, BUFFER_BYTES, file);
    fclose(file);
    int is_jpeg = camera.frame[0] == 0xFF && camera.frame[1] == 0xD8;
    camera.format = is_jpeg ? V4L2_PIX_FMT_MJPEG : V4L2_PIX_FMT_YUYV;
    int device = memfd_create("camera", 0);
    struct stat status;
    if (device < 0 || ftruncate(device, BUFFERS * BUFFER_BYTES) || fstat(device, &status))
        return -1;
    camera.node = status.st_ino;
    camera.memory =
        mmap(NULL, BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
    camera.is_on = 0;
    camera.buffers = camera.waiting = 0;
    return device;
}

static int query(void *data) {
    struct v4l2_capability *found = data;
    memset(found, 0, sizeof *found);
    strcpy((char *)found->driver, "uvcvideo");
    strcpy((char *)found->card, "Camera of the tests");
    /* No pictures: as of the second node of a camera on USB. */
    __u32 kind = is("no pictures") ? V4L2_CAP_META_CAPTURE : V4L2_CAP_VIDEO_CAPTURE;
    found->device_caps = kind | V4L2_CAP_STREAMING;
    /* Of the device with all its nodes. */
    found->capabilities = found->device_caps | V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_DEVICE_CAPS;
    return 0;
}

static int list_format(void *data) {
    struct v4l2_fmtdesc *format = data;
    if (format->index > 0)
        return fails(EINVAL);
    format->pixelformat = camera.format;
    return 0;
}

/* Whatever is asked for: a driver answers with the nearest that it has. */
static int set_format(void *data) {
    struct v4l2_format *format = data;
    if (is("no pictures"))
        return fails(EINVAL);
    struct v4l2_pix_format *pixels = &format->fmt.pix;
    pixels->width = WIDTH;
    pixels->height = HEIGHT;
    pixels->pixelformat = camera.format;
    pixels->field = V4L2_FIELD_NONE;
    pixels->bytesperline = camera.format == V4L2_PIX_FMT_YUYV ? 2 * WIDTH : 0;
    pixels->sizeimage = BUFFER_BYTES;
    pixels->colorspace = V4L2_COLORSPACE_SRGB;
    return 0;
}

static int tell_rate(void *data) {
    struct v4l2_streamparm *parameters = data;
    parameters->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
    parameters->parm.capture.timeperframe.numerator = 1;
    parameters->parm.capture.timeperframe.denominator = FRAMES_A_SECOND;
    return 0;
}

static int request_buffers(void *data) {
    struct v4l2_requestbuffers *request = data;
    if (request->memory != V4L2_MEMORY_MMAP)
        return fails(EINVAL);
    if (request->count > BUFFERS)
        request->count = BUFFERS;
    camera.buffers = request->count;
    return 0;
}

static int query_buffer(void *data) {
    struct v4l2_buffer *buffer = data;
    if (buffer->index >= camera.buffers)
        return fails(EINVAL);
    buffer->length = BUFFER_BYTES;
    buffer->m.offset = buffer->index * BUFFER_BYTES;
    return 0;
}

static int queue(void *data) {
    struct v4l2_buffer *buffer = data;
    if (buffer->index >= camera.buffers || camera.waiting == BUFFERS)
        return fails(EINVAL);
    camera.queued[camera.waiting++] = buffer->index;
    return 0;
}

static int dequeue(void *data) {
    struct v4l2_buffer *buffer = data;
    if (is_unplugged())
        return fails(ENODEV);
    if (!camera.is_on || camera.waiting == 0)
        return fails(EAGAIN);
    usleep(1000000 / FRAMES_A_SECOND);
    buffer->index = camera.queued[0];
    memmove(camera.queued, camera.queued + 1, --camera.waiting * sizeof *camera.queued);
    memcpy(camera.memory + buffer->index * BUFFER_BYTES, camera.frame, camera.frame_bytes);
    buffer->bytesused = camera.frame_bytes;
    buffer->length = BUFFER_BYTES;
    buffer->sequence = camera.sent++;
    buffer->flags = V4L2_BUF_FLAG_DONE;
    return 0;
}

static int start(void *data) {
    (void)data;
    camera.is_on = 1;
    return 0;
}

static int stop(void *data) {
    (void)data;
    camera.is_on = 0;
    camera.waiting = 0;
    return 0;
}

static int choose_input(void *data) {
    *(int *)data = 0;
    return 0;
}

static const struct {
    unsigned command;
    int (*answer)(void *);
    int takes_camera; /* which another program may have */
} ANSWERS[] = {
    {VIDIOC_QUERYCAP, query, 0},        {VIDIOC_ENUM_FMT, list_format, 0},
    {VIDIOC_G_FMT, set_format, 0},      {VIDIOC_TRY_FMT, set_format, 0},
    {VIDIOC_S_FMT, set_format, 1},      {VIDIOC_G_PARM, tell_rate, 0},
    {VIDIOC_S_PARM, tell_rate, 0},      {VIDIOC_REQBUFS, request_buffers, 1},
    {VIDIOC_QUERYBUF, query_buffer, 0}, {VIDIOC_QBUF, queue, 0},
    {VIDIOC_DQBUF, dequeue, 0},         {VIDIOC_STREAMON, start, 0},
    {VIDIOC_STREAMOFF, stop, 0},        {VIDIOC_G_INPUT, choose_input, 0},
    {VIDIOC_S_INPUT, choose_input, 0},
};

static int answer(unsigned command, void *data) {
    for (size_t i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++)
        if (ANSWERS[i].command == command)
            return ANSWERS[i].takes_camera && is("busy") ? fails(EBUSY) : ANSWERS[i].answer(data);
    return fails(ENOTTY);
}

int ioctl(int device, unsigned long command, ...) {
    va_list rest;
    va_start(rest, command);
    void *data = va_arg(rest, void *);
    va_end(rest);
    struct stat status;
    if (camera.node && fstat(device, &status) == 0 && status.st_ino == camera.node)
        return answer((unsigned)command, data);
    int (*next)(int, unsigned long, ...) =
        (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
    return next(device, command, data);
}

/* The ways to open a file: a program takes this or that, by its compiler and flags. */
#define OPENS(name)                                                             \
    int name(const char *path, int flags, ...) {                                \
        if (strcmp(path, "/dev/video9") == 0)                                   \
            return open_camera();                                               \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        int (*next)(const char *, int, ...) =                                   \
            (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);           \
        return next(path, flags, mode);                                         \
    }

OPENS(open)
OPENS(open64)
