"""Bundles that compute with onnxruntime: the NPU's numbers around the graph's."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA

from rknn_runtime import Model
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError, OperationFailedError
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.library import open_library
from rknn_runtime.sim import (
    Control,
    bundle_from_onnx,
    bundle_from_rknn,
    make,
    prepare,
    record,
)
from rknn_runtime.sim.bundle import read_bundle
from rknn_runtime.sim.onnx_file import GraphTensor

MODELS = DATA / "models"
IMAGE = MODELS / "ic3_w37.onnx"
onnxruntime = pytest.importorskip("onnxruntime", reason="computing needs the extra [sim]")


def model_files() -> list[Path]:
    """Models whose ONNX file is beside them and has their shapes."""
    return [path for path in sorted(MODELS.glob("*.rknn")) if not path.stem.startswith("dyn_in")]


def quantized(attr: Any, real: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What is left of real numbers after the NPU stored them."""
    dtype = attr.native.dtype.numpy
    if dtype.kind == "f":
        return real.astype(dtype).astype(np.float32)
    scale, limits = np.float32(attr.scale), np.iinfo(dtype)
    q = np.rint(real.astype(np.float32) / scale).astype(np.float64) + attr.zero_point
    q = np.clip(q, limits.min, limits.max)
    return ((q - attr.zero_point).astype(np.float32) * scale).astype(np.float32)


def feed(rng: np.random.Generator, attr: Any, preprocessing: Any) -> tuple[Any, Any]:
    """An input for the model, and what the graph gets of it."""
    is_nhwc = attr.layout is Layout.NHWC
    mean, std = (np.asarray(v, np.float32) for v in (preprocessing.mean, preprocessing.std))
    if is_nhwc and attr.shape[3] <= 4:
        given = rng.integers(0, 256, attr.shape).astype(np.uint8)
    else:
        given = (rng.normal(size=attr.shape) * std.max()).astype(np.float32)
    real = (given.astype(np.float32) - mean) / std if is_nhwc else given
    return given, quantized(attr, real.transpose(0, 3, 1, 2) if is_nhwc else real)


@pytest.mark.parametrize("path", model_files(), ids=lambda path: path.stem)
def test_a_rknn_model_computes_as_its_graph_between_quantizations(path: Path) -> None:
    """Exactly: quantize the input, run the ONNX file in float32, quantize the outputs."""
    rng = np.random.default_rng(11)
    info = read(path)
    onnx = path.with_name(path.stem.rpartition("_")[0] + ".onnx")
    session = onnxruntime.InferenceSession(str(onnx))
    with Model(bundle_from_rknn(path, onnx), library="sim") as model:
        pairs = [feed(rng, *both) for both in zip(model.inputs, info.preprocessing)]
        results = model(*(given for given, _ in pairs))
        names = [attr.name for attr in model.inputs]
        images = [
            session.run(
                [attr.name for attr in model.outputs],
                {
                    name: real if info.batch == 1 else real[i : i + 1]
                    for name, (_, real) in zip(names, pairs)
                },
            )
            for i in range(info.batch)
        ]
        for attr, result, parts in zip(model.outputs, results, zip(*images)):
            computed = parts[0] if info.batch == 1 else np.concatenate(parts)
            np.testing.assert_array_equal(result, quantized(attr, computed))


