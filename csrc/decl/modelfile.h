/* SPDX-License-Identifier: MIT
 *
 * The reader of `.rknn` files. Nothing is executed and every offset is checked. Functions return
 * RKR_OK or a status; rkr_model_error has the reason. Texts point into the file: they are UTF-8
 * in a sound file, have no NUL at their end, and live as long as the model. */

#define RKR_MODEL_ERR_FILE -1200 /* no model, or a damaged one */
#define RKR_MODEL_ERR_READ -1201 /* the system cannot read the file: see errno */

#define RKR_MODEL_MAX_DIMS 16
#define RKR_MODEL_MAX_NATIVE 24 /* four groups of weights, of 6 dimensions each */

typedef struct rkr_model rkr_model;

typedef struct {
    const uint8_t *at;
    uint32_t length;
} rkr_text;

/* ---- SoCs -------------------------------------------------------------------- */

typedef struct {
    const char *name;
    const char *npu;    /* the generation as files spell it */
    uint32_t is_mini;   /* its runtime is librknnmrt, which reads mini containers alone */
    uint32_t cores;     /* of the NPU */
    uint32_t c2_bytes;  /* of one group of channels at a pixel */
    uint32_t row_bytes; /* rows of an image begin at multiples of it, per channel */
} rkr_soc;

/* NULL behind the last one. */
const rkr_soc *rkr_get_soc(uint32_t index);
const rkr_soc *rkr_find_soc(const uint8_t *name, size_t length);

/* ---- the file ------------------------------------------------------------------ */

/* Name the kind of the bytes, and what to do, unless they begin like an RKNN container:
 * RKR_MODEL_ERR_FILE and a text. With NULL for `bytes`, `size` bytes of the open file `file` are
 * read, as far as they are needed. `signatures_only`: let pass what nobody knows. */
int rkr_check_format(const uint8_t *bytes, size_t size, int file, uint32_t signatures_only,
                     char *error, size_t error_size);

/* Open a model; `bytes`, or the file, must outlive it. */
int rkr_open_model(const uint8_t *bytes, size_t size, int file, rkr_model **out, char *error,
                   size_t error_size);
/* Also accepts NULL. */
void rkr_close_model(rkr_model *model);
const char *rkr_model_error(const rkr_model *model);

typedef struct {
    uint32_t is_mini;
    uint32_t version; /* of the container */
    rkr_text soc;
    rkr_text npu;
    rkr_text toolkit; /* "2.3.2(compiler version: 2.3.2 (e045de294f@2025-04-07T19:48:25))" */
    rkr_text framework;
} rkr_model_header;

typedef struct {
    uint32_t graphs; /* one per shape of a dynamic model, the biggest first */
    uint32_t batch;  /* images of one run */
    uint64_t weight_bytes;
    uint64_t scratch_bytes; /* between the nodes */
    uint64_t command_bytes; /* of mini containers */
    rkr_text custom_string;
} rkr_model_description;

int rkr_read_header(rkr_model *model, rkr_model_header *out);
int rkr_read_description(rkr_model *model, rkr_model_description *out);
/* A literal of Python that no runtime reads: how the toolkit was called. */
int rkr_read_metadata(rkr_model *model, rkr_text *out);
/* Check the parts that librknnrt parses unchecked: the JSON at the end of the file, and the JSON of
 * types. */
int rkr_check_model(rkr_model *model);

/* ---- a graph -------------------------------------------------------------------- */

/* Layouts of a tensor in memory, numbered as in the file. */
#define RKR_LAYOUT_PLAIN 0 /* the dimensions of the exporting framework, in order */
#define RKR_LAYOUT_NHWC 1
#define RKR_LAYOUT_NCHW 2
#define RKR_LAYOUT_NC1HWC2 64 /* and rows of pixels, where is_pixel */

/* The facts of an input or output that the file gives for reports. */
#define RKR_TOLD_DTYPE 1
#define RKR_TOLD_LAYOUT 2
#define RKR_TOLD_KNOWN_LAYOUT 4
#define RKR_TOLD_ANYTHING 8

