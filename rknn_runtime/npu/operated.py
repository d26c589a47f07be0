"""The methods of every model for custom operators; `operator_registration.py` does the work."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from rknn_runtime.npu.context import Context

if TYPE_CHECKING:
    from rknn_runtime.npu.operators import Compute, CustomOpNode

__all__ = ["Operated"]


class Operated:
    """Registers custom operators. Not for direct use."""

    _context: Context
    _is_duplicate = False

    def register_custom_op(
        self,
        op_type: str,
        compute: Compute,
        *,
        init: Callable[[CustomOpNode], object] | None = None,
        destroy: Callable[[CustomOpNode], object] | None = None,
    ) -> None:
        """Compute the nodes of a type by a function, as operators that were converted as custom.

        After the model was loaded, before its first run. Only librknnrt has custom operators.

        Args:
            op_type: The type of the nodes, as in the ONNX file: ``"cstSoftmax"``. One that no
                node has is no error.
            compute: ``compute(node, inputs, outputs)`` in each run for each such node, on
                whatever thread the runtime chooses. ``inputs`` and ``outputs`` are tuples of
                arrays in the framework's order (NCHW), as librknnrt gives them: float32. Inputs
                are copies. Outputs begin as zeros, are to be written in place, and are copied when
                it returns; both stay valid for who keeps them. What it raises, `run` raises. It
                can neither use nor close this model.
            init: ``init(node)`` once for each such node, now; ``node.data`` is for what it makes.
                What it raises, this call raises.
            destroy: ``destroy(node)`` once for each, when `close` has closed the model, not where
                a model is only dropped.

        Raises:
            RknnStatusError: The runtime refused.
            TypeError: A name that is no str, or something that cannot be called.
            UnavailableError: librknnmrt has no custom operators; and duplicates take none, as
                they were seen to make librknnrt unstable.
            ValueError: No name that C takes, or the type has a function already.
        """
        from rknn_runtime.npu.operator_registration import register

        register(
            self._context, op_type, compute, init, destroy, self._is_duplicate, self._take_note
        )

    def register_custom_op_library(self, path: str | os.PathLike[str]) -> str:
        """Compute the nodes of a type by a shared library that exports ``get_rknn_custom_op``.

        The library is code of yours that runs in this process: nothing protects from what it
        does. It is never closed.

        Args:
            path: Of the library.

        Returns:
            The type of its operator.

        Raises:
            LibraryLoadError: It cannot be loaded, or gives no operator.
            RknnStatusError: The runtime refused.
            TypeError: No path.
            UnavailableError: As in `register_custom_op`.
            ValueError: A path with a null character, or the type has a function already.
        """
        from rknn_runtime.npu.operator_registration import register_library

        return register_library(self._context, path, self._is_duplicate, self._take_note)

    def _take_note(self) -> None:
        """Have runs raise what an operator raised, inside ``with context.lock``."""
