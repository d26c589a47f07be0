"""Calls of the C API one by one, checked, for what no class here covers."""

from rknn_runtime.npu.raw.calls import functions, query, run, wait
from rknn_runtime.npu.raw.flight import Flight, start
from rknn_runtime.npu.raw.objects import inputs_set, matmul_get_quant_params, mem_sync, outputs_get

__all__ = [
    "Flight",
    "functions",
    "inputs_set",
    "matmul_get_quant_params",
    "mem_sync",
    "outputs_get",
    "query",
    "run",
    "start",
    "wait",
]
