/* SPDX-License-Identifier: MIT
 *
 * A dma-buf is the NPU's memory from the first run that could read it in place until the last
 * memory of the API that was made around it goes, as the kernel has one handle for all of them. */
#include "loans.h"

#include <pthread.h>
#include <stdlib.h>

#define ALIGNED 64u /* as tensors are in a file */

typedef struct open_loan {
    struct open_loan *next;
    open_device *device;
    open_block block;
    uint32_t users;
} open_loan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static open_loan *all;

/* With the lock held. */
static open_loan *take(open_device *device, int file) {
    open_block block;
    if (device->driver->import == NULL || file < 0 ||
        !device->driver->import(device, file, &block)) {
        return NULL;
    }
    open_loan *found = all;
    while (found != NULL && (found->device != device || found->block.handle != block.handle)) {
        found = found->next;
    }
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        if (found == NULL) {
            device->driver->give_back(device, &block);
            return NULL;
        }
        *found = (open_loan){.next = all, .device = device, .block = block};
        all = found;
    }
    found->users++;
    return found;
}

uint32_t open_loan_address(open_device *device, api_mem *mem) {
    pthread_mutex_lock(&lock);
    if (mem->loan == NULL && !mem->cannot_lend) {
        mem->loan = take(device, mem->fd);
        mem->cannot_lend = mem->loan == NULL;
    }
    const open_loan *loan = mem->loan;
    pthread_mutex_unlock(&lock);
    const uint32_t offset = mem->offset;
    return loan != NULL && loan->device == device && offset % ALIGNED == 0 &&
                   (uint64_t)offset + mem->size <= loan->block.bytes
               ? loan->block.address + offset
               : 0;
}

void open_loan_end(api_mem *mem) {
    pthread_mutex_lock(&lock);
    open_loan *loan = mem->loan;
    open_loan **link = &all;
    while (*link != NULL && *link != loan) {
        link = &(*link)->next;
    }
    if (loan != NULL && --loan->users == 0) {
        *link = loan->next;
        loan->device->driver->give_back(loan->device, &loan->block);
        free(loan);
    }
    mem->loan = NULL;
    pthread_mutex_unlock(&lock);
}