typedef struct {
    rkr_text name;
    uint32_t type;       /* of an element, numbered as in ONNX: 3 int8, 10 float16 */
    uint32_t elem_bytes; /* 0: an unsupported type */
    uint32_t layout;
    uint32_t kind; /* 1 input, 2 output, 3 internal; others are constant */
    uint32_t is_pixel;
    uint32_t n_scales; /* real = (value - zero_point) * scale, where there is one of each */
    uint32_t n_zero_points;
    float scale;
    int32_t zero_point;
    uint32_t n_dims; /* logical, in the exporting framework's order; none are read above 16 */
    int32_t dims[16];
    uint32_t n_native; /* in memory; none are read above 24 */
    int32_t native[24];
    uint64_t native_elems; /* their product; UINT64_MAX: too large to be meant */
    uint32_t reserved_bytes;
    uint32_t offset;    /* in its memory */
    uint32_t blob;      /* of a standard container: which one it is; UINT32_MAX: none */
    uint32_t told_type; /* what runtimes report instead of `type`; 0: `type` */
    uint32_t told;      /* RKR_TOLD_... */
} rkr_model_tensor;

/* Indices are of 32 bits, little endian, at any address. */
typedef struct {
    rkr_text op;
    rkr_text name;   /* "Conv:/model/conv" */
    uint32_t device; /* 2 NPU */
    const uint8_t *inputs;
    const uint8_t *outputs;
    uint32_t n_inputs;
    uint32_t n_outputs;
    uint32_t has_tasks; /* the file says in this place how many tasks it has on one core: */
    uint32_t tasks;
    size_t table; /* for the other readers of the node */
} rkr_model_node;

typedef struct {
    size_t table, tensors, nodes;
    uint32_t n_tensors;
    uint32_t n_nodes;
    uint32_t n_inputs;
    uint32_t n_outputs;
    const uint8_t *inputs; /* as in a node */
    const uint8_t *outputs;
} rkr_model_graph;

int rkr_read_graph(rkr_model *model, uint32_t index, rkr_model_graph *out);
int rkr_read_tensor(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                    rkr_model_tensor *out);
int rkr_read_node(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                  rkr_model_node *out);
/* All inputs, or all outputs, with the attributes that the file gives. */
int rkr_read_ports(rkr_model *model, const rkr_model_graph *graph, uint32_t is_output,
                   rkr_model_tensor *out);

/* How the values of an input are normalized: (value - mean) / std. */
typedef struct {
    uint32_t count;  /* channels with values in the file, at most 16; 0: none */
    uint32_t is_one; /* 1: all channels of the input have the first one */
    float mean[16];
    float std[16];
} rkr_normalisation;

/* `port` is the input at this place. */
int rkr_read_normalisation(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                           const rkr_model_tensor *port, rkr_normalisation *out);

/* ---- what runtimes report of a tensor -------------------------------------------- */

#define RKR_VIEW_LOGICAL 0
#define RKR_VIEW_NATIVE 1
#define RKR_VIEW_NHWC 2

typedef struct {
    uint32_t type;
    uint32_t layout;
    uint32_t n_dims;
    uint32_t dims[16];
    uint32_t n_elems;
    uint32_t size;
    uint32_t size_with_stride;
    uint32_t w_stride;
} rkr_view;

/* The facts of a model that decide how its runtime describes the tensors. */
typedef struct {
    uint32_t is_mini;
    uint32_t is_dynamic;
    uint32_t batch;
    uint32_t version;   /* of the container */
    uint32_t row_bytes; /* of the SoC */
    uint32_t is_1_5_2;  /* the answers of librknnrt 1.5.2, else of 2.3.2 */
} rkr_rules;

typedef struct {
    rkr_view views[3];
    int32_t zero_point;
    float scale;
    uint32_t has_nhwc; /* 0: the runtime refuses this query */
} rkr_described;

/* RKR_MODEL_ERR_FILE and a text: the tensor contradicts itself. */
int rkr_describe_tensor(const rkr_model_tensor *tensor, uint32_t is_input, const rkr_rules *rules,
                        rkr_described *out, char *error, size_t error_size);
