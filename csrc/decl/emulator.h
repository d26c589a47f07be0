/* SPDX-License-Identifier: MIT
 *
 * The emulator: executes the commands of a `.rknn` file on the CPU, task by task.
 * It knows the file and the NPU, and nothing of the vendor's API.
 *
 * Functions are declared by their types, one typedef each: `NAME_fn`; the simulated
 * runtime exports them. All return RKR_OK or a status; rkr_emu_error says why. An
 * emulator is used by one thread at a time; several may exist. */

typedef struct rkr_emu rkr_emu;

#define RKR_EMU_ERR_FILE -1100         /* the bytes are no model that can be read */
#define RKR_EMU_ERR_UNKNOWN -1101      /* a command of the model is unknown */
#define RKR_EMU_ERR_NOT_RUNNABLE -1102 /* a node of the model is refused: see its reason */
#define RKR_EMU_ERR_RANGE -1103        /* a value left the range in which the NPU is known */

#define RKR_EMU_MAX_DIMS 16
#define RKR_EMU_MAX_NATIVE 24

/* How well the result of a node is known, best first. */
#define RKR_EMU_EXACT 0   /* its commands are executed; every bit as the NPU is known to */
#define RKR_EMU_DECODED 1 /* the same, but no network proved commands of this kind */
#define RKR_EMU_FLOAT 2   /* executed or computed in floating point: close, not every bit */
#define RKR_EMU_ASSUMED 3 /* computed by a formula of which the file has only a part */
#define RKR_EMU_REFUSED 4 /* unknown commands: the model cannot run */
#define RKR_EMU_NOTHING 5 /* nothing to do: the ends of the graph, work of the runtime */

/* Layouts of a tensor in memory, numbered as in the file. */
#define RKR_EMU_PLAIN 0 /* the dimensions of the exporting framework, in order */
#define RKR_EMU_NHWC 1
#define RKR_EMU_NCHW 2
#define RKR_EMU_NC1HWC2 64 /* and rows of pixels, where is_pixel */
#define RKR_EMU_WEIGHTS 65

typedef struct {
    const char *soc;     /* "rk3588" */
    const char *toolkit; /* the text of the file */
    uint32_t graphs;     /* one per shape of a dynamic model; only one is loaded */
    uint32_t tensors;
    uint32_t nodes;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t tasks;
    uint64_t model_bytes;     /* weights and constants in the machine's memory */
    uint64_t internal_bytes;  /* tensors in the machine's memory */
    uint64_t multiplications; /* of one run */
    uint32_t bindings;        /* how often the form of an input has changed: commands change, too */
    uint32_t has_base;        /* 1: addresses in the commands count from the begin of the memory */
    uint32_t words_at_once;   /* of commands, in which the NPU counts their length */
} rkr_emu_info;

typedef struct {
    const char *name;   /* valid as long as the emulator */
    uint32_t type;      /* element type, numbered as in ONNX: 3 int8, 10 float16 */
    uint32_t layout;    /* RKR_EMU_NC1HWC2 ... */
    uint32_t kind;      /* 1 input, 2 output, 3 internal, others constant */
    uint32_t is_pixel;  /* 1: an image, rows of NHWC pixels */
    uint32_t quantized; /* 1: real = (value - zero_point) * scale */
    float scale;
    int32_t zero_point;
    uint32_t n_dims; /* logical, in the exporting framework's order */
    uint32_t dims[16];
    uint32_t n_native;
    uint32_t native[24];
    uint64_t address;      /* in the machine's memory, where its values take: */
    uint64_t span_bytes;   /* perhaps more than are reserved */
    uint64_t n_elems;      /* logical elements */
    uint32_t elem_bytes;   /* 0: an unknown type */
    uint32_t native_bytes; /* reserved in the machine's memory */
} rkr_emu_tensor;

/* Mean and std of an input, see modelfile.h. */
typedef rkr_normalisation rkr_emu_normalisation;

typedef struct {
    const char *op;     /* "ConvRelu" */
    const char *name;   /* of the exported graph */
    const char *reason; /* of a verdict other than RKR_EMU_EXACT; may be empty */
    uint32_t verdict;
    uint32_t is_faulty; /* 1: its commands are known to be wrong, or failed a trial: see reason */
    uint32_t tasks;     /* commands executed: 0 where it is computed from its tensors */
    uint32_t n_inputs;
    const uint32_t *inputs; /* indices of tensors; their number: an absent one */
    uint32_t n_outputs;
    const uint32_t *outputs;
} rkr_emu_node;

