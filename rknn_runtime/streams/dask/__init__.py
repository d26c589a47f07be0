"""A fleet of boards on Dask distributed: archives of images and videos, exactly once."""

from __future__ import annotations

from rknn_runtime.streams.dask.fleet import RESOURCE, NpuPlugin, Segment, detect, segments

__all__ = ["RESOURCE", "NpuPlugin", "Segment", "detect", "segments"]
