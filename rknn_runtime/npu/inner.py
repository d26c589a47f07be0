"""Memory of the caller for a model's weights, and for what is between its layers."""

from __future__ import annotations

from rknn_runtime._ffi import lib
from rknn_runtime._locks import ExclusiveLock
from rknn_runtime.enums import InitFlag
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.memory import TensorMemory, turns_of

__all__ = ["INTERNAL", "WEIGHTS", "InnerMemory"]

WEIGHTS, INTERNAL = "the weights", "the internal memory"
#: What each of the two needs of the flags.
_FLAGS = {
    WEIGHTS: InitFlag.MEM_ALLOC_OUTSIDE,
    INTERNAL: InitFlag.MEM_ALLOC_OUTSIDE | InitFlag.INTERNAL_ALLOC_OUTSIDE,
}


class InnerMemory:
    """What of the two the caller has promised, and given.

    Attributes:
        missing: Names of what was promised, and not given yet.
        turns: What to hold during each run: others may compute in the same memory. None: nothing.
    """

    def __init__(self, context: Context, flags: InitFlag, *, has_weights: bool = False) -> None:
        """Ask how much is needed.

        Args:
            context: Of the model.
            flags: With which it was made.
            has_weights: Another model's.

        Raises:
            RknnStatusError: The runtime refused to say.
        """
        self._context, self._flags = context, flags
        #: What the runtime may have: one of each, and more only where a call was interrupted.
        self._held: dict[str, list[TensorMemory]] = {}
        self.turns: ExclusiveLock | None = None
        self.missing: list[str] = []
        if not flags & _FLAGS[INTERNAL]:
            return
        size = query.memory_size(context)
        self._needs = {WEIGHTS: size.weight_bytes, INTERNAL: size.internal_bytes}
        if has_weights:
            self._needs[WEIGHTS] = 0
        self.missing += [name for name in _FLAGS if flags & _FLAGS[name] and self._needs[name]]

    def give(self, name: str, memory: TensorMemory) -> None:
        """Give one of the two, in place of what was before, inside ``with context.lock``.

        Args:
            name: `WEIGHTS` or `INTERNAL`.
            memory: Of this model.

        Raises:
            ClosedError: Model or memory are closed.
            RknnStatusError: The runtime refused.
            TypeError: No memory.
            ValueError: The model was loaded without the flag, or the memory is too small, of
                another model, or bound to something else.
        """
        call = "rknn_set_weight_mem" if name == WEIGHTS else "rknn_set_internal_mem"
        if not self._flags & _FLAGS[name]:
            raise ValueError(
                f"{call}: expected a model that was loaded with "
                f"{' or '.join(str(flag.name) for flag in _each(_FLAGS[name]))}, got one with "
                f"{self._flags!r}"
            )
        if not isinstance(memory, TensorMemory):
            raise TypeError(f"memory: expected a TensorMemory, got {type(memory).__name__}")
        context, held = self._context, self._held.get(name, [])
        handle = context.opened()
        pointer = memory.usable(context, name, self._needs[name])
        turns = turns_of(memory) if name == INTERNAL else self.turns
        # First: an interrupt leaves it bound to us at worst, never to nobody, and alive.
        noted, self._held[name] = memory.bind(name), [*held, memory]
        status = getattr(lib, call.replace("rknn", "rkr", 1))(context.handle, handle, pointer)
        if status:
            memory.bind(noted)
            self._held[name] = held
            context.check_status(status, call)
        self.turns = turns
        for before in held:
            if before is not memory:
                before.bind(None)
        self._held[name] = [memory]
        if name in self.missing:
            self.missing.remove(name)

    def settle(self) -> None:
        """Give what was given before a call that was interrupted, inside ``with context.lock``.

        Raises:
            RknnStatusError: The runtime refused.
        """
        for name, held in self._held.items():
            if len(held) > 1:
                self.give(name, held[0])


def _each(flags: InitFlag) -> list[InitFlag]:
    return [flag for flag in InitFlag if flag and flag & flags == flag]