@pytest.mark.parametrize(
    ("soc", "dtype"),
    [("rk3588", "INT8"), ("rv1106", "INT8"), ("rk3566", "INT16"), ("rk3588", "FLOAT16")],
)
def test_an_onnx_file_becomes_a_model(soc: str, dtype: str) -> None:
    """Attributes by the rules, ranges from samples; the result is near the float one."""
    rng = np.random.default_rng(12)
    samples = [rng.integers(0, 256, (1, 21, 37, 3)).astype(np.uint8) for _ in range(3)]
    bundle = bundle_from_onnx(
        IMAGE,
        soc=soc,
        samples=samples,
        dtype=TensorType[dtype],
        mean_values=[[0, 10, 20]],
        std_values=[[255]],
        custom_string="made here",
    )
    session = onnxruntime.InferenceSession(str(IMAGE))
    mean = np.array([0, 10, 20], np.float32)
    real = ((samples[0] - mean) / np.float32(255)).transpose(0, 3, 1, 2)
    (expected,) = session.run(None, {"images": np.ascontiguousarray(real)})
    with Model(bundle, library="sim") as model:
        (source,), (target,) = model.inputs, model.outputs
        assert source.shape == (1, 21, 37, 3)
        assert target.native.dtype is TensorType[dtype]
        assert target.native.shape[4] == {"rk3566": 8, "rk3588": 16, "rv1106": 16}[soc] // (
            1 if dtype == "INT8" else 2
        )
        (result,) = model(samples[0])
        step = target.scale if dtype != "FLOAT16" else 2e-3 * np.abs(expected).max()
        span = expected.max() - expected.min()
        assert np.abs(result - expected).max() < 0.05 * span
        assert np.abs(result - expected).mean() < 2 * step


def test_pixels_get_the_range_that_bytes_can_have() -> None:
    """Not the range of the samples: 0 to 255, normalized."""
    sample = np.full((1, 21, 37, 3), 100, np.uint8)
    bundle = bundle_from_onnx(IMAGE, samples=[sample], std_values=[[255]])
    (source,) = read_bundle(bundle).variants[0].inputs
    assert source.zero_point == -128
    assert source.scale == pytest.approx(1 / 255)


def test_float16_needs_no_samples_and_runs_on_librknnrt_only() -> None:
    """RV1106 runs quantized models only, so it needs samples."""
    bundle = read_bundle(bundle_from_onnx(IMAGE))
    assert bundle.variants[0].outputs[0].dtype is TensorType.FLOAT16
    with pytest.raises(
        ValueError, match="samples: expected some, as rv1106 runs only quantized models"
    ):
        bundle_from_onnx(IMAGE, soc="rv1106")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"soc": "rk1"}, "soc: expected one of .*, got 'rk1'"),
        ({"dtype": TensorType.INT8}, "samples: expected some, as INT8 needs"),
        ({"dtype": TensorType.INT32}, "got INT32"),
        ({"samples": [(np.zeros(3), np.zeros(3))]}, "samples: expected 1 arrays in each, got 2"),
        ({"samples": [np.zeros((1, 3, 21, 37), np.uint8)]}, r"expected uint8 \(1, 21, 37, 3\)"),
        (
            {"mean_values": [[0], [0]]},
            r"mean_values, std_values: expected one per input \(1\), got 2",
        ),
        ({"mean_values": [[1, 2]]}, "got 2 and"),
        ({"std_values": [[0, 1, 1]]}, r"std \(0.0, 1.0, 1.0\)"),
    ],
)
def test_wrong_arguments_are_explained(options: Any, text: str) -> None:
    """ValueError with what was expected."""
    with pytest.raises(ValueError, match=text):
        bundle_from_onnx(IMAGE, **options)


class OpenGraph:
    """A graph that leaves batch, height and width open."""

    inputs = (GraphTensor("x", (None, 3, None, None), np.dtype("float32")),)
    outputs = (GraphTensor("y", (None, 3), np.dtype("float32")),)

    def __init__(self, onnx: bytes) -> None:
        assert onnx == b"open"
        self.onnx = onnx

    def run(self, inputs: Any, outputs: Any) -> Any:
        return [inputs["x"].mean((2, 3))]


