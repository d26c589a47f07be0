"""The simulated NPU: makes what ``library="sim"`` loads, and steers it.

Names are imported when they are first used.
"""

from __future__ import annotations

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.sim.control import Control, Live
    from rknn_runtime.sim.describe import describe_input, describe_output
    from rknn_runtime.sim.install import install_library
    from rknn_runtime.sim.recorded import Record, bundle_from_arrays, record

__all__ = [
    "Control",
    "Live",
    "Record",
    "bundle_from_arrays",
    "describe_input",
    "describe_output",
    "install_library",
    "record",
]

lazily(
    globals(),
    {
        "control": ("Control", "Live"),
        "describe": ("describe_input", "describe_output"),
        "install": ("install_library",),
        "recorded": ("Record", "bundle_from_arrays", "record"),
    },
)
