"""Exceptions: each is an `RknnError` and also the built-in class that a caller expects.

Faults of a runtime or a model file raise an `RknnError`. A wrong argument is a plain `TypeError` or
`ValueError`, as in NumPy. docs/errors.md has the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknn_runtime._ffi import lib

__all__ = [
    "AllocationError",
    "ClosedError",
    "DecryptionError",
    "DeviceMismatchError",
    "DeviceUnavailableError",
    "ForkError",
    "InvalidContextError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidModelError",
    "InvalidOutputError",
    "InvalidParameterError",
    "LibraryLoadError",
    "ModelRefusedError",
    "OperationFailedError",
    "OptimizationLevelError",
    "PrecompiledModelError",
    "RknnError",
    "RknnStatusError",
    "RknnTimeoutError",
    "SocBindingError",
    "TargetPlatformError",
    "UnavailableError",
]


class RknnError(Exception):
    """Root of this package's exceptions.

    Raised itself if the runtime contradicts itself: try the runtime of the model's toolkit.
    """


class ClosedError(RknnError, ValueError):
    """Use of a model or a memory after ``close()``, or after its ``with`` block."""


class ForkError(RknnError, RuntimeError):
    """Use of a model or a memory in a process forked after it was made.

    Load the model in the child, or use ``multiprocessing.get_context("spawn")``.
    """


class InvalidModelError(RknnError, ValueError):
    """Not a ``.rknn`` model, damaged, or for another SoC or runtime.

    Copy the file again, or convert the model for this SoC.
    """


class UnavailableError(RknnError, NotImplementedError):
    """The loaded runtime lacks this function: it is too old, or librknnmrt.

    Install a newer one.
    """


class LibraryLoadError(RknnError, OSError):
    """No vendor library can be loaded.

    On a PC pass ``library="sim"``; on a board install the library, or name it with ``library=``.

    Attributes:
        attempts: Pairs of what was tried and why it failed, in that order.
    """

    def __init__(self, message: str, attempts: Sequence[tuple[str, str]] = ()) -> None:
        self.attempts = tuple(attempts)
        reasons: dict[str, list[str]] = {}
        for path, reason in self.attempts:
            reasons.setdefault(reason, []).append(path)
        lines = [f"  {', '.join(paths)}: {reason}" for reason, paths in reasons.items()]
        super().__init__("\n".join([message, *lines]))
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._message, self.attempts)


class RknnStatusError(RknnError):
    """A function of the vendor library returned a status other than success.

    A status without a subclass, as from newer runtimes, raises this class itself.

    Attributes:
        code: The status, a negative int.
        call: The function, with what it was asked to do.
        name: The vendor's name of the status, or ``"unknown status"``.
    """

    name = "unknown status"
    #: What to try next; a child overrides it.
    advice = "this status is not documented; the runtime's own log may say more"

    def __init__(self, code: int, call: str, detail: str = "") -> None:
        self.code = code
        self.call = call
        self.detail = detail
        message = f"{call} failed with {code} ({self.name}): {detail or self.advice}"
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.call, self.detail)


class OperationFailedError(RknnStatusError, RuntimeError):
    """Status -1: the call failed for a reason that the runtime only logs."""

    name = "RKNN_ERR_FAIL"
    advice = (
        "check permissions, operators, and the versions of toolkit, runtime and driver; with "
        "RKNN_LOG_LEVEL=4 set before the process starts, the runtime prints more"
    )


class RknnTimeoutError(RknnStatusError, TimeoutError):
    """Status -2: the NPU did not finish in time."""

    name = "RKNN_ERR_TIMEOUT"
    advice = "the NPU did not finish in time; read dmesg, then load the model again"


class DeviceUnavailableError(RknnStatusError, OSError):
    """Status -3: the NPU device cannot be used."""

    name = "RKNN_ERR_DEVICE_UNAVAILABLE"
    advice = (
        "check that the NPU driver is loaded and that this user may read and write "
        "/dev/dri/renderD* or /dev/rknpu (in a container: pass the device in)"
    )


class AllocationError(RknnStatusError, MemoryError):
    """Status -4, or NULL from a function that allocates: no memory for the NPU."""

    name = "RKNN_ERR_MALLOC_FAIL"
    advice = (
        "no memory for the NPU; close other models, use a smaller one, or enlarge the kernel's CMA"
    )


class InvalidParameterError(RknnStatusError, ValueError):
    """Status -5: the runtime refuses a parameter."""

    name = "RKNN_ERR_PARAM_INVALID"
    advice = (
        "the runtime refuses a parameter or lacks this request; install a newer one, and with "
        "librknnmrt use Model instead of GeneralModel"
    )


class ModelRefusedError(RknnStatusError, InvalidModelError):
    """Status -6: the runtime refuses the model."""

    name = "RKNN_ERR_MODEL_INVALID"
    advice = (
        "the model is for another SoC, from a toolkit newer than the runtime, or damaged; convert "
        "it with the toolkit of this runtime"
    )


class InvalidContextError(RknnStatusError, ValueError):
    """Status -7: the context is invalid, or in a wrong state for this call."""

    name = "RKNN_ERR_CTX_INVALID"
    advice = "the context has ended; load the model again"


class InvalidInputError(RknnStatusError, ValueError):
    """Status -8: the runtime refuses an input."""

    name = "RKNN_ERR_INPUT_INVALID"
    advice = "the runtime refuses an input; compare it with model.inputs"


class InvalidOutputError(RknnStatusError, ValueError):
    """Status -9: the runtime refuses an output."""

    name = "RKNN_ERR_OUTPUT_INVALID"
    advice = "the runtime refuses an output; compare it with model.outputs"


class DeviceMismatchError(RknnStatusError, OSError):
    """Status -10: runtime, driver and NPU do not match."""

    name = "RKNN_ERR_DEVICE_UNMATCH"
    advice = "runtime, driver and NPU do not match; update library and driver together"


class PrecompiledModelError(RknnStatusError, InvalidModelError):
    """Status -11: the model was precompiled for another runtime."""

    name = "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL"
    advice = "the model was precompiled for another runtime version; convert it again"


class OptimizationLevelError(RknnStatusError, InvalidModelError):
    """Status -12: the model's optimization level is newer than the runtime."""

    name = "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION"
    advice = (
        "the model's optimization level is newer than the runtime; lower optimization_level, or "
        "update the runtime"
    )


