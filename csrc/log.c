/* SPDX-License-Identifier: MIT
 *
 * Catches what a call prints in a file without a name. */
#define _GNU_SOURCE
#include "rkr.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Let stdout and stderr lead to a file; false, and nothing changed, when that fails. */
static int redirect(int file, int saved[2]) {
    saved[0] = dup(STDOUT_FILENO);
    saved[1] = dup(STDERR_FILENO);
    if (saved[0] >= 0 && saved[1] >= 0 && dup2(file, STDOUT_FILENO) >= 0) {
        if (dup2(file, STDERR_FILENO) >= 0) {
            return 1;
        }
        dup2(saved[0], STDOUT_FILENO);
    }
    for (int i = 0; i < 2; i++) {
        if (saved[i] >= 0) {
            close(saved[i]);
        }
    }
    return 0;
}

static void restore(const int saved[2]) {
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
}

int rkr_init_log(const rkr_library *library, void *model, uint32_t size, uint32_t flag, char *text,
                 size_t text_size) {
    if (library == NULL || model == NULL || text == NULL || text_size == 0) {
        return RKR_ERR_ARGUMENT;
    }
    text[0] = '\0';
    FILE *file = tmpfile();
    if (file == NULL) {
        return RKR_ERR_MEMORY;
    }
    int saved[2];
    pthread_mutex_lock(&lock);
    fflush(NULL); /* what waits is not the runtime's */
    const int is_redirected = redirect(fileno(file), saved);
    if (is_redirected) {
        rknn_context context = 0;
        const int status = rkr_init(library, &context, model, size, flag, NULL);
        fflush(NULL);
        restore(saved);
        if (status == RKNN_SUCC) {
            rkr_destroy(library, context);
        }
    }
    pthread_mutex_unlock(&lock);
    const ssize_t count = is_redirected ? pread(fileno(file), text, text_size - 1, 0) : (ssize_t)0;
    text[count > 0 ? count : 0] = '\0';
    fclose(file);
    return is_redirected ? RKR_OK : RKR_ERR_MEMORY;
}
