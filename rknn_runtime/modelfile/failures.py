"""Properties of models on which versions of librknnrt fail, apart from the checks of each load."""

from __future__ import annotations

from typing import NamedTuple

from rknn_runtime._files import is_escaped
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.info import ModelInfo
from rknn_runtime.modelfile.soc import FULL_RUNTIME


class Failure(NamedTuple):
    """A property of a model on which librknnrt fails after loading it, or ends the process."""

    #: The last version that failed; newer ones are not checked.
    last: tuple[int, int, int]
    #: The failure and its cure, to follow the name of the runtime in a sentence.
    words: str
    #: `GeneralModel` works.
    zero_copy_only: bool = False


def failures(info: ModelInfo) -> list[Failure]:
    r"""List the properties of a model on which some version of librknnrt fails.

    ====================================  ================  ================  ======
    asked, emulated, without an NPU       1.5.2             1.6.0             2.3.2
    ====================================  ================  ================  ======
    name that the toolkit writes as \u     abort in the query of its attribute
    operator TopK, int8 and float16       abort in init     abort in init     runs
    int16 output, bound                   never written     rknn_run: -1      works
    int16 output, rknn_outputs_get        works             works             works
    types that are no sound JSON          abort in a query: the reader refuses these
    batch of images, as uint8             works             works             works
    the same as floats, copied            segfault          segfault          mixed up
    the same, duplicated                  not asked         not asked         segfault
    image of int8, copied after uint8     read as uint8     read as uint8     the same
    outputs of dynamic shapes, NC1HWC2    works             rknn_run: -1      floats
    ====================================  ================  ================  ======

    A batch of 2 was bound and set in 724 ways, by type, layout, strides and sizes, passed through
    or not; only floats in NHWC by rknn_inputs_set, 24 of them, ended 1.5.2 and 1.6.0.
    `GeneralModel` refuses copied batches; `duplicate` refuses batches of images on every version;
    `Model` has the outputs of dynamic shapes in NCHW.
    """
    if info.runtime != FULL_RUNTIME:
        return []
    found = []
    attrs = (*info.inputs, *info.outputs)
    name = next((attr.name for attr in attrs if is_escaped(attr.name)), None)
    if name is not None:
        words = f"ends the process on the name {name!r}: export the network with names of ASCII"
        found.append(Failure((2, 3, 2), words + " characters"))
    if "TopK" in info.operators:
        words = "ends the process on the operator TopK: take it out of the network, or install "
        found.append(Failure((1, 6, 0), words + "librknnrt 2.3.2"))
    if any(attr.stored.dtype is TensorType.INT16 for attr in info.outputs):
        words = "does not write int16 outputs where Model has them: take GeneralModel, or install "
        found.append(Failure((1, 6, 0), words + "librknnrt 2.3.2", zero_copy_only=True))
    return found
