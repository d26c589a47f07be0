"""Compare a file on the emulator with its network in float.

The allowed difference is derived from the file. Every stored tensor and every constant is moved by
up to half of its step, at random and several times; the outputs show the effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from rknn_runtime.sim.emulator import Emulator, EmulatorError, TensorInfo, Verdict

from .network import Case

#: Images are bytes with this mean and standard deviation.
MEAN, STD = 128.0, 32.0
_TRIALS = 10
#: A value near a whole number may fall to either side: these are moved further, and more often.
_JUMPS = ("Floor", "Ceil", "Round", "Sign", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
          "Equal", "ArgMax", "ArgMin", "TopK")  # fmt: skip
_NORMS = ("LayerNormalization", "GroupNormalization", "InstanceNormalization", "RMSNormalization")
#: Operators whose constants the toolkit quantizes.
_QUANTIZED = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Sub", "Mul", "Div", "Max", "Min",
              "PRelu", "GRU", "LSTM", *_NORMS)  # fmt: skip
#: An output that is 1 off in its own steps is rounding, 2 are that and a table's interpolation.
#: Tables have 513 entries whatever the type.
_STEPS = {"int8": 2.0, "float16": 2.0, "int16": 64.0}

Array = np.ndarray[Any, Any]


@dataclass
class Outcome:
    """What became of one file."""

    #: "right", "refused", "wrong", "bug" (of the toolkit), "doubted" (wrong, and the verdict says
    #: that it is not sure), "unread" or "unconverted".
    result: str
    reason: str = ""
    #: Largest difference, in steps of the output and as a part of what rounding explains.
    steps: float = 0.0
    excess: float = 0.0
    #: How many nodes have each verdict.
    verdicts: dict[str, int] = field(default_factory=dict)
    #: Kinds of the executed tasks.
    kinds: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the entry of the results file."""
        return asdict(self)


def is_image(shape: Sequence[int]) -> bool:
    """Whether the toolkit takes an input for an image."""
    return len(shape) == 4 and shape[1] in (1, 3, 4)


def norms(case: Case) -> list[tuple[float, float, int]]:
    """Return mean, standard deviation and channels of each input; 0 and 1 if it is no image."""
    return [
        (MEAN, STD, shape[1]) if is_image(shape) else (0.0, 1.0, shape[1] if len(shape) > 1 else 1)
        for _, shape, *_ in case.inputs
    ]


def draw_inputs(case: Case, runs: int = 4) -> list[list[Array]]:
    """Draw inputs as the network in float takes them."""
    random = np.random.default_rng(case.random)
    found = []
    for _ in range(runs):
        run = []
        for _, shape, low, high in case.inputs:
            values = random.uniform(low, high, shape)
            if is_image(shape):
                values = (np.clip(np.rint(values * STD + MEAN), 0, 255) - MEAN) / STD
            run.append(values.astype(np.float32))
        found.append(run)
    return found


def calibration(case: Case, runs: list[list[Array]]) -> list[list[Array]]:
    """Return inputs as the toolkit takes them: before the normalisation."""
    return [
        [x * np.float32(STD) + np.float32(MEAN) if is_image(x.shape) else x for x in run]
        for run in runs
    ]


def give(
    machine: Emulator, names: list[str], inputs: list[Array]
) -> tuple[list[Array], list[float]]:
    """Set the inputs; return the values that the file's types can hold, and their uncertainty.

    The toolkit leaves out an input that no output depends on.
    """
    seen, unsure = [], []
    kept = {tensor.name: index for index, tensor in enumerate(machine.inputs)}
    for number, x in enumerate(inputs):
        index = kept.get(names[number]) if len(kept) < len(inputs) else number
        if index is None:
            seen.append(x)
            unsure.append(0.0)
            continue
        tensor = machine.inputs[index]
        if tensor.dtype is None:
            raise EmulatorError(f"input {index} has a type that is not read")
        if tensor.is_image and tensor.dtype == np.uint8:
            pixels = np.rint(x * STD + MEAN).astype(np.uint8)
            machine.set_input(index, np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)))
            seen.append(x)
            unsure.append(tensor.scale)
            continue
        stored = to_stored(x.reshape(tensor.shape), tensor)
        machine.set_input(index, stored)
        seen.append(to_real(stored, tensor).reshape(x.shape).astype(np.float32))
        unsure.append(0.0)
    return seen, unsure


