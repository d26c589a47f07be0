/* SPDX-License-Identifier: MIT
 *
 * How the NPU wants matrix B of a product, and 4-bit integers.
 *
 * B has k rows and n columns. The NPU takes it in tiles of tile_n columns and tile_k rows, each
 * column after column. Beyond segment_k rows it is cut into segments, one after another. Element
 * (r, c), of a segment that begins at row s and has h rows, q = r - s, is at
 *
 *     plain   r * n + c
 *     native  s * n + ((c / tile_n * (h / tile_k) + q / tile_k) * tile_n + c % tile_n) * tile_k
 *               + q % tile_k
 *
 * `element_size` is 1 or 2 bytes; lengths are in elements and must be k * n. k and segment_k are
 * multiples of tile_k, n of tile_n; buffers are aligned and do not overlap.
 *
 * RKR_ERR_ARGUMENT: a null pointer, another element_size. RKR_ERR_SHAPE: a 0, no such multiple,
 * or a length that is not the product. RKR_ERR_OVERFLOW: a product beyond size_t.
 * RKR_ERR_OVERLAP: dst overlaps src. On an error dst is not touched. */

int rkr_tile_b(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
               size_t k, size_t n, size_t tile_k, size_t tile_n, size_t segment_k);
int rkr_untile_b(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                 size_t k, size_t n, size_t tile_k, size_t tile_n, size_t segment_k);

/* Two 4-bit integers a byte, the first one in the low half; src has 2 * dst_len values from -8
 * to 7, RKR_ERR_ARGUMENT where one is beyond (dst is then anything). Other errors as above. */
int rkr_pack_int4(const int8_t *src, size_t src_len, uint8_t *dst, size_t dst_len);
int rkr_unpack_int4(const uint8_t *src, size_t src_len, int8_t *dst, size_t dst_len);

/* What rknn_matmul_create of librknnrt 2.3.2 takes on a SoC. Sets of rknn_matmul_type have bit
 * `1 << type`. */
typedef struct {
    const char *soc;
    uint32_t group_bytes; /* of native A and C */
    uint32_t tile_n;      /* columns of a tile of B if A is float16; int8 2, int4 4 times these */
    uint32_t tile_k;      /* rows of a tile of B if A is float16; else 32 */
    uint32_t segment_k;   /* rows of native B that lie one after another; 0: all */
    uint32_t limit_k;     /* most rows of B; 0: not known */
    uint32_t types;
    uint32_t per_column, per_group; /* types whose B may have such scales */
} rkr_matmul_soc;

/* The SoCs, by index; NULL behind the last. */
const rkr_matmul_soc *rkr_matmul_soc_at(size_t index);
