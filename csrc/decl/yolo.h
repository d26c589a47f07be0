/* SPDX-License-Identifier: MIT
 *
 * Decoding of YOLO heads and non-maximum suppression.
 *
 * Every head is decoded from tensors as the runtime delivers them: scores are compared with the
 * threshold in the stored domain, and survivors alone are dequantized. A prediction with an
 * infinite or NaN score or box is dropped. Results come in the order of falling score; equal scores
 * keep the order of the predictions in the head. */

/* A tensor of one image in native memory. Channel c of cell p (p = y * width + x) is
 * element ((c / c2) * plane + p) * c2 + c % c2: NC1HWC2 itself, NCHW with c2 = 1, and NHWC with c2
 * = channels. `plane` >= height * width counts the cells from one channel group to the next,
 * `n_bytes` what may be read from `data`. `type` is an rknn_tensor_type: INT8, UINT8 or INT16 (real
 * = (q - zero_point) * scale), FLOAT16 or FLOAT32 (zero_point and scale ignored). `data` is aligned
 * to its element. */
typedef struct {
    const void *data;
    size_t n_bytes;
    int32_t type;
    int32_t zero_point;
    float scale;
    uint32_t channels;
    uint32_t height;
    uint32_t width;
    uint32_t plane;
    uint32_t c2;
} rkr_tensor_view;

/* conf_threshold: score >= threshold survives; finite, >= 0, and one that no stored
 * value reaches yields nothing. iou_threshold: a box is suppressed when its IoU with a
 * better one is above; 0..1. suppress 0: nothing is suppressed, as heads that were trained
 * for it want. class_agnostic 0: only boxes of the same class suppress. */
typedef struct {
    float conf_threshold;
    float iou_threshold;
    int32_t suppress;
    int32_t class_agnostic;
} rkr_yolo_options;

/* Where results go: `capacity` rows each, of which the first `count` belong to the last frame.
 * xyxy: 4 floats a row, in pixels of the model's input, or of the image where a placement was
 * given. corners: x and y of the 4 corners of an oriented box, whose upright hull xyxy then is,
 * always in pixels of the input; NULL for other heads. source: position of the prediction in the
 * head (branch, anchor, cell). columns: all of xyxy, confidence and class_id once more, one right
 * after the other: 24 * count bytes. */
typedef struct {
    float *xyxy;
    float *corners;
    float *confidence;
    int32_t *class_id;
    uint32_t *source;
    uint8_t *columns;
    size_t capacity;
    size_t count;
} rkr_detections;

/* Memory of one decoder, allocated once; not to be used by two calls at a time. A head
 * has up to n_predictions; when more than max_candidates pass the threshold, those with
 * the highest scores go on to suppression. */
typedef struct rkr_yolo_workspace rkr_yolo_workspace;
int rkr_yolo_workspace_new(size_t n_predictions, size_t max_candidates, size_t max_detections,
                           rkr_yolo_workspace **out);
void rkr_yolo_workspace_free(rkr_yolo_workspace *workspace);

/* RKR_OK when every element of the view lies within n_bytes and its numbers make sense. */
int rkr_view_check(const rkr_tensor_view *view);

/* The decoders' first pass: hits[p] = 1 when any channel of [first, first + n_channels) of
 * cell p is >= threshold, else 0. In float tensors NaN may hit too, and with a threshold
 * <= 0 everything does. Uses the variant that rkr_cpu_select chose; all are bit-identical. */
int rkr_view_scan(const rkr_tensor_view *view, uint32_t first, uint32_t n_channels, float threshold,
                  uint8_t *hits);

/* Greedy non-maximum suppression of n boxes (xyxy, finite): IoU = inter / union in
 * float32. class_id NULL: class-agnostic. keep[0..*n_kept): indices by falling score,
 * equal scores by rising index, at most max_detections. */
int rkr_nms(const float *xyxy, const float *score, const int32_t *class_id, size_t n,
            float iou_threshold, size_t max_detections, uint32_t *keep, size_t *n_kept);

/* One scale of a head whose boxes and class scores are apart. Cell (x, y) has its centre
 * at ((x + offset) * stride_x, (y + offset) * stride_y); `offset` is mostly 0.5. box: 4 * n_bins
 * channels from box_first, the distances from the centre to left, top, right, bottom in strides: as
 * such (n_bins 1) or each as a distribution over 0 .. n_bins - 1 whose mean counts (softmax;
 * distribution focal loss, arXiv 2006.04388). score: n_classes channels from score_first.
 * score_sum: one channel, never below the highest class score but for rounding and the end of its
 * range, so that cells below the threshold need not be read; data NULL: absent. */
typedef struct {
    rkr_tensor_view box;
    rkr_tensor_view score;
    rkr_tensor_view score_sum;
    uint32_t box_first;
    uint32_t score_first;
    float stride_x;
    float stride_y;
    float offset;
} rkr_yolo_branch;

