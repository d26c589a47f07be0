"""Multiply matrices on the NPU, without a model: the vendor's ``rknn_matmul_*``."""
