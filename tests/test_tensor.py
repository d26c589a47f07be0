"""TensorAttr: frozen metadata."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.tensor import TensorAttr


def attribute(native=None):
    return TensorAttr(
        index=1,
        name="scores",
        shape=(1, 20, 7, 7),
        layout=Layout.NCHW,
        dtype=TensorType.INT8,
        qnt_type=QuantType.AFFINE,
        zero_point=-128,
        scale=0.5,
        fl=0,
        n_elems=980,
        size=980,
        size_with_stride=980,
        w_stride=0,
        h_stride=0,
        native=native,
        nhwc=None,
    )


def test_no_field_can_be_set():
    """An attribute describes; nobody can change what the runtime said."""
    attr = attribute()
    for field in fields(attr):
        with pytest.raises(FrozenInstanceError):
            setattr(attr, field.name, None)


def test_it_has_no_dict():
    """Slots: a misspelt name is an error and an attribute is small."""
    assert not hasattr(attribute(), "__dict__")


@pytest.mark.parametrize("twin", [lambda a: pickle.loads(pickle.dumps(a)), copy.deepcopy])
def test_it_survives_pickle_and_copy(twin):
    """Equal field by field, the native attribute included."""
    attr = attribute(native=attribute())
    assert twin(attr) == attr
    assert twin(attr).native == attr.native


def test_equality_and_hash_look_at_every_field():
    """Two attributes are equal only when nothing differs."""
    attr = attribute()
    assert attr == attribute()
    assert hash(attr) == hash(attribute())
    assert attr != replace(attr, w_stride=8)
    assert attr != replace(attr, native=attribute())