/* How values are given to an input. The runtime changes commands for it. */
#define RKR_EMU_AS_STORED 0 /* logical elements of the tensor's own type, framework's order */
#define RKR_EMU_AS_NATIVE 1 /* bytes of the tensor's memory; nothing is converted or changed */
#define RKR_EMU_AS_PIXELS 2 /* uint8 NHWC, normalised by the NPU; only of an image input */
/* As STORED, for images of RK3588 whose rows are filled up, with other columns after each row. The
 * runtime usually fills them with the zero point, but depending on the call also: */
#define RKR_EMU_AS_STORED_ZEROS 3 /* with 0 */
#define RKR_EMU_AS_STORED_MEAN 4  /* with the mean */
#define RKR_EMU_AS_STORED_EDGE 5  /* with nothing: nobody reads them */

/* How a tensor is read. */
#define RKR_EMU_READ_STORED 0 /* logical elements of the tensor's type, framework's order */
#define RKR_EMU_READ_NATIVE 1 /* its memory */
#define RKR_EMU_READ_FLOAT 2  /* logical elements, dequantized, float32 */

/* Read a model and decode the tasks of one graph (0 unless the model is dynamic).
 * `bytes` are needed until it returns. On failure `error` (may be NULL) gets the
 * reason, cut to error_size and NUL-terminated. A model with refused nodes opens. */
typedef int rkr_emu_open_fn(const uint8_t *bytes, size_t size, uint32_t graph, rkr_emu **out,
                            char *error, size_t error_size);

/* The caller's memory for a machine, such as memory that an NPU can reach: `get` returns zeroed
 * bytes that last longer than the emulator, or NULL. If `page` is not 0 and the file leaves a
 * choice, the first `constants` of them may lie elsewhere: a multiple of `page`, over whose end no
 * task reaches, and written while the model is opened alone. Else `constants` is 0. */
typedef struct {
    void *self;
    void *(*get)(void *self, size_t constants, size_t bytes);
    uint32_t page;
    /* How many cores' tasks to read (0: one's), and which one's, as RK3576's share a buffer where
     * each has its half. RKR_EMU_ERR_UNKNOWN if the file has none. */
    uint32_t cores, core;
} rkr_emu_memory;

/* The same in that memory, with the commands kept for rkr_emu_get_commands. Tasks of several cores
 * are sorted by node, then by core. */
typedef int rkr_emu_open_in_fn(const uint8_t *bytes, size_t size, uint32_t graph,
                               const rkr_emu_memory *memory, rkr_emu **out, char *error,
                               size_t error_size);

typedef struct {
    uint32_t node;
    uint32_t enabled;    /* blocks */
    uint32_t interrupts; /* that end it */
    uint32_t cleared;    /* interrupts that are reset before */
    uint32_t uses_lut;
    uint32_t loads_lut;
    uint32_t pools;         /* by the PPU */
    uint32_t next_flags;    /* the file's flags next to the amount of the following task */
    uint32_t is_understood; /* its addresses are checked, too */
    uint32_t core;          /* of those that share the work */
    uint32_t number;        /* among the file's tasks */
} rkr_emu_task;

/* A task of a model that was opened with rkr_emu_open_in. */
typedef int rkr_emu_get_task_fn(const rkr_emu *emu, uint32_t task, rkr_emu_task *out);

/* The command words of a task for the inputs as they were set, with `base` added to addresses in
 * the machine's memory, another one to those behind the constants: as the file has them, or written
 * out in full so that they rely on no other task. `*count` is the room, then how many there are.
 * RKR_ERR_OVERFLOW and nothing written if it is too small, RKR_EMU_ERR_UNKNOWN if nobody knows the
 * words for these inputs, or for a container of toolkits up to 1.5.0. The four words that lead to
 * the next task are left out. */
typedef int rkr_emu_get_commands_fn(const rkr_emu *emu, uint32_t task, int is_whole,
                                    const uint32_t base[2], uint64_t *words, size_t *count);

/* Where the commands of a task say where it reads an input's image, which may then lie elsewhere:
 * the word, and how far behind its begin. RKR_ERR_UNAVAILABLE if the task does not read the input;
 * RKR_EMU_ERR_UNKNOWN if it may, but not by one word, or other bytes than RKR_EMU_AS_PIXELS has. */
typedef int rkr_emu_find_image_fn(const rkr_emu *emu, uint32_t task, int is_whole, uint32_t input,
                                  uint32_t *word, uint32_t *offset);

/* An NPU without a model, for a stand-in of its device: it executes commands in memory. */
typedef struct rkr_npu rkr_npu;

/* `memory` begins at the NPU's address 0. NULL: no memory, or no such SoC. */
typedef rkr_npu *rkr_npu_open_fn(const char *soc, uint8_t *memory, size_t bytes);

