"""A signal in any call of a runtime: nothing is lost, released twice or used late."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
from bundles import image, output, recorded
from tripwire import Tripwire

from rknn_runtime import GeneralModel, Model, TensorMemory
from rknn_runtime.errors import ClosedError
from rknn_runtime.sim import Live

NOTHING = Live(0, 0, 0)
FRAME = np.zeros((8, 20, 3), np.uint8)


@pytest.fixture(scope="module")
def tripwire(tmp_path_factory: pytest.TempPathFactory) -> Tripwire:
    return Tripwire(tmp_path_factory.mktemp("tripwire"))


def use_model(bundle: bytes, tripwire: Tripwire) -> None:
    with Model(bundle, library=tripwire.library, check=False) as model:
        model(FRAME)
        with TensorMemory(model._context, 64) as memory:
            memory.array()[:] = 1
            memory.sync_to_device()
        assert model.sdk_version.api


def use_general_model(bundle: bytes, tripwire: Tripwire) -> None:
    with GeneralModel(bundle, library=tripwire.library, check=False) as model:
        model.run(FRAME)
        model.run(FRAME, float_outputs=False)


@pytest.mark.parametrize(
    ("use", "soc"),
    [(use_model, "rk3588"), (use_model, "rv1106"), (use_general_model, "rk3588")],
    ids=["Model-rk3588", "Model-rv1106", "GeneralModel-rk3588"],
)
def test_a_signal_in_any_call_leaves_nothing_behind(
    control, tripwire: Tripwire, use: Callable[[bytes, Tripwire], None], soc: str
) -> None:
    """Ctrl-C in each call of load, run and close: afterwards no context, memory, output."""
    bundle = recorded(soc, outputs=[output(f"o{i}", (1, 5, 4, 6), soc, i) for i in range(3)]).data
    tripwire.set(0)
    use(bundle, tripwire)
    calls = tripwire.set(0)
    assert calls > 20
    for nth in range(1, calls + 1):
        tripwire.set(nth)
        try:
            use(bundle, tripwire)
        except KeyboardInterrupt:
            pass
        else:
            pytest.fail(f"call {nth} raised nothing")
        gc.collect()
        assert control.live == NOTHING, nth
        assert control.last_violation == "", nth
    tripwire.set(0)
    use(bundle, tripwire)


def test_a_signal_while_closing_leaves_the_model_closed(control, tripwire: Tripwire) -> None:
    """Every release is tried, the interrupt comes out at the end, and no use is late."""
    bundle = recorded(inputs=[image(), image(name="second", index=1)]).data
    tripwire.set(0)
    with Model(bundle, library=tripwire.library, check=False):
        tripwire.set(0)
    releases = tripwire.set(0)
    assert releases == 4  # two inputs, an output, the context
    for nth in range(1, releases + 1):
        model = Model(bundle, library=tripwire.library, check=False)
        memory = model.input_memory(0)
        tripwire.set(nth)
        with pytest.raises(KeyboardInterrupt):
            model.close()
        tripwire.set(0)
        assert control.live == NOTHING
        assert model.is_closed
        assert memory.is_closed
        for late in (model.input_view, model.output_raw, model.run, memory.array):
            with pytest.raises(ClosedError):
                late()
        model.close()
        memory.close()


def test_a_signal_while_a_memory_is_closed(control, tripwire: Tripwire) -> None:
    """It is released once, whether it is closed, dropped or left to the model after that."""
    tripwire.set(0)
    with Model(recorded().data, library=tripwire.library, check=False) as model:
        memory = TensorMemory(model._context, 64)
        before = control.calls("rknn_destroy_mem")
        tripwire.set(1)
        with pytest.raises(KeyboardInterrupt):
            memory.close()
        tripwire.set(0)
        assert memory.is_closed
        assert control.calls("rknn_destroy_mem") == before + 1
        with pytest.raises(ClosedError):
            memory.array()
        memory.close()
        # The runtime may give the same address again: a dead object must not release it.
        other = TensorMemory(model._context, 64)
        del memory
        gc.collect()
        assert not other.is_closed
        assert control.live.memories == 3
        other.close()