/* One scale, and one anchor of it, of a head with objectness: channels from `first` are
 * the box (4), objectness, `between` channels of another use, and the class scores. Anchors in
 * pixels; heads without anchors do not read them. `offset` is read by priors and points alone: the
 * anchor of cell (x, y) has its centre at ((x + offset) * stride_x, (y + offset) * stride_y). */
typedef struct {
    rkr_tensor_view view;
    uint32_t first;
    uint32_t between;
    float stride_x;
    float stride_y;
    float anchor_width;
    float anchor_height;
    float offset;
} rkr_yolo_grid;

/* One scale, and one anchor of it, of a head whose boxes are relative to prior boxes. `box`: 4
 * channels. `score`: n_classes channels from score_first; for a softmax the channel before it is
 * the background. `objectness`: one channel; data NULL: absent. */
typedef struct {
    rkr_yolo_grid box;
    rkr_tensor_view score;
    rkr_tensor_view objectness;
    uint32_t score_first;
    uint32_t objectness_first;
} rkr_yolo_prior;

/* The meaning of a value v of an angle. */
#define RKR_ANGLE_SIGMOID 0 /* (v - 0.25) * pi */
#define RKR_ANGLE_LOGIT 1   /* the same of 1 / (1 + e^-v) */
#define RKR_ANGLE_RADIANS 2 /* v */

/* How scores become probabilities: they are, by 1 / (1 + e^-v), or by e^v / (e^v + e^b) of a single
 * class and the background b. */
#define RKR_SCORE_READY 0
#define RKR_SCORE_SIGMOID 1
#define RKR_SCORE_SOFTMAX 2 /* rkr_yolo_decode_priors alone */

/* A model's head, filled once, and all that decoding a frame of it takes. `decode` is one of the
 * functions rkr_yolo_decode_* below, each of which documents the fields that it reads. */
typedef struct rkr_yolo_decoder rkr_yolo_decoder;
typedef int rkr_yolo_decode_fn(rkr_yolo_decoder *decoder, const rkr_placement *placement);
struct rkr_yolo_decoder {
    rkr_yolo_decode_fn *decode;
    const rkr_tensor_view *output;
    const rkr_yolo_branch *branches;
    const rkr_yolo_grid *grids;
    const rkr_yolo_prior *priors;
    size_t n_branches;
    size_t n_grids;
    size_t n_priors;
    uint32_t n_classes;
    uint32_t n_bins;
    int sigmoid;          /* RKR_SCORE_* */
    int angle_kind;       /* RKR_ANGLE_* */
    int swapped;          /* rkr_yolo_decode_priors alone: boxes are y, x, height, width */
    uint32_t first_class; /* the same: added to class numbers */
    int centred;          /* rkr_yolo_decode_pair alone */
    float centre_variance, size_variance; /* of prior boxes */
    float scale_x; /* multiply the boxes: 1 for pixels, the input's width and height for 0..1 */
    float scale_y;
    rkr_yolo_options options;
    rkr_yolo_workspace *workspace;
    rkr_detections results;
};

/* Decode a frame: `decode` of the decoder. With a placement boxes are mapped to the image and cut
 * off at its edges. RKR_ERR_ARGUMENT: a null pointer, a number that is none or out of range.
 * RKR_ERR_SHAPE: outputs that contradict each other. After an error there are no results. */