/* Leave values in its registers and tables as another program might. */
typedef void rkr_npu_scramble_fn(rkr_npu *npu, uint32_t seed);

/* Fetch and execute `tasks` tasks: the first from `address`, with `amount` as in the register of
 * that name, the others as the commands say. `interrupts` gets the interrupts of the last task.
 * Returns how many were executed: less than all where commands are none. `base`: see rkr_emu_info.
 */
typedef uint32_t rkr_npu_run_fn(rkr_npu *npu, uint32_t address, uint32_t amount, uint32_t tasks,
                                uint32_t base, uint32_t *interrupts);

/* Why not all tasks were executed. */
typedef const char *rkr_npu_error_fn(const rkr_npu *npu);

/* Also accepts NULL. */
typedef void rkr_emu_close_fn(rkr_emu *emu);

/* Why the last call on this emulator failed; valid until the next one. */
typedef const char *rkr_emu_error_fn(const rkr_emu *emu);

typedef int rkr_emu_get_info_fn(const rkr_emu *emu, rkr_emu_info *info);
typedef int rkr_emu_get_normalisation_fn(const rkr_emu *emu, uint32_t input,
                                         rkr_emu_normalisation *out);
typedef int rkr_emu_get_tensor_fn(const rkr_emu *emu, uint32_t tensor, rkr_emu_tensor *out);
typedef int rkr_emu_get_node_fn(const rkr_emu *emu, uint32_t node, rkr_emu_node *out);

/* Execute the commands of each node once on random values, and compare them with what its operator
 * is defined to give. A node that fails gets RKR_EMU_DECODED and a reason. The memory is unchanged
 * afterwards. Once is enough: later calls do nothing. */
typedef int rkr_emu_try_fn(rkr_emu *emu);

/* The tensors of the inputs and outputs: `tensors` has room for that many. */
typedef int rkr_emu_get_inputs_fn(const rkr_emu *emu, uint32_t *tensors);
typedef int rkr_emu_get_outputs_fn(const rkr_emu *emu, uint32_t *tensors);

/* Give input `index` its values for the next run, which uses them up; RKR_EMU_AS_...; `size` must
 * be exact, but that rows of uint8 pixels may be longer than the image's. NULL for `data`: an image
 * that lies elsewhere, see rkr_emu_find_image. */
typedef int rkr_emu_set_input_fn(rkr_emu *emu, uint32_t index, uint32_t form, const void *data,
                                 size_t size);

/* Execute all nodes in order, or those before `nodes` only. An inner tensor holds its
 * values until a later node takes its memory: read it after its node. */
typedef int rkr_emu_run_fn(rkr_emu *emu, uint32_t nodes);

/* Execute one node. Those before it must have been executed, in their order, since the
 * inputs were set; node 0 begins a run. */
typedef int rkr_emu_run_node_fn(rkr_emu *emu, uint32_t node);

/* Copy a tensor's values, RKR_EMU_READ_...; `size` must be exact, of its memory at most so. With
 * NULL for `data`: only find out whether it can be read, before memory is taken for it. */
typedef int rkr_emu_read_fn(rkr_emu *emu, uint32_t tensor, uint32_t form, void *data, size_t size);

/* Whether a node can be computed by somebody else: its tensors can be read and written, but for
 * constants that are repacked for the NPU. That one reads its inputs, writes its outputs, and
 * leaves rkr_emu_run_node out. */
typedef int rkr_emu_is_replaceable_fn(const rkr_emu *emu, uint32_t node);

/* Store logical elements in float32 as the tensor's own type; `size` must be exact. Not of
 * constants. */
typedef int rkr_emu_write_float_fn(rkr_emu *emu, uint32_t tensor, const float *data, size_t size);

#define RKR_EMU_ATTRIBUTE_INT64 1
#define RKR_EMU_ATTRIBUTE_FLOAT 2
#define RKR_EMU_ATTRIBUTE_TEXT 3

/* An attribute of a node, as far as the file keeps it by its name: RKR_EMU_ATTRIBUTE_INT64, FLOAT
 * (of 32 bits) or TEXT, and how many; as many as fit are copied to `data`. */
typedef int rkr_emu_get_attribute_fn(const rkr_emu *emu, uint32_t node, const char *name,
                                     uint32_t *type, uint32_t *count, void *data, size_t size);

/* Describe what kind of task `task` of the whole model is, and which node it belongs to; an empty
 * text: it is not executed, or has no result. */
typedef int rkr_emu_get_kind_fn(const rkr_emu *emu, uint32_t task, uint32_t *node, char *text,
                                size_t size);