def to_stored(x: Array, tensor: TensorInfo) -> Array:
    assert tensor.dtype is not None
    if tensor.dtype.kind == "f" or not tensor.scale:
        return x.astype(tensor.dtype)
    limits = np.iinfo(tensor.dtype)
    return np.clip(
        np.rint(x / np.float32(tensor.scale)) + tensor.zero_point, limits.min, limits.max
    ).astype(tensor.dtype)


def to_real(stored: Array, tensor: TensorInfo) -> Array:
    if not tensor.scale:
        return stored.astype(np.float64)
    return (stored.astype(np.float64) - tensor.zero_point) * tensor.scale


# ---- the network in float, moved ---------------------------------------------------


def _limits(tensor: TensorInfo) -> tuple[float, float] | None:
    if not tensor.scale or tensor.dtype is None or tensor.dtype.kind not in "iu":
        return None
    info = np.iinfo(tensor.dtype)
    low, high = ((limit - tensor.zero_point) * tensor.scale for limit in (info.min, info.max))
    return low, high


class Reference:
    """A network in float whose tensors and constants can be moved a little."""

    def __init__(self, network: bytes, stored: Mapping[str, TensorInfo], dtype: str) -> None:
        model = onnx.load_model_from_string(network)
        graph = model.graph
        self.inputs = [each.name for each in graph.input]
        self.outputs = [each.name for each in graph.output]
        self._dtype = dtype
        jumps = any(node.op_type in _JUMPS for node in graph.node)
        self._reach, self._trials = (1.0, 4 * _TRIALS) if jumps else (0.5, _TRIALS)
        self._moves: list[tuple[str, str, TensorInfo | float]] = []
        types = {
            each.name: each.type.tensor_type.elem_type
            for each in onnx.shape_inference.infer_shapes(model).graph.value_info
        }
        constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        nodes = []
        for node in graph.node:
            for i, name in enumerate(node.input):
                if self._is_moved(node.op_type, i, constants.get(name)):
                    step = self._step(node.op_type, constants[name])
                    node.input[i] = self._add(nodes, name, step, None)
            nodes.append(node)
            for i, name in enumerate(node.output):
                tensor = stored.get(name)
                is_inner = name and name not in self.outputs and tensor is not None
                if is_inner and types.get(name) == onnx.TensorProto.FLOAT:
                    node.output[i] = f"{name}/exact"
                    self._add(nodes, node.output[i], tensor, name)
        del graph.node[:]
        graph.node.extend(nodes)
        for name, _, _ in self._moves:
            graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        exact = [of for _, of, tensor in self._moves if isinstance(tensor, TensorInfo)]
        for name in exact:
            graph.output.add().name = name
        self._exact = exact
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self._constants = constants

    @staticmethod
    def _is_moved(kind: str, index: int, constant: Array | None) -> bool:
        if constant is None or constant.dtype != np.float32 or kind not in _QUANTIZED:
            return False
        if kind in ("Conv", "ConvTranspose", "Gemm"):
            return index == 1
        if kind in ("GRU", "LSTM", *_NORMS):
            return index in (1, 2)
        return True

    def _step(self, kind: str, constant: Array) -> float:
        """A whole step of a constant: of int8 per tensor, which is coarser than per channel.

        Norms have theirs in float16; in int16 the toolkit makes norms of other layers, too.
        """
        low, high = min(float(constant.min()), 0.0), max(float(constant.max()), 0.0)
        if self._dtype == "int8" and kind not in _NORMS:
            return (high - low) / 255
        return max(-low, high) * 2.0**-10

    def _add(self, nodes: list[Any], of: str, tensor: Any, name: str | None) -> str:
        move, moved = f"{of}/move{len(self._moves)}", name or f"{of}/moved{len(self._moves)}"
        limits = _limits(tensor) if isinstance(tensor, TensorInfo) else None
        target = moved if limits is None else f"{moved}/sum"
        nodes.append(helper.make_node("Add", [of, move], [target]))
        if limits is not None:
            ends = [f"{move}/low", f"{move}/high"]
            for end, limit in zip(ends, limits):
                value = numpy_helper.from_array(np.asarray(limit, np.float32))
                nodes.append(helper.make_node("Constant", [], [end], value=value))
            nodes.append(helper.make_node("Clip", [target, *ends], [moved]))
        self._moves.append((move, of, tensor))
        return moved

    def run(
        self, inputs: list[Array], unsure: list[float]
    ) -> tuple[list[Array], list[list[Array]]]:
        """Return the exact outputs, and the outputs of each trial."""
        given = dict(zip(self.inputs, inputs))
        zeros = {name: np.zeros((), np.float32) for name, _, _ in self._moves}
        found = self._session.run(None, {**given, **zeros})
        outputs, exact = found[: len(self.outputs)], found[len(self.outputs) :]
        sizes = dict(zip(self._exact, exact))
        random = np.random.default_rng(1)
        trials = []
        for _ in range(self._trials):
            moved = {
                name: np.asarray(x + self._noise(random, x) * step, np.float32)
                for (name, x), step in zip(given.items(), unsure)
            }
            for name, of, tensor in self._moves:
                x = sizes[of] if of in sizes else self._constants[of]
                step = tensor if isinstance(tensor, float) else self._inner_step(x, tensor)
                moved[name] = np.asarray(self._noise(random, x) * step, np.float32)
            trials.append(self._session.run(self.outputs, moved))
        return outputs, trials

    def _noise(self, random: np.random.Generator, x: Array) -> Array:
        return random.uniform(-self._reach, self._reach, x.shape)

    @staticmethod
    def _inner_step(x: Array, tensor: TensorInfo) -> Any:
        return tensor.scale if tensor.scale else np.abs(x).max(initial=0.0) * 2.0**-10


