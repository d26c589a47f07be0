"""What each SoC answers to each call of `test_soc_matrix.py`, a row each.

A column for each of `SOCS`: RK3562, RK3566, RK3568, RK3576, RK3588, RV1126B with librknnrt; RV1103,
RV1106, RV1103B, RV1106B, RK2118 with librknnmrt.
"""

from __future__ import annotations


def _rows(text: str) -> dict[str, str]:
    """What each call answers, a letter for each SoC."""
    split = (line.split(" ", 1) for line in text.strip().split("\n"))
    return {name: letters for letters, name in split}


#: A dot is success, a number the status without its minus.
ANSWERS_IN_C = _rows("""
111..111111 core mask 0x0
111..111111 core mask 0x1
111..111111 core mask 0x2
111..111111 core mask 0x3
1111.111111 core mask 0x4
11111111111 core mask 0x5
11111111111 core mask 0x6
1111.111111 core mask 0x7
11111111111 core mask 0x40
111..111111 core mask 0xffff
11155111111 batch cores 0
111..111111 batch cores 1
111..111111 batch cores 2
1115.111111 batch cores 3
11155111111 batch cores 4
........... init PRIOR_HIGH
........... init PRIOR_MEDIUM
........... init PRIOR_LOW
........... init ASYNC
........... init COLLECT_PERF
........... init MEM_ALLOC_OUTSIDE
........... init FENCE_IN_OUTSIDE
........... init FENCE_OUT_OUTSIDE
........... init COLLECT_MODEL_INFO_ONLY
........... init INTERNAL_ALLOC_OUTSIDE
........... init EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
........... init ENABLE_SRAM
........... init SHARE_SRAM
........... init DISABLE_PROC_HIGH_PRIORITY
........... init DISABLE_FLUSH_INPUT_MEM_CACHE
........... init DISABLE_FLUSH_OUTPUT_MEM_CACHE
........... init SHARE_WEIGHT_MEM
......11111 dup_context
66666611111 set_input_shapes of one
......11111 set_input_shapes of two
66666611111 dynamic range of one
......11111 dynamic range of two
......55555 inputs_set
11111155555 outputs_get
........... outputs_release
......11111 perf_detail
......11111 perf_run
111111..... device_memory
......11111 set_internal_mem
........... set_internal_mem, outside
........... set_weight_mem, outside
........... run
11111111111 wait
......11111 register_custom_ops
.....511111 matmul FLOAT16_MM_FLOAT16_TO_FLOAT32
.....511111 matmul INT8_MM_INT8_TO_INT32
5555.511111 matmul INT8_MM_INT8_TO_INT8
.55..511111 matmul FLOAT16_MM_FLOAT16_TO_FLOAT16
555.5511111 matmul FLOAT16_MM_INT8_TO_FLOAT32
55555511111 matmul FLOAT16_MM_INT8_TO_FLOAT16
555.5511111 matmul FLOAT16_MM_INT4_TO_FLOAT32
.55.5511111 matmul FLOAT16_MM_INT4_TO_FLOAT16
5555.511111 matmul INT8_MM_INT8_TO_FLOAT32
5555.511111 matmul INT4_MM_INT4_TO_INT16
555.5511111 matmul INT8_MM_INT4_TO_INT32
555.5511111 matmul FLOAT16_MM_INT4_TO_BFLOAT16
.5555511111 matmul INT8_MM_INT4_TO_FLOAT16
""")
#: A dot is success, a letter an exception.
ANSWERS_IN_PYTHON = _rows("""
UUU..UUUUUU set_core_mask AUTO
UUU..UUUUUU set_core_mask CORE_0
UUU..UUUUUU set_core_mask CORE_1
UUUV.UUUUUU set_core_mask CORE_2
UUU..UUUUUU set_core_mask CORE_0_1
UUUV.UUUUUU set_core_mask CORE_0_1_2
UUU..UUUUUU set_core_mask ALL
UUU..UUUUUU set_batch_core_num 1
UUU..UUUUUU set_batch_core_num 2
UUUV.UUUUUU set_batch_core_num 3
........... Model PRIOR_HIGH
........... Model PRIOR_MEDIUM
........... Model PRIOR_LOW
VVVVVVVVVVV Model ASYNC
........... Model COLLECT_PERF
........... Model MEM_ALLOC_OUTSIDE
......UUUUU Model FENCE_IN_OUTSIDE
......UUUUU Model FENCE_OUT_OUTSIDE
VVVVVVVVVVV Model COLLECT_MODEL_INFO_ONLY
........... Model INTERNAL_ALLOC_OUTSIDE
.....UUUUUU Model EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
UUUU.UUUUUU Model ENABLE_SRAM
UUUU.UUUUUU Model SHARE_SRAM
........... Model DISABLE_PROC_HIGH_PRIORITY
........... Model DISABLE_FLUSH_INPUT_MEM_CACHE
........... Model DISABLE_FLUSH_OUTPUT_MEM_CACHE
........... GeneralModel PRIOR_HIGH
........... GeneralModel PRIOR_MEDIUM
........... GeneralModel PRIOR_LOW
VVVVVVVVVVV GeneralModel ASYNC
........... GeneralModel COLLECT_PERF
VVVVVVVVVVV GeneralModel MEM_ALLOC_OUTSIDE
VVVVVVVVVVV GeneralModel FENCE_IN_OUTSIDE
VVVVVVVVVVV GeneralModel FENCE_OUT_OUTSIDE
VVVVVVVVVVV GeneralModel COLLECT_MODEL_INFO_ONLY
VVVVVVVVVVV GeneralModel INTERNAL_ALLOC_OUTSIDE
.....UUUUUU GeneralModel EXECUTE_FALLBACK_PRIOR_DEVICE_GPU
UUUU.UUUUUU GeneralModel ENABLE_SRAM
UUUU.UUUUUU GeneralModel SHARE_SRAM
........... GeneralModel DISABLE_PROC_HIGH_PRIORITY
VVVVVVVVVVV GeneralModel DISABLE_FLUSH_INPUT_MEM_CACHE
VVVVVVVVVVV GeneralModel DISABLE_FLUSH_OUTPUT_MEM_CACHE
........... share_weights_with
......UUUUU duplicate
......UUUUU duplicate of a GeneralModel
VVVVVVVVVVV set_input_shapes of one
........... Model.run
......PPPPP GeneralModel.run
......FFFFF perf_detail
......FFFFF last_run_us
FFFFFF..... device_memory
......UUUUU register_custom_op
VVVVVVVVVVV set_internal_memory
........... set_internal_memory, outside
........... set_weight_memory, outside
........... sync_to_device
........... TensorMemory flags
......UUUUU raw.start
FFFFFFFFFFF raw.wait
.....UUUUUU Matmul FLOAT16_MM_FLOAT16_TO_FLOAT32
.....UUUUUU Matmul INT8_MM_INT8_TO_INT32
UUUU.UUUUUU Matmul INT8_MM_INT8_TO_INT8
.UU..UUUUUU Matmul FLOAT16_MM_FLOAT16_TO_FLOAT16
UUU.UUUUUUU Matmul FLOAT16_MM_INT8_TO_FLOAT32
UUUUUUUUUUU Matmul FLOAT16_MM_INT8_TO_FLOAT16
UUU.UUUUUUU Matmul FLOAT16_MM_INT4_TO_FLOAT32
.UU.UUUUUUU Matmul FLOAT16_MM_INT4_TO_FLOAT16
UUUU.UUUUUU Matmul INT8_MM_INT8_TO_FLOAT32
UUUU.UUUUUU Matmul INT4_MM_INT4_TO_INT16
UUU.UUUUUUU Matmul INT8_MM_INT4_TO_INT32
UUU.UUUUUUU Matmul FLOAT16_MM_INT4_TO_BFLOAT16
.UUUUUUUUUU Matmul INT8_MM_INT4_TO_FLOAT16
""")
