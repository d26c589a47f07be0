"""Reads a ``.rknn`` file, on any machine, as the vendor's runtime would describe it.

The format has no public description; what is read here was found by comparing hundreds
of files with what the runtimes answer about them. Nothing is executed, every offset is
checked, and time and memory are bounded by the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.container import ModelSource, check_trailer, opened
from rknn_runtime.modelfile.flatbuffer import Buffer
from rknn_runtime.modelfile.info import CalibratedRange, ModelHeader, ModelInfo, Needs
from rknn_runtime.modelfile.soc import known_version
from rknn_runtime.modelfile.tables import ModelTables

__all__ = ["ModelFile", "read", "read_header"]


def read(model: ModelSource, *, runtime_version: str | None = None) -> ModelInfo:
    """Read all that a model file says about itself.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.
        runtime_version: Version of the vendor's library that the attributes are described
            for: ``"2.3.2"`` or ``"1.5.2"`` of librknnrt, ``"2.3.2"`` of librknnmrt. None: the
            newest of these. Native outputs and inputs differ in their sizes.

    Returns:
        The description; nothing in it refers to the file any more.

    Raises:
        InvalidModelError: It is not a readable RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes, or the version no str.
        ValueError: Nobody recorded what this version of the model's library answers.
    """
    with opened(model) as data:
        return ModelFile(data).info(runtime_version)


def read_header(model: ModelSource) -> ModelHeader:
    """Read only what decides whether a runtime can load the model.

    Works for SoCs unknown to this package, too.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.

    Returns:
        The header.

    Raises:
        InvalidModelError: It is not an RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes.
    """
    with opened(model) as data:
        file = ModelFile(data)
        file.check_whole()
        return file.header


@contextmanager
def named_as_damage() -> Iterator[None]:
    """Turn what the reader finds wrong into `InvalidModelError`."""
    try:
        yield
    except InvalidModelError:
        raise
    except ValueError as error:
        raise InvalidModelError(f"damaged: {error}") from error


class ModelFile:
    """An opened model file, parsed once: for those who ask it several things.

    Args:
        data: Its content, as `opened` or `loaded` yields it; this object must not outlive that.

    Attributes:
        header: What decides whether a runtime can load the model, also for SoCs unknown to
            this package.

    Raises:
        InvalidModelError: It is not an RKNN model; the message says what it is.
    """

    def __init__(self, data: Buffer) -> None:
        with named_as_damage():
            self._tables = ModelTables(data)
            self.header = self._tables.header()

    def check_whole(self) -> None:
        """Check what a runtime takes for granted: the JSON at the end, and that of the types.

        Raises:
            InvalidModelError: It is cut or damaged.
        """
        check_trailer(self._tables.data, self._tables.container.flatbuffer_end)
        with named_as_damage():
            self._tables.check_types()

    def info(self, runtime_version: str | None = None) -> ModelInfo:
        """Read all that the file says.

        Args:
            runtime_version: Whose answers to describe, as in `read`.

        Raises:
            InvalidModelError: It is damaged, cut short, or made for a SoC unknown to this package.
            TypeError: The version is no str.
            ValueError: Nobody recorded what this version of the model's library answers.
        """
        version = known_version(self._tables.runtime, runtime_version)
        self.check_whole()
        with named_as_damage():
            return self._tables.info(self.header, version)

    def calibration(self) -> dict[str, CalibratedRange]:
        """Read the ranges of inputs and outputs by name, of those that the file documents.

        Raises:
            InvalidModelError: It is damaged.
        """
        with named_as_damage():
            return self._tables.calibration()

    def operators(self) -> dict[str, int]:
        """Read only how often the model has which operator, also for SoCs unknown to this package.

        Raises:
            InvalidModelError: It is damaged.
        """
        with named_as_damage():
            return self._tables.operators()

    def needs(self, *, pixels: bool = False) -> Needs:
        """Read only what the model needs of its caller, also for SoCs unknown to this package.

        Args:
            pixels: Also mean and std where every input is an image, which the NPU normalises.

        Raises:
            InvalidModelError: It is damaged.
        """
        with named_as_damage():
            return self._tables.needs(pixels=pixels)
