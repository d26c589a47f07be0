/* SPDX-License-Identifier: MIT
 *
 * What one context owns: itself and its memories.
 *
 * Python raises a signal as soon as a call of C returns, before it has stored the result. So a
 * new memory is noted here within the call that creates it, and forgotten here before the runtime
 * releases it. An interrupt of Python then neither loses a memory nor releases one twice.
 *
 * A session is used by one thread at a time. Memories come and go one at a time in the whole
 * process, whatever session they belong to: a driver was seen to panic when threads created and
 * destroyed memories through one context at once. */

typedef struct {
    uint64_t id;
    rknn_tensor_mem *mem;
    uint8_t *data; /* where the CPU sees it; NULL: nowhere */
    void *map;     /* our mapping of a file descriptor; NULL: none */
    size_t map_bytes;
    int32_t fd; /* to be closed with the memory; -1: none */
} rkr_session_entry;

typedef struct rkr_session {
    const rkr_library *library;
    rknn_context context; /* the argument of the runtime's functions; stale unless is_open */
    int32_t is_open;
    int32_t is_matmul; /* it is a product's, not a model's */
    int32_t in_flight; /* a run has begun and nobody has waited for it */
    int32_t is_lost;   /* nobody knows whether its last run is over: nothing is released */
    int32_t is_kept;   /* closed, but the context waits for the last of its children to go */
    struct rkr_session *parent; /* whose weights this one uses; NULL: its own */
    uint32_t n_children;
    rkr_session_entry *entries; /* in the order of their ids */
    size_t n_entries, capacity;
    uint64_t last_id;
} rkr_session;

/* A session without a context; NULL when there is no memory for it. */
rkr_session *rkr_session_new(const rkr_library *library);

/* Free the session alone: the runtime is not called. */
void rkr_session_free(rkr_session *session);

/* rknn_init; the session is open when that succeeds. With a `parent` (open, and alive until this
 * session is freed) the context uses the parent's weights, so the parent's context is destroyed
 * after it in any order of closing; `extend` must then be given, and its ctx is filled in. */
int rkr_session_init(rkr_session *session, rkr_session *parent, void *model, uint32_t size,
                     uint32_t flag, rknn_init_extend *extend);

/* rknn_dup_context of the parent's; life times as in rkr_session_init. */
int rkr_session_dup(rkr_session *session, rkr_session *parent);

/* Take over a context that foreign code made: it is destroyed with the session. */
int rkr_session_adopt(rkr_session *session, rknn_context context);

/* The same with rknn_matmul_create, or for several shapes rknn_matmul_create_dynamic_shape. */
int rkr_session_init_matmul(rkr_session *session, rknn_matmul_info *info, uint32_t n_shapes,
                            rknn_matmul_shape shapes[], rknn_matmul_io_attr io_attrs[]);

/* rknn_create_mem, or rknn_create_mem2 with flags other than 0. `*id` names the memory for the
 * functions below; no other memory of the session ever has that number. */
int rkr_session_create_mem(rkr_session *session, uint64_t size, uint64_t alloc_flags, uint64_t *id);

/* rknn_create_mem_from_fd, in the same way: `size` bytes from `offset` bytes after the start of a
 * DMA-BUF. RKR_IMPORT_MAP: mapped for the CPU; the runtime is told the address of the DMA-BUF's
 * start. RKR_IMPORT_OWN: the descriptor is closed with the memory, when this call succeeds.
 * RKR_ERR_SHAPE when the file is shorter, RKR_ERR_LOAD when it cannot be mapped (errno says
 * why). */
#define RKR_IMPORT_MAP 1
#define RKR_IMPORT_OWN 2
int rkr_session_import_fd(rkr_session *session, int32_t fd, uint32_t size, int32_t offset,
                          uint32_t flags, uint64_t *id);

/* rknn_create_mem_from_phys, in the same way; `virt` is its address for the CPU, or NULL. */
int rkr_session_import_phys(rkr_session *session, uint64_t phys, void *virt, uint32_t size,
                            uint64_t *id);

/* rknn_run with non_block, of a context that was made with RKNN_FLAG_FENCE_OUT_OUTSIDE: the run
 * continues after this returns RKR_OK. Close the session only after rkr_session_wait. `fence_fd`:
 * the fence that the run waits for, with RKNN_FLAG_FENCE_IN_OUTSIDE; else -1. */
int rkr_session_start(rkr_session *session, uint64_t frame_id, int32_t fence_fd);

/* rknn_wait for that run, once, as the runtime forgets the fence; RKR_OK when none is in flight.
 * librknnrt 2.3.2 returns success also when the time is over: then the session is lost, and
 * RKNN_ERR_TIMEOUT is returned. The kernel's driver ends a run long before. */
int rkr_session_wait(rkr_session *session);

/* The memory of that number; NULL when it was released. */
rknn_tensor_mem *rkr_session_memory(const rkr_session *session, uint64_t id);

/* Where the CPU sees it; NULL if it was released or is invisible. */
uint8_t *rkr_session_data(const rkr_session *session, uint64_t id);

/* rknn_destroy_mem, after a run in flight; RKR_OK for a memory that was released already. */
int rkr_session_destroy_mem(rkr_session *session, uint64_t id);

/* rknn_destroy_mem for every memory, then rknn_destroy (rknn_matmul_destroy), unless a child uses
 * the context; tries all of them. Returns the status of rknn_destroy, for its own context or a
 * parent's that waited for this one, and in `*memory_status` the first failure of the others, or
 * RKNN_SUCC. Does nothing for a closed session. */
int rkr_session_close(rkr_session *session, int *memory_status);

/* Forget everything and release nothing: in a forked child. */
void rkr_session_forget(rkr_session *session);
