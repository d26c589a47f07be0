"""Programs to start from; installed as ``rknn_runtime.examples``, to be run with ``python -m``."""