def test_open_shapes_come_from_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without samples nobody knows them."""
    monkeypatch.setattr(make, "Graph", OpenGraph)
    with pytest.raises(InvalidModelError, match=r"open shape .* give samples"):
        bundle_from_onnx(b"open")
    bundle = read_bundle(bundle_from_onnx(b"open", samples=[np.zeros((2, 5, 7, 3), np.uint8)]))
    assert bundle.variants[0].inputs[0].shape == (2, 5, 7, 3)
    assert bundle.variants[0].outputs[0].shape == (2, 3)


def test_another_model_is_not_the_same() -> None:
    """Names and shapes of the ONNX file must be those of the .rknn; both are listed."""
    with pytest.raises(InvalidModelError) as caught:
        bundle_from_rknn(MODELS / "ic5_rk3588.rknn", IMAGE)
    assert "images (1, 5, 32, 32) of the .rknn" in str(caught.value)
    assert "images (1, 3, 21, 37) of the ONNX file" in str(caught.value)


def test_an_onnx_file_runs_as_it_is() -> None:
    """``Model("m.onnx", library="sim")``: RK3588 in float16, pixels not normalized."""
    with Model(IMAGE, library="sim") as model:
        assert model.outputs[0].dtype is TensorType.FLOAT16
        pixels = np.random.default_rng(13).integers(0, 256, model.inputs[0].shape).astype(np.uint8)
        (result,) = model(pixels)
        planar = pixels.transpose(0, 3, 1, 2).astype(np.float32)
        (expected,) = onnxruntime.InferenceSession(str(IMAGE)).run(None, {"images": planar})
        np.testing.assert_array_equal(result, expected.astype(np.float16).astype(np.float32))


def test_prepare_takes_models_as_path_or_bytes(tmp_path: Path) -> None:
    """And explains other bytes and files."""
    library = open_library("sim")
    bundle = bundle_from_onnx(IMAGE)
    path = tmp_path / "model.rknnsim"
    path.write_bytes(bundle)
    assert prepare(bundle, library).data == bundle
    assert prepare(path, library).data == bundle
    with pytest.raises(InvalidModelError, match="no model: expected those of"):
        prepare(b"\x08\x07", library)
    with pytest.raises(InvalidModelError, match="expected content, got 0 bytes"):
        prepare(b"", library)
    file = (MODELS / "ic3_w37_rk3588.rknn").read_bytes()
    assert prepare(file, library).data == prepare(MODELS / "ic3_w37_rk3588.rknn", library).data
    with pytest.raises(InvalidModelError, match="truncated"):
        prepare(file[:-1], library)
    with pytest.raises(InvalidModelError, match="damaged"):
        prepare(bundle[:-1], library)
    with pytest.raises(InvalidModelError, match="expected a regular file, got a directory"):
        prepare(tmp_path, library)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidModelError, match="expected a regular file, got"):
        prepare(tmp_path / "pipe", library)
    with pytest.raises(FileNotFoundError):
        prepare(tmp_path / "missing.rknn", library)
    with pytest.raises(TypeError):
        prepare(42, library)  # type: ignore[arg-type]
    other = tmp_path / "other.rknn"
    other.write_bytes(b"<html>")
    with pytest.raises(InvalidModelError):
        prepare(other, library)


def test_a_recorded_model_needs_no_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """`record` keeps what the graph gave for its samples, and nothing else."""
    rng = np.random.default_rng(14)
    path = MODELS / "mi_img_vec_rk3588.rknn"
    info = read(path)
    samples = [
        [feed(rng, *both)[0] for both in zip(info.inputs, info.preprocessing)] for _ in range(3)
    ]
    computing = bundle_from_rknn(path, MODELS / "mi_img_vec.onnx")
    with Model(computing, library="sim") as model:
        expected = [model(*sample) for sample in samples]
    recorded = record(computing, samples[:2])
    hide_onnxruntime(monkeypatch)
    with Model(recorded, library="sim") as model:
        for sample, outputs in zip(samples[:2], expected):
            for result, output in zip(model(*sample), outputs):
                np.testing.assert_array_equal(result, output)
        with pytest.raises(OperationFailedError):
            model(*samples[2])
    with pytest.raises(InvalidModelError, match="no graph"):
        record(recorded, samples)
    with pytest.raises(ValueError, match="samples: expected at least one"):
        record(computing, [])


def hide_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *arguments: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return original(name, *arguments)

    original = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", refuse)


def test_without_onnxruntime_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """ImportError with the pip command."""
    hide_onnxruntime(monkeypatch)
    with pytest.raises(ImportError, match=r"not installed: pip install onnxruntime$"):
        Model(IMAGE, library="sim")


def test_what_the_executor_raises_is_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run fails, and the exception of onnxruntime is chained to it."""
    with Model(IMAGE, library="sim") as model:
        from rknn_runtime.sim.executor import Graph

        def fail(*_: Any) -> Any:
            raise FloatingPointError("boom")

        monkeypatch.setattr(Graph, "run", fail)
        pixels = np.zeros(model.inputs[0].shape, np.uint8)
        with pytest.raises(OperationFailedError) as caught:
            model(pixels)
        assert isinstance(caught.value.__cause__, FloatingPointError)
        monkeypatch.undo()
        model(pixels)
    assert Control().live == (0, 0, 0)