# ---- the verdict -------------------------------------------------------------------


def judge(network: bytes, rknn: bytes, inputs: list[Array], dtype: str,
          simulate: Any = None) -> tuple[Outcome, list[Array]]:  # fmt: skip
    """Run a file and compare it.

    Args:
        network: The ONNX file.
        rknn: What the toolkit made of it.
        inputs: As the network in float takes them.
        dtype: The type that the toolkit was asked for.
        simulate: Called where the two differ: returns the outputs of the toolkit's simulator.

    Returns:
        The outcome and the outputs, as stored.
    """
    try:
        machine = Emulator(rknn)
    except EmulatorError as error:
        return Outcome("unread", str(error)[:160]), []
    verdicts: dict[str, int] = {}
    for node in machine.nodes:
        verdicts[node.verdict.name] = verdicts.get(node.verdict.name, 0) + 1
    refused = [node for node in machine.nodes if node.verdict is Verdict.REFUSED]
    if refused:
        return Outcome("refused", f"{refused[0].op}: {refused[0].reason}", verdicts=verdicts), []
    try:
        names = [each.name for each in onnx.load_model_from_string(network).graph.input]
        seen, unsure = give(machine, names, inputs)
        machine.run()
        stored = [machine.read(tensor) for tensor in machine.outputs]
    except (EmulatorError, ValueError) as error:
        return Outcome("refused", str(error)[:160], verdicts=verdicts), []
    reference = Reference(network, stored_tensors(network, machine, seen), dtype)
    with np.errstate(all="ignore"):
        exact, trials = reference.run(seen, unsure)
        outcome = Outcome("right", verdicts=verdicts)
        for i, (tensor, values) in enumerate(zip(machine.outputs, stored)):
            moved = [trial[i] for trial in trials]
            measured = _measure(tensor, values, exact[i], moved, _STEPS[dtype])
            outcome.steps = max(outcome.steps, measured[0])
            outcome.excess = max(outcome.excess, measured[1])
    if len(stored) != len(exact):
        outcome.excess, outcome.reason = np.inf, f"{len(stored)} outputs, not {len(exact)}"
    if any(np.isnan(values).any() for values in exact):
        return Outcome("unconverted", "the network has no finite answer"), []
    if not outcome.excess <= 1.0:
        outcome.result = "wrong"
        faulty = [node for node in machine.nodes if node.is_faulty]
        if faulty:
            outcome.result, outcome.reason = "bug", f"{faulty[0].op}: {faulty[0].reason}"[:160]
            return outcome, stored
        theirs = simulate() if simulate is not None else None
        unsure = [n for n in machine.nodes if n.verdict in (Verdict.DECODED, Verdict.ASSUMED)]
        if theirs is not None and _is_close(machine.outputs, stored, theirs):
            outcome.result, outcome.reason = "right", "as the toolkit's simulator"
        elif unsure:
            outcome.result, outcome.reason = "doubted", f"{unsure[0].op}: {unsure[0].reason}"[:160]
    outcome.kinds = sorted({kind for _, kind in machine.kinds()})
    return outcome, stored


