"""Save and load arrays by name, and whole trainings, as .safetensors or .npz.

    io.save("network.safetensors", network.state_dict())
    network.load_state_dict(io.load("network.safetensors"))

    io.save_parts("run.npz", network=network, optimizer=optimizer, batches=batches)
    io.load_parts("run.npz", network=network, optimizer=optimizer, batches=batches)     # goes on with the same bits

The suffix says the format; .safetensors needs the package of that name. A file is written beside its place and moved there when it is
complete and on the disk, so a crash leaves the old one. No format here can hold code: loading a stranger's file runs nothing.
"""

from __future__ import annotations

import io as _io
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from . import _check
from ._types import Array
from .errors import ArgumentError, message, shown

__all__ = ["Stateful", "load", "load_parts", "save", "save_parts"]

FORMATS = (".npz", ".safetensors")


class Stateful(Protocol):
    """What has a state: modules, optimizers, :class:`cpuops.data.Batches`."""

    def state_dict(self) -> dict[str, Array]: ...

    def load_state_dict(self, state: dict[str, Array], /) -> None: ...


def _format(op: str, path: str | os.PathLike[str]) -> tuple[Path, str]:
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(message(op, "path", f"a {type(path).__name__}", "a path"))
    found = Path(path)
    if found.suffix not in FORMATS:
        raise ArgumentError(message(op, "path", shown(str(path)), f"a name that ends in {' or '.join(FORMATS)}"))
    return found, found.suffix


def _safetensors(op: str) -> Any:
    try:
        import safetensors.numpy as module
    except ImportError:
        raise ArgumentError(message(op, "path", "the format .safetensors", "the package safetensors, or .npz")) from None
    return module


def _plain(op: str, name: Any, value: Any) -> Array:
    """An array that every format holds as it is: contiguous and native (safetensors writes the memory of a view wrongly)."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(message(op, "state", f"an entry {shown(name)}", "names that are strings"))
    a = _check.array(op, name, value)
    if a.dtype.kind not in "fiub":
        raise ArgumentError(message(op, name, f"of dtype {shown(a.dtype)}", "numbers or bools"))
    return np.array(a, a.dtype.newbyteorder("="), order="C")


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write arrays by name, all or nothing.

    Parameters
    ----------
    path : path
        Ends in ``.safetensors`` or ``.npz``.
    state : mapping of str to ndarray
        Numbers and bools of any strides.

    Raises
    ------
    ArgumentError
        Another suffix, another kind of array, or .safetensors without its package.
    OSError
        The file cannot be written; what was there before still is.
    """
    target, suffix = _format("save", path)
    arrays = {name: _plain("save", name, value) for name, value in state.items()}
    if suffix == ".safetensors":
        content = _safetensors("save").save(arrays)
    else:
        content = _npz(arrays)
    _replace(target, content)


def _npz(arrays: dict[str, Array]) -> bytes:
    """As `numpy.savez`, which does not take every name."""
    memory = _io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, a in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, a, allow_pickle=False)
    return memory.getvalue()


def _replace(target: Path, content: bytes) -> None:
    """The file has either its old or its new content, whenever the machine stops."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            if target.exists():
                os.chmod(beside, target.stat().st_mode & 0o777)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the new name must reach the disk, too
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read what :func:`save` wrote.

    Raises
    ------
    ArgumentError
        Another suffix, or a file that is damaged or of another format.
    OSError
        There is no such file, or it cannot be read.
    """
    source, suffix = _format("load", path)
    content = source.read_bytes()
    try:
        if suffix == ".safetensors":
            return dict(_safetensors("load").load(content))
        with np.load(_io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except ArgumentError:
        raise
    except Exception as error:  # each reader has its own kinds, zlib's and struct's among them
        kind = "damaged" if suffix == ".safetensors" or zipfile.is_zipfile(_io.BytesIO(content)) else "no such file"
        raise ArgumentError(message("load", "path", f"{shown(str(path))}, which is {kind} ({error})", f"a {suffix} file")) from error


def save_parts(path: str | os.PathLike[str], **parts: Stateful) -> None:
    """Write the states of several objects into one file, under the names of the keywords.

    Parameters
    ----------
    path : path
        As :func:`save`.
    **parts
        Objects with `state_dict` and `load_state_dict`, such as a network, its optimizer and its batches.

    Raises
    ------
    ArgumentError, OSError
        As :func:`save`.
    """
    save(path, {f"{part}/{name}": value for part, object_ in parts.items() for name, value in object_.state_dict().items()})


def load_parts(path: str | os.PathLike[str], **parts: Stateful) -> None:
    """Give several objects the states that :func:`save_parts` wrote; when one refuses its own, none has changed.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError, OSError
        As :func:`load`; a part that the file lacks, or of which it has more; a state that does not fit its object.
    """
    states: dict[str, dict[str, Array]] = {part: {} for part in parts}
    for name, value in load(path).items():
        part, _, own = name.partition("/")
        if part not in states:
            raise ArgumentError(message("load_parts", "path", f"a file that has {shown(part)}", f"one of {', '.join(parts)} alone"))
        states[part][own] = value
    before = {part: {name: np.array(a) for name, a in object_.state_dict().items()} for part, object_ in parts.items()}
    for part, object_ in parts.items():
        try:
            object_.load_state_dict(states[part])
        except BaseException:
            for changed, old in before.items():
                if changed == part:
                    break
                parts[changed].load_state_dict(old)
            raise