int rkr_yolo_decode(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* Ultralytics' single output: channels cx, cy, w, h, then n_classes scores (after sigmoid); further
 * channels are ignored. */
int rkr_yolo_decode_single(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLOv5, YOLOv7 and YOLOv5-face with anchors, grid and sigmoid already applied: grids, n_classes;
 * strides multiply the boxes. Confidence = objectness * class score, both at most 1. */
int rkr_yolo_decode_single_objectness(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* The first with oriented boxes: channel 4 + n_classes is the angle in radians, from the x
 * axis towards the y axis, about the centre. */
int rkr_yolo_decode_single_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLO-NAS, RT-DETR: boxes and scores of all predictions, worked out, as the two tensors of
 * branches[0], whose strides are ignored; n_classes, sigmoid, scale_x, scale_y. `centred` 1: boxes
 * are cx, cy, w, h; 0: x1, y1, x2, y2. */
int rkr_yolo_decode_pair(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLOv10 and YOLO26 with the selection in the graph: each cell of `output` is one detection,
 * channels x1, y1, x2, y2, score, class number; further channels are ignored.
 * Such heads want nothing suppressed. A class that is no number from 0 to 2^24 is dropped. */
int rkr_yolo_decode_end_to_end(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLOv6, v8, v9, v10, 11, 12, 26 and PP-YOLOE in the vendor model zoo's split form: branches,
 * n_classes, n_bins, sigmoid. `source` counts cells, branch after branch. */
int rkr_yolo_decode_split(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* The same with oriented boxes. The angles, as angle_kind says, are channel `first` of grids
 * that have, one after the other, as many cells as all branches; strides and anchors are ignored.
 * With it the distances are along the box's own axes (YOLOv8-obb). */
int rkr_yolo_decode_split_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLOv5 and YOLOv7: grids, n_classes, sigmoid. With s = sigmoid of the stored value (sigmoid 1),
 * or the stored value where the graph ends with it: centre = (2 s - 0.5 + cell) * stride, size =
 * (2 s)^2 * anchor, confidence = objectness * class score, with n_classes 0 objectness, of class
 * 0. Scores are at most 1. `source` counts cells, grid after grid. */
int rkr_yolo_decode_anchors(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* YOLOX: centre = (v + cell) * stride, size = e^v * stride; scores as above, `sigmoid` is
 * theirs alone. */
int rkr_yolo_decode_yolox(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* RetinaFace, YuNet, SSD: priors, n_classes, sigmoid, variances. With values v of a cell and its
 * prior box, centre = centre of the prior + v[0..1] * centre_variance * anchor, size =
 * e^(v[2..3] * size_variance) * anchor (arXiv 1512.02325). The confidence is the highest class
 * score, with objectness sqrt(score * objectness), both held to 0..1 (YuNet). `source` counts
 * cells, prior after prior. */
int rkr_yolo_decode_priors(rkr_yolo_decoder *decoder, const rkr_placement *placement);

/* Intersection over union of two convex quadrangles, x and y of their corners in order; 0
 * where one has no area. */
double rkr_quadrangle_iou(const float *a, const float *b);

/* What belongs to detections: dequantize n_channels channels from each grid's `first`, of the
 * cells that source[0 .. n) names (counted grid after grid), to dst[n][n_channels]. Strides
 * and anchors are not read. */
int rkr_yolo_gather(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels,
                    const uint32_t *source, size_t n, float *dst);

/* Points that are relative to anchors: of each of the cells that source[0 .. n) names, n_points
 * pairs of channels x, y from its grid's `first`: point = centre of the anchor + v * anchor. To
 * dst[n][n_points][3]: x, y, and 1, which stands for a confidence. In pixels of the model's input,
 * or, with a placement, of the image, in double precision and not cut off at its edges. At most
 * 128 points. */
int rkr_yolo_points(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_points,
                    const uint32_t *source, size_t n, const rkr_placement *placement, float *dst);

/* The image that masks are made for, and where it lies on the prototypes: the centre of
 * pixel (x, y) is at ((x + 0.5) * scale_x + offset_x, (y + 0.5) * scale_y + offset_y), where
 * prototype cell (0, 0) has its centre at (0.5, 0.5). Scales are above 0. */
typedef struct {
    double scale_x;
    double offset_x;
    double scale_y;
    double offset_y;
    uint32_t height;
    uint32_t width;
} rkr_mask_geometry;

/* Masks of n instances: mask k is where sum_c coefficient_c * prototype_c > 0, inside its
 * box. The sum is interpolated bilinearly; beyond the outer cells the edge counts. If it is
 * infinite or NaN, a mask may be 0. coefficients: as in rkr_yolo_gather, one channel per prototype,
 * of the predictions that `source` names; their strides and anchors are ignored. Boxes are xyxy in
 * pixels of the masks; a pixel is inside if its centre is (left and upper edge included). masks:
 * [n][height][width]; 0 or 1 is written inside the boxes, and nothing outside. At most 256
 * prototypes of at most 1024 columns. */
int rkr_yolo_masks(const rkr_tensor_view *prototypes, const rkr_yolo_grid *coefficients,
                   size_t n_grids, const uint32_t *source, const float *xyxy, size_t n,
                   const rkr_mask_geometry *geometry, uint8_t *masks);

/* Run lengths of a mask of less than 2^32 pixels down its columns, alternately of 0 and of any
 * other number, the first of 0; returns how many. `places` has room for `width` numbers, `runs`
 * for one more than the mask has pixels. */
size_t rkr_mask_runs(const uint8_t *mask, size_t height, size_t width, uint32_t *places,
                     uint32_t *runs);

/* The text of run lengths as maskApi of the COCO API writes it. The fourth and later runs are
 * differences to the run two before. Numbers are groups of 5 bits, lowest first, with a bit that
 * announces another group; characters start at "0". `out` has 7 bytes for each run. */
size_t rkr_compress_runs(const uint32_t *runs, size_t n, char *out);

/* The k highest channels of a tensor of one cell, falling, equal ones by rising number:
 * class numbers and values. NaN comes last. softmax: e^v / sum(e^v) in place of v; with
 * RKR_SOFTMAX_AUTO only where the values are no probabilities yet (all in 0..1 and, to 2 %,
 * with the sum 1). scratch: one float and two uint64_t per channel, the latter first. */
#define RKR_SOFTMAX_NO 0
#define RKR_SOFTMAX_YES 1
#define RKR_SOFTMAX_AUTO 2
int rkr_top_k(const rkr_tensor_view *scores, int softmax, size_t k, uint64_t *scratch,
              int32_t *class_id, float *confidence);
