"""The container of model files: JSON and float64 arrays in one zip, and nothing that runs.

    model.json          what the arrays are, and everything that is not an array
    arrays/NAME.npy     float64, row-major, little-endian

Members are stored, not compressed: what is read is never larger than the file. The zip's
comment is the SHA-256 of all bytes before it, so a file that was damaged anywhere is
refused. Reading trusts nothing in the file beyond that: a digest is no signature.
"""

import io
import json
import math
import re
import struct
import zipfile
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import ModelFileError
from pcegp.io.files import check_plain, replacing
from pcegp.numerics import check_memory

# 1: one model; 2: also mixtures, and how the columns of a table became numbers; 3: the origin of
# a target, apart from its center; 4: draws of the parameters;
# 5: rows of a warm-up; 6: the engine of inference; 7: structures; 8: maps of the target
FORMAT = 8
_JSON = "model.json"
START = 64  # bytes that tell a model file from others, and more
ZIP_START, _NAME_AT = b"PK\x03\x04", 30  # of any zip; where its first member is named
_MEMBER = re.compile(r"arrays/([A-Za-z0-9_.]+)\.npy")
_PREFIX = b"sha256:"
_DIGEST = 64  # characters
_COPIES = 3  # of the bytes of a file that reading it holds
_ADVICE = "give a model file, as model.save(...) makes it"
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip: the same model gives the same bytes


def is_model_start(start: bytes) -> bool:
    """Tell whether a file that starts with these bytes is a model file, as `write` makes it."""
    return start.startswith(ZIP_START) and start[_NAME_AT:].startswith(_JSON.encode())


def write(path: Path, header: dict[str, Any], arrays: dict[str, FloatArray]) -> None:
    """Write a file whole; an existing one is replaced at once or not at all."""
    arrays = {name: np.ascontiguousarray(array, dtype="<f8") for name, array in arrays.items()}
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, "arrays": shapes, **header}, indent=1, allow_nan=False)
    with replacing(path) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as zipped:
            zipped.writestr(zipfile.ZipInfo(_JSON, _EARLIEST), text)
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
                member = zipfile.ZipInfo(f"arrays/{name}.npy", _EARLIEST)
                zipped.writestr(member, buffer.getvalue())
            zipped.comment = _PREFIX + b"0" * _DIGEST
        with temporary.open("r+b") as file:
            body = file.read()[:-_DIGEST]
            file.seek(len(body))
            file.write(sha256(body).hexdigest().encode("ascii"))


def read(path: Path, max_gb: float = 2.0) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Read header and arrays of a file that `write` made; anything else is a ModelFileError."""
    try:
        check_plain(path, ModelFileError, _ADVICE)
        size = path.stat().st_size
        if size > max_gb * 1e9:
            raise ModelFileError(
                f"{path} has {size / 1e9:.1f} GB, above the limit of {max_gb:g}: raise max_gb if "
                "you trust it"
            )
        check_memory(_COPIES * size, f"to read {path}")
        with path.open("rb") as file:
            data = file.read(size)  # no more: it may grow, and some files tell no size
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a name that no file can have
        raise ModelFileError(f"cannot read {str(path)!r}: {error}") from error
    _check_whole(path, data)
    try:
        return _parse(path, data)
    except ModelFileError:
        raise
    # What the zip, JSON and NumPy readers raise at contents made to mislead them.
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, OverflowError,
            RecursionError, RuntimeError, SyntaxError, TokenError, struct.error,
            zipfile.BadZipFile) as error:
        raise ModelFileError(f"{path} is not a model file: {error}") from error


def _check_whole(path: Path, data: bytes) -> None:
    if not data.startswith(ZIP_START):
        raise ModelFileError(f"{path} is not a model file: save one with model.save(...)")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if not body.endswith(_PREFIX) or sha256(body).hexdigest().encode("ascii") != digest:
        raise ModelFileError(f"{path} is damaged or cut off: get or save it again")


def _parse(path: Path, data: bytes) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        members = zipped.infolist()
        names = [member.filename for member in members]
        if len(set(names)) < len(names) or _JSON not in names:
            raise ModelFileError(f"{path} is not a model file: its members are not as they must be")
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members) or (
            sum(member.file_size for member in members) > len(data)
        ):
            raise ModelFileError(f"{path} is not a model file: its members must be stored plainly")
        header = json.loads(zipped.read(_JSON))
        _check_format(path, header)
        shapes = header["arrays"]
        found = {match[1] for name in names if (match := _MEMBER.fullmatch(name))}
        if found != set(shapes) or len(names) != len(found) + 1:
            raise ModelFileError(f"{path} is not a model file: its arrays are not those it lists")
        arrays = {
            name: _array(zipped.read(f"arrays/{name}.npy"), tuple(shape))
            for name, shape in shapes.items()
        }
    return header, arrays


def _check_format(path: Path, header: Any) -> None:
    number = header["format"]
    if type(number) is not int or number < 1:
        raise ModelFileError(f"{path} is not a model file: format {number!r}")
    if number > FORMAT:
        raise ModelFileError(
            f"{path} has format {number}, made by a newer pcegp; this one reads up to {FORMAT}: "
            "update pcegp"
        )


def _array(data: bytes, shape: tuple[int, ...]) -> FloatArray:
    """Read a float64 array of that shape, checked before it is made."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array has another version of NumPy's format")
    declared, fortran, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=1000)
    rest = len(data) - stream.tell()
    if dtype != np.dtype("<f8") or fortran or declared != shape or rest != 8 * math.prod(shape):
        raise ValueError("an array has another type or shape than listed")
    return np.frombuffer(data, dtype="<f8", offset=stream.tell()).reshape(shape).copy()
