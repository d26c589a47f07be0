/* SPDX-License-Identifier: MIT
 *
 * What one context owns: itself and its memories.
 *
 * Python delivers a signal as soon as a call of C returns, before it has stored the result.
 * So what a runtime gives is noted here, within the call that gives it, and what is released
 * is forgotten here before the runtime is asked to: whatever interrupts Python, nothing is lost
 * and nothing is released twice.
 *
 * A session is used by one thread at a time. */

typedef struct {
    uint64_t id;
    rknn_tensor_mem *mem;
} rkr_session_entry;

typedef struct {
    const rkr_library *library;
    rknn_context context; /* what the functions of the runtime take; stale unless is_open */
    int32_t is_open;
    int32_t is_matmul;          /* it is a product's, not a model's */
    rkr_session_entry *entries; /* in the order of their ids */
    size_t n_entries, capacity;
    uint64_t last_id;
} rkr_session;

/* A session without a context; NULL when there is no memory for it. */
rkr_session *rkr_session_new(const rkr_library *library);

/* Free the session alone: the runtime is not called. */
void rkr_session_free(rkr_session *session);

/* rknn_init; the session is open when that succeeds. */
int rkr_session_init(rkr_session *session, void *model, uint32_t size, uint32_t flag,
                     rknn_init_extend *extend);

/* rknn_matmul_create, or with several shapes rknn_matmul_create_dynamic_shape, likewise. */
int rkr_session_init_matmul(rkr_session *session, rknn_matmul_info *info, uint32_t n_shapes,
                            rknn_matmul_shape shapes[], rknn_matmul_io_attr io_attrs[]);

/* rknn_create_mem. `*id` names the memory for the functions below; no other memory of the
 * session ever has that number. */
int rkr_session_create_mem(rkr_session *session, uint32_t size, uint64_t *id);

/* The memory of that number; NULL when it was released. */
rknn_tensor_mem *rkr_session_memory(const rkr_session *session, uint64_t id);

/* rknn_destroy_mem; RKR_OK for a memory that was released already. */
int rkr_session_destroy_mem(rkr_session *session, uint64_t id);

/* rknn_destroy_mem for every memory, then rknn_destroy (rknn_matmul_destroy); tries all of them.
 * Returns the status of that, and in `*memory_status` the first failure of the others, or
 * RKNN_SUCC. A session that is not open is left alone. */
int rkr_session_close(rkr_session *session, int *memory_status);

/* Forget everything and release nothing: in a forked child. */
void rkr_session_forget(rkr_session *session);
