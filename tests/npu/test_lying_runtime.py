"""A runtime that lies about tensors is an `RknnError` when the model is loaded, and no crash."""

from __future__ import annotations

import ctypes
import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
import stub

from rknn_runtime import Model
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidParameterError, RknnError

HONEST = """
#ifdef PATCH
    if (cmd == PATCH_COMMAND) { PATCH; }
#endif
"""
LIES = """
    if ((int)cmd == lie_command) { memcpy((char *)&attr + lie_offset, lie_bytes, lie_size); }
"""
HEAD = """
static int lie_command = -1, lie_offset, lie_size;
static char lie_bytes[8];
void stub_lie(int command, int offset, int size, const char *bytes) {
    lie_command = command; lie_offset = offset; lie_size = size;
    memcpy(lie_bytes, bytes, size);
}
static int contexts"""
#: Of quantized tensors, and with DIMS of the input: 4 is an image, 3 is none.
SOURCE = (
    stub.SOURCE.replace(HONEST.strip("\n"), LIES.strip("\n"))
    .replace("static int contexts", HEAD, 1)
    .replace(
        "attr.type = RKNN_TENSOR_UINT8;",
        "attr.type = RKNN_TENSOR_INT8; attr.qnt_type = 2; attr.scale = 0.5f; attr.zp = 3;",
    )
    .replace("attr.fmt = input ?", "attr.fmt = input && DIMS == 4 ?")
    .replace("attr.n_dims = input ? 4 : 2;", "attr.n_dims = input ? DIMS : 2;")
)
#: Offset and struct code of the fields of a rknn_tensor_attr.
FIELDS = {
    "index": (0, "I"), "n_dims": (4, "I"), "dims[0]": (8, "I"), "dims[1]": (12, "I"),
    "dims[2]": (16, "I"), "dims[3]": (20, "I"), "n_elems": (328, "I"), "size": (332, "I"),
    "fmt": (336, "i"), "type": (340, "i"), "qnt_type": (344, "i"), "fl": (348, "b"),
    "zp": (352, "i"), "scale": (356, "f"), "w_stride": (360, "I"), "size_with_stride": (364, "I"),
    "h_stride": (372, "I"),
}  # fmt: skip
VALUES = {
    "I": (0, 1, 2, 3, 5, 7, 9, 16, 17, 47, 49, 1000, 2**24, 2**31, 2**32 - 1),
    "i": (-(2**31), -1000, -129, -1, 0, 1, 2, 3, 4, 8, 9, 11, 99, 128, 40000, 2**31 - 1),
    "b": (-128, -1, 5, 127),
    "f": (0.0, -1.0, 1e-45, 1e-30, 1e38, float("inf"), float("nan"), -float("inf")),
}
COMMANDS = (1, 2, 8, 9)


def use(library: Path) -> bool:
    """Load the model and run it; tell whether the runtime was believed."""
    try:
        model = Model(b"anything", library=library, check=False)
    except RknnError:
        return False
    with model:
        shape = model.inputs[0].shape
        if np.prod(shape, dtype=float) > 1e6:
            return True
        dtype = model.input_view().dtype
        model(np.zeros(shape, dtype))
        if np.dtype(np.float32) in getattr(model._inputs[0], "_takes", ()):
            model(np.zeros(shape, np.float32))
    return True


@pytest.mark.parametrize("dims", [4, 3])
def test_a_lie_is_told_at_once(tmp_path: Path, dims: int) -> None:
    """Every field of every attribute with numbers that may be, and that cannot be."""
    assert SOURCE.count("lie_bytes") == 3
    library = stub.build(tmp_path, f"DIMS={dims}", source=SOURCE)
    runtime = ctypes.CDLL(str(library))
    assert use(library)
    believed = total = 0
    for command, (offset, code) in itertools.product(COMMANDS, FIELDS.values()):
        for value in VALUES[code]:
            data = struct.pack(code, value)
            runtime.stub_lie(command, offset, len(data), data)
            total += 1
            believed += use(library)
            assert (runtime.stub_contexts(), runtime.stub_memories()) == (0, 0)
    assert 0 < believed < total


@pytest.mark.parametrize(
    ("command", "field", "value", "message"),
    [
        (8, "scale", float("nan"), "reports scale nan for tensor 'in'"),
        (9, "scale", float("inf"), "reports scale inf for tensor 'out'"),
        (9, "scale", -1.0, r"reports scale -1\.0 for tensor 'out'"),
        (9, "zp", 128, "reports zero point 128 of INT8 for tensor 'out'"),
        (8, "w_stride", 3, "reports strides 0 and 3 of 4 x 4 for tensor 'in'"),
        (8, "h_stride", 3, "reports strides 3 and 0 of 4 x 4 for tensor 'in'"),
        (8, "dims[1]", 5, r"NHWC \(1, 5, 4, 3\) does not hold NHWC \(1, 4, 4, 3\)"),
        (8, "w_stride", 2**31, "input 0 'in': the runtime's attributes make 25769803776 bytes"),
    ],
)
def test_the_lie_is_named(
    tmp_path: Path, command: int, field: str, value: float, message: str
) -> None:
    """The message has the tensor and the runtime's false answer."""
    library = stub.build(tmp_path, "DIMS=4", source=SOURCE)
    offset, code = FIELDS[field]
    data = struct.pack(code, value)
    ctypes.CDLL(str(library)).stub_lie(command, offset, len(data), data)
    with pytest.raises(RknnError, match=message):
        Model(b"anything", library=library, check=False)


def test_int64_inputs_that_a_runtime_refuses_are_explained(tmp_path: Path) -> None:
    """Librknnmrt 2.3.2 refuses them with -5, which is otherwise said of old runtimes."""
    refuse = "int rknn_set_io_mem(rknn_context c, rknn_tensor_mem *m, rknn_tensor_attr *a) "
    refuse += "{ (void)c; (void)m; return a->type == RKNN_TENSOR_INT64 ? -5 : 0; }"
    source = f"#define OMIT_set_io_mem\n{stub.SOURCE}\n{refuse}\n"
    patch = "attr.n_dims = 2; attr.fmt = 3; attr.type = 8; attr.n_elems = 4; attr.size = 32"
    command = "PATCH_COMMAND=cmd && input && cmd"
    library = stub.build(tmp_path, f"PATCH={patch}", command, source=source)
    with pytest.raises(InvalidParameterError, match="export the network with this input as int32"):
        Model(b"anything", library=library, check=False)


DUPLICATES = """
int rknn_dup_context(rknn_context *in, rknn_context *out) { *out = *in + 1; contexts++; return 0; }
int rknn_set_core_mask(rknn_context c, rknn_core_mask mask) { (void)c; (void)mask; return 0; }
"""


@pytest.mark.parametrize("command", [8, 10])
def test_a_duplicate_is_described_as_its_original(tmp_path: Path, command: int) -> None:
    """A duplicate describes its image as librknnrt 2.3.2 has it bound in the original: as uint8.

    Asked of it with a stand-in for the NPU: before an input is bound a duplicate's native
    attributes are the original's (int8, 4 dimensions), afterwards uint8 of 5 dimensions.
    """
    library = stub.build(tmp_path, "DIMS=4", source=SOURCE + DUPLICATES)
    with Model(b"anything", library=library, check=False) as model:
        offset, code = FIELDS["type"]
        data = struct.pack(code, TensorType.UINT8)
        ctypes.CDLL(str(library)).stub_lie(command, offset, len(data), data)
        with model.duplicate() as twin, twin.duplicate() as third:
            for each in (twin, third):
                assert each.inputs == model.inputs
                assert each.inputs[0].native == model.inputs[0].native