def step_of(tensor: TensorInfo, values: Array) -> float:
    """Return the step of a tensor; for floats a thousandth of the largest value."""
    if tensor.scale:
        return tensor.scale
    if tensor.dtype is not None and tensor.dtype.kind in "iub":
        return 1.0
    return max(float(np.abs(values).max(initial=0.0)), 1e-6) * 2.0**-10


def stored_tensors(network: bytes, machine: Emulator, seen: list[Array]) -> dict[str, TensorInfo]:
    """Return the file's tensors by the network's names: by their own, or else by size and range.

    The toolkit renames some tensors, such as the scores of an attention; mostly it adds to a name.
    """
    known = {tensor.name: tensor for tensor in machine.tensors}
    model = onnx.load_model_from_string(network)
    names = [name for node in model.graph.node for name in node.output if name]
    given = {each.name: x for each, x in zip(model.graph.input, seen)}
    del model.graph.output[:]
    for name in names:
        model.graph.output.add().name = name
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for name, values in zip(names, session.run(names, given)):
        if name in known or values.dtype != np.float32 or not values.size:
            continue
        low, high = float(values.min()), float(values.max())
        fits = []
        for tensor in machine.tensors:
            limits = _limits(tensor)
            if limits is not None and np.prod(tensor.shape) == values.size:
                fits.append((abs(limits[0] - low) + abs(limits[1] - high), tensor))
        own = [fit for fit in fits if fit[1].name.startswith((f"{name}_", f"{name}-"))]
        best = min(own or fits, key=lambda fit: fit[0], default=None)
        if best is not None and (own or best[0] < 0.3 * (high - low)):
            known[name] = replace(best[1], dtype=None)  # only its step: the range is a guess
    return known


def _measure(
    tensor: TensorInfo, stored: Array, exact: Array, trials: list[Array], most_steps: float
) -> tuple[float, float]:
    """Return the largest difference in steps, and as a part of what rounding explains."""
    ours = to_real(stored, tensor)
    if ours.size != exact.size:
        return np.inf, np.inf
    theirs = exact.astype(np.float64).reshape(ours.shape)
    limits = _limits(tensor)
    if limits is not None:
        theirs = np.clip(theirs, *limits)
    step = step_of(tensor, theirs)
    moved = np.stack([np.abs(t.astype(np.float64).reshape(ours.shape) - theirs) for t in trials])
    if limits is not None:
        moved = np.minimum(moved, limits[1] - limits[0])
    spread = float(np.sqrt((moved**2).mean()))
    allowed = most_steps * step + 3.0 * moved.max(0) + 3.0 * spread
    error = np.abs(ours - theirs)
    # The mean of a few values says no more than the largest.
    few = ours.size < 16
    whole = (
        0.0 if few else float(np.sqrt((error**2).mean())) / (most_steps / 2.0 * step + 2.0 * spread)
    )
    excess = max(float((error / allowed).max(initial=0.0)), whole)
    if not np.isfinite(theirs).all() or np.isnan(ours).any():
        same = np.array_equal(np.isfinite(theirs), np.isfinite(ours))
        excess = excess if same and np.isfinite(excess) else np.inf
    return float(error.max(initial=0.0)) / step, excess


def _is_close(tensors: Sequence[TensorInfo], stored: list[Array], theirs: list[Array]) -> bool:
    """Whether values equal the simulator's, up to its other roundings."""
    for tensor, ours, other in zip(tensors, stored, theirs):
        if ours.size != other.size:
            return False
        real = to_real(ours, tensor)
        step = tensor.scale or float(np.abs(other).max(initial=0.0)) * 2.0**-8
        error = np.abs(real - other.astype(np.float64).reshape(real.shape)) / max(step, 1e-9)
        if not (error.max(initial=0.0) <= 4.0 and np.sqrt((error**2).mean()) <= 1.0):
            return False
    return True