class TargetPlatformError(RknnStatusError, InvalidModelError):
    """Status -13: the model was converted for another SoC."""

    name = "RKNN_ERR_TARGET_PLATFORM_UNMATCH"
    advice = (
        "the model was converted for another SoC; convert it with target_platform set to this one"
    )


class InvalidKeyError(RknnStatusError, InvalidModelError):
    """Status -14: the encrypted model needs another key."""

    name = "RKNN_ERR_KEY_INVALID"
    advice = (
        "the model is encrypted, and the key is missing or wrong; use the model before encryption"
    )


class DecryptionError(RknnStatusError, InvalidModelError):
    """Status -15: the encrypted model cannot be decrypted."""

    name = "RKNN_ERR_DECRYPT_FAILED"
    advice = "the model is encrypted, and damaged or encrypted for another key; export it again"


class SocBindingError(RknnStatusError, InvalidModelError):
    """Status -16: the encrypted model is bound to another chip."""

    name = "RKNN_ERR_SOC_BIND_FAILED"
    advice = "the model was encrypted for another chip; encrypt it for this one"


#: As RKNNLite 2.5.0 names them; no public header does.
_NEWER = {
    "RKNN_ERR_KEY_INVALID": -14,
    "RKNN_ERR_DECRYPT_FAILED": -15,
    "RKNN_ERR_SOC_BIND_FAILED": -16,
}

_STATUS_CLASSES: dict[int, type[RknnStatusError]] = {
    _NEWER.get(cls.name) or getattr(lib, cls.name): cls for cls in RknnStatusError.__subclasses__()
}
_STATUS_CLASSES[lib.RKR_ERR_NULL] = AllocationError


def status_error(status: int, call: str, detail: str = "", printed: str = "") -> Exception:
    """Make the exception for a status of the vendor's functions or of our own in C.

    Args:
        status: A negative status.
        call: The function, with what it was asked to do.
        detail: Replaces the general advice, where the caller knows the reason.
        printed: What the runtime itself said, added to either.

    Returns:
        An `RknnStatusError` child for the vendor's statuses; `UnavailableError`,
        `AllocationError`, `LibraryLoadError`, `MemoryError`, `OverflowError` or
        `ValueError` for ours.
    """
    if status == lib.RKR_ERR_NULL:
        detail = detail or f"it returned NULL; {AllocationError.advice}"
    own = _OWN_STATUSES.get(status)
    if own is not None:
        cls, meaning = own
        return cls(f"{call}: {detail or meaning}")
    kind = _STATUS_CLASSES.get(status, RknnStatusError)
    if printed:
        detail = f"{detail or kind.advice}; {printed}"
    return kind(status, call, detail)


_OWN_STATUSES: dict[int, tuple[type[Exception], str]] = {
    lib.RKR_ERR_UNAVAILABLE: (UnavailableError, "the loaded library does not have this function"),
    lib.RKR_ERR_ARGUMENT: (ValueError, "a null pointer or a number outside its range"),
    lib.RKR_ERR_SHAPE: (ValueError, "dimensions that contradict each other"),
    lib.RKR_ERR_OVERFLOW: (OverflowError, "a product of dimensions does not fit"),
    lib.RKR_ERR_LOAD: (LibraryLoadError, "the library does not load"),
    lib.RKR_ERR_MEMORY: (MemoryError, "out of memory"),
    lib.RKR_ERR_OVERLAP: (ValueError, "out shares memory with the source; give it its own"),
    lib.RKR_ERR_NAN: (ValueError, "the source has a NaN, which no integer stands for"),
}
