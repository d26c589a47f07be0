/* SPDX-License-Identifier: MIT
 *
 * Exports of the open runtime in addition to the vendor's API, one typedef each: `NAME_fn`. A
 * client finds them with dlsym, and rknn_open_message tells it which runtime this is. */

#define RKNN_OPEN_NOTHING 0 /* no work: the ends of the graph */
#define RKNN_OPEN_NPU 1
#define RKNN_OPEN_CPU 2

typedef struct {
    const char *op;     /* valid as long as the context */
    const char *name;   /* of the exported graph */
    const char *reason; /* of RKNN_OPEN_CPU; else empty */
    uint32_t place;
    uint32_t tasks;      /* of the NPU */
    uint32_t only_moves; /* of RKNN_OPEN_CPU: it moves values without computing */
} rknn_open_node;

/* Why the last call failed. */
typedef void rknn_open_message_fn(char *text, size_t text_size);

/* Where node `node` of a context's current shape is run; RKNN_ERR_PARAM_INVALID if there is none.
 */
typedef int rknn_open_place_fn(rknn_context context, uint32_t node, rknn_open_node *out);
