"""Small layers on the emulator, compared with their ONNX files on the dequantized input.

The files are made with rknn-toolkit2 2.3.2 and calibrated with normal numbers. Those in `WRONG`
come from mistakes of that compiler: a board executes the commands, which differ from the network,
and the emulator has to say so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from rknn_runtime.sim.emulator import Emulator, TensorInfo, Verdict

FOLDER = DATA / "layers"
#: The emulator's text for a file whose commands compute another network.
WRONG = {
    # reads a graph's input of 35 pixels as if each group of channels had 36
    "odd_maximum_rk3588": "as if its channels were padded",
    # makes a copy of an input with an odd number of pixels, but reads the input
    "odd_norm_rk3588": "as if its channels were padded",
    # has one task for two images
    "half_batch_rv1106": "do not write all of 't1_0'",
    # takes [1, 33, 10] in plain order for groups of channels with gaps
    "plain_swish_rk3566": "other results than HardSwish",
    # counts Clip's upper bound from 0, not from the lower bound
    "clamp_rv1106": "other results than Clip",
    # writes 0 where it should write the constant -0.7
    "where_rk3588": "other results than Where",
    # takes other pixels where 17 * 0.75 is cut to 12
    "resize_rk3566": "it resizes by another scale",
    # slices the result of an LSTM, which lies in plain order, as groups of channels
    "recurrent_rv1103b": "other results than Slice",
    # writes 1,280 bytes of Softplus where 1,056 are reserved, and HardSigmoid's result lies there
    "little_memory_rv1103b": "it reserves less memory for the result",
    # clips at alpha, which is 1, instead of cutting below it
    "threshold_rk3588": "it clips ThresholdedRelu at alpha",
    # says of one operand that it lies in plain order, and reads it like the other one
    "two_orders_rk3588": "other results than Sub",
    # says that HardSwish's source lies in plain order
    "plain_hardswish_rk3566": "other results than HardSwish",
    # leaves the biases that the network does not have as memory was
    "no_biases_rk3566": "biases from unset memory",
    # lets the 65th channel read two kernels where one was stored
    "lone_channel_rk3576": "reads past the end of",
    # takes the second half of 32 values from elsewhere
    "gated_rk3562": "other results than exGlu",
    # gives 16 biases to each of two groups of 3 channels
    "two_groups_rk3588": "divides the biases of a grouped ConvTranspose",
    # has one task for three images of one pixel
    "lone_pixels_rv1103b": "reads several images as one",
    # writes three of four columns
    "lost_column_rk3588": "do not write all of 't3_branch0'",
    # reads memory that no task writes
    "unset_rv1106": "other results than Resize",
    # stores 16 of 31 values
    "cut_constant_rv1103b": "fewer values of a constant",
    # rounds coordinates of align_corners, where floor is asked for
    "corners_rk3566": "other results than Resize",
}
FILES = sorted(FOLDER.glob("*.rknn"))


def limits(tensor: TensorInfo) -> tuple[int, int]:
    """Return the smallest and the largest number of the tensor's type."""
    return np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max


def differences(path: Path) -> tuple[Emulator, float]:
    """Run a file; its largest error, in steps of the output, or in thousandths of float16."""
    onnxruntime = pytest.importorskip("onnxruntime")
    emulator = Emulator(path)
    session = onnxruntime.InferenceSession(str(FOLDER / f"{path.stem.rsplit('_', 1)[0]}.onnx"))
    random = np.random.default_rng(8)
    # The toolkit leaves out inputs that no output depends on.
    feed = {each.name: np.zeros(each.shape, np.float32) for each in session.get_inputs()}
    for index, (tensor, given) in enumerate(zip(emulator.inputs, session.get_inputs())):
        values = random.normal(size=tensor.shape)
        if tensor.scale:
            stored = np.rint(values / tensor.scale) + tensor.zero_point
            stored = np.clip(stored, *limits(tensor))
            real = (stored - tensor.zero_point) * tensor.scale
        else:
            stored = real = values.astype(np.float16)
        emulator.set_input(index, stored.astype(tensor.dtype))
        feed[given.name] = real.astype(np.float32).reshape(given.shape)
    emulator.run()
    worst = 0.0
    for output, expected in zip(emulator.outputs, session.run(None, feed)):
        step = output.scale or np.abs(expected).max() / 1000
        if output.scale:
            low, high = (np.array(limits(output)) - output.zero_point) * output.scale
            expected = np.clip(expected, low, high)
        found = emulator.read_float(output).reshape(expected.shape)
        worst = max(worst, float(np.abs(found - expected).max() / step))
    return emulator, worst


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_equals_the_network_or_says_why_not(path: Path) -> None:
    """A result that is not the network's has a verdict that says so."""
    emulator, steps = differences(path)
    nodes = emulator.emulation.nodes
    if path.stem in WRONG:
        assert steps > 8
        doubts = [n for n in nodes if n.verdict in (Verdict.DECODED, Verdict.ASSUMED)]
        assert any(WRONG[path.stem] in node.reason for node in doubts)
    else:
        assert steps < (3 if emulator.outputs[0].dtype != np.int16 else 8)  # of 65,536
        doubts = [n.reason for n in nodes if n.verdict == Verdict.DECODED]
        assert all(reason.startswith("no network has proven") for reason in doubts)
