/* SPDX-License-Identifier: MIT
 *
 * Duplicates of a context, several runs of a model at once, its graphs of other shapes, and models
 * that share weights have the same constants: whoever comes first lends his. They are compared
 * byte by byte, as nothing else tells that they are the same. */
#include "weights.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct open_weights {
    open_weights *next;
    open_device *device;
    open_block block;
    uint32_t users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static open_weights *all;

/* With the lock held. */
static open_weights *find_same(const open_device *device, const open_block *block) {
    open_weights *found = all;
    while (found != NULL && (found->device != device || found->block.bytes != block->bytes ||
                             memcmp(found->block.at, block->at, block->bytes) != 0)) {
        found = found->next;
    }
    return found;
}

open_weights *open_weights_take(open_device *device, open_block *block) {
    pthread_mutex_lock(&lock);
    open_weights *found = find_same(device, block);
    if (found != NULL) {
        device->driver->give_back(device, block);
    } else {
        found = calloc(1, sizeof *found);
        if (found != NULL) {
            *found = (open_weights){.next = all, .device = device, .block = *block};
            *block = (open_block){0};
            all = found;
        }
    }
    if (found != NULL) {
        found->users++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void open_weights_drop(open_weights *weights) {
    pthread_mutex_lock(&lock);
    open_weights **link = &all;
    while (*link != NULL && *link != weights) {
        link = &(*link)->next;
    }
    if (*link != NULL && --weights->users == 0) {
        *link = weights->next;
        weights->device->driver->give_back(weights->device, &weights->block);
        free(weights);
    }
    pthread_mutex_unlock(&lock);
}

const open_block *open_weights_block(const open_weights *weights) {
    return &weights->block;
}
