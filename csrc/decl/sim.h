/* SPDX-License-Identifier: MIT
 *
 * Types of the functions by which the simulated runtime is steered, one typedef
 * each: `NAME_fn`. The library exports them in addition to the vendor's API; a client
 * finds them with dlsym, and rknn_sim_version tells it that the NPU is simulated. */

/* One tensor as an executor sees it: compact, in the model's own type (quantized) and in the
 * order of the exporting framework (NCHW for images). */
typedef struct {
    void *data; /* valid until the executor returns */
    size_t n_elems;
    rknn_tensor_type type;
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
} rknn_sim_buffer;

/* Computes a bundle: reads every input, fills every output, returns RKNN_SUCC or the status that
 * rknn_run returns then. Called inside rknn_run, on its thread, with no lock held; it may not use
 * the context that it computes for. */
typedef int rknn_sim_executor_fn(void *user_data, uint32_t n_inputs, const rknn_sim_buffer *inputs,
                                 uint32_t n_outputs, const rknn_sim_buffer *outputs);

/* Version of the simulated runtime; static. */
typedef const char *rknn_sim_version_fn(void);

/* Let a function compute the bundle of `context`, and of its duplicates from now on, in place of
 * the records; NULL takes it away. */
typedef int rknn_sim_set_executor_fn(rknn_context context, rknn_sim_executor_fn *executor,
                                     void *user_data);

/* The emulator that executes the model of `context` (and of its duplicates) in the current
 * shape, with the inputs of the context's last run; NULL where the model is a bundle. It lasts
 * until the last of these contexts is destroyed or one of them runs in another shape; nobody may
 * run them while it is used. */
typedef rkr_emu *rknn_sim_emulator_fn(rknn_context context);

/* Make the `nth` call from now on (1 = the next; 0 = every) of `function`, named as
 * in the vendor's API, return `code` without doing anything; functions that return
 * a pointer return NULL. rknn_destroy, rknn_destroy_mem and rknn_outputs_release
 * still release and rknn_wait still waits, as a failing one leaves nobody to do it later. Several
 * may be set. RKNN_ERR_PARAM_INVALID for an unknown function, RKNN_ERR_MALLOC_FAIL when 64 are
 * already waiting. */
typedef int rknn_sim_fail_fn(const char *function, uint32_t nth, int code);

/* Let every rknn_run take at least this many microseconds. */
typedef void rknn_sim_latency_fn(uint32_t microseconds);

#define RKNN_SIM_MAX_CORES 3

/* Let runs on so many cores (2 or 3) take 1000 / permille of that time. By default several cores
 * are as fast as one. RKNN_ERR_PARAM_INVALID for other numbers. */
typedef int rknn_sim_core_speed_fn(uint32_t cores, uint32_t permille);

/* Let every run move so many bytes over a bus that all cores share, and that moves so many in a
 * second: a run ends when its time is over and its bytes are moved. 0 a second: without limit. */
typedef void rknn_sim_bus_fn(uint64_t bytes_per_second, uint64_t bytes_per_run);

/* How many contexts, memories, and buffers of rknn_outputs_get are alive. */
typedef void rknn_sim_live_fn(uint32_t *contexts, uint32_t *memories, uint32_t *outputs);

/* Calls of a function of the vendor's API since the last reset; -1: no such function. */
typedef int64_t rknn_sim_calls_fn(const char *function);

/* Number of violations since the last reset: uses of the API that a board would not
 * forgive (memory overrun, use after free, a buffer that is too small...). `text`
 * (may be NULL) receives the last one, cut to text_size and NUL-terminated. */
typedef uint64_t rknn_sim_violations_fn(char *text, size_t text_size);

/* The last line of the log, for whatever reason a call failed; same conventions. */
typedef void rknn_sim_message_fn(char *text, size_t text_size);

#define RKNN_SIM_COHERENT 0
#define RKNN_SIM_STRICT 1
#define RKNN_SIM_STRICT_UNLESS_SAID 2

/* Caches of the memories that are made from now on where the runtime leaves them to its caller
 * (librknnmrt). RKNN_SIM_COHERENT, which holds where nobody said anything: CPU and NPU see the
 * same bytes. RKNN_SIM_STRICT: only rknn_mem_sync moves bytes between the two, and using old
 * ones is a violation. RKNN_SIM_STRICT_UNLESS_SAID: strict, unless an earlier call or the
 * environment said otherwise. RKNN_ERR_PARAM_INVALID for any other mode. */
typedef int rknn_sim_caches_fn(int mode);

/* The SoC whose NPU multiplies matrices from now on; models name their own. NULL only asks. `text`
 * (may be NULL) receives the previous SoC, cut to text_size and NUL-terminated: at first the
 * environment's, or rk3588. RKNN_ERR_PARAM_INVALID for a name of 0 or more than 15 characters, or
 * with characters other than a to z and digits. */
typedef int rknn_sim_soc_fn(const char *name, char *text, size_t text_size);

/* Reset planned failures, latency, speeds, the bus, call counts, violations and the last
 * message. */
typedef void rknn_sim_reset_fn(void);