def interrupt(*_: Any) -> Any:
    signal.raise_signal(signal.SIGINT)
    raise AssertionError("the signal raised nothing")


@pytest.mark.parametrize("where", ["Graph.run", "Executor.execute", "_form"])
def test_an_interrupt_of_the_executor_comes_through(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C anywhere in the callback raises `KeyboardInterrupt`; the model works on."""
    pixels = np.zeros((1, 21, 37, 3), np.uint8)
    with Model(IMAGE, library="sim") as model:
        expected = model(pixels)
        with monkeypatch.context() as patch:
            patch.setattr(f"rknn_runtime.sim.executor.{where}", interrupt)
            with pytest.raises(KeyboardInterrupt):
                model(pixels)
        np.testing.assert_array_equal(model(pixels), expected)
    assert Control().live == (0, 0, 0)


def test_the_traceback_of_the_executor_holds_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A debugger may look at the arrays of a failed run after the model is gone."""
    kept = []

    def fail(self: Any, inputs: list[Any], outputs: list[Any]) -> Any:
        kept.extend(inputs + outputs)
        raise FloatingPointError("boom")

    monkeypatch.setattr("rknn_runtime.sim.executor.Executor.execute", fail)
    with Model(IMAGE, library="sim") as model, pytest.raises(OperationFailedError):
        model(np.full((1, 21, 37, 3), 7, np.uint8))
    assert [array.flags.owndata for array in kept] == [True, True]
    assert (kept[0] == 7).all()


def test_importing_the_package_does_not_import_the_simulation() -> None:
    """Nor onnxruntime: both come when they are asked for."""
    script = (
        "import sys, rknn_runtime; print([m for m in sys.modules if 'onnx' in m or '.sim' in m])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "INT8"},
        {"custom_string": b"text"},
        {"samples": "text"},
        {"samples": ["text"]},
        {"samples": [[[1, 2, 3]]]},
    ],
)
def test_other_types_are_named(wrong):
    """Not by an attribute that they lack."""
    with pytest.raises(TypeError, match=f"^{next(iter(wrong))}: expected "):
        bundle_from_onnx(IMAGE, **wrong)


def test_an_onnx_file_that_never_ends_is_refused(tmp_path):
    """A FIFO would hang, a device or a huge file be read without a limit."""
    pipe = tmp_path / "m.onnx"
    os.mkfifo(pipe)
    huge = tmp_path / "huge.onnx"
    huge.touch()
    os.truncate(huge, 10 << 30)
    model = MODELS / "ic3_w37_rk3588.rknn"
    for path, words in (
        (pipe, "got a FIFO"),
        (huge, "expected at most"),
        ("/dev/zero", "a device"),
    ):
        for call in (
            lambda path=path: bundle_from_onnx(path),
            lambda path=path: bundle_from_rknn(model, path),
            lambda path=path: prepare(path, open_library("sim")),
        ):
            with pytest.raises(InvalidModelError, match=words):
                call()
