"""Files with a row per version."""

from __future__ import annotations

import ast
import csv
import fcntl
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._closing import Closing
from .._errors import CorruptError, InUse, MisuseError
from .._group import GroupSnapshot
from .._observer import Snapshot
from .._types import Scalar
from ._blocks import Source
from ._reducers import Reducer

#: A row: names to numbers or arrays.
Row = Mapping[str, Any]


class Series(Closing):
    """A file with a row per version: the version's number, attributes of it, and what reducers make of it.

    A name that ends in ``.csv`` gets a line of text per version, for reducers that make single numbers. One that ends in
    ``.npy`` gets an array of records that :func:`numpy.load` reads, at any time and as often as one likes.

    Each row is in the file when :meth:`add` returns, and is not in it in part: a process that is killed loses nothing
    that it had added. A file that is there already is gone on with. One process at a time writes a file.

    :param attrs: attributes of the version that become columns; empty or NaN where a version does not have them.
    """

    def __init__(self, path: str | os.PathLike[str], *reducers: Reducer, attrs: Sequence[str] = ("time",)) -> None:
        self.path = Path(path)
        if not reducers:
            raise MisuseError(f"{self.path}: a series without a reducer")
        self._reducers = reducers
        self._attrs = tuple(attrs)
        kinds: dict[str, type[Csv | Npy]] = {".csv": Csv, ".npy": Npy}
        if self.path.suffix not in kinds:
            raise MisuseError(f"{self.path}: a series is a file that ends in .csv or .npy")
        file = open_locked(self.path)
        try:
            self._file: Format = kinds[self.path.suffix](self.path, file)
            if row := self._file.last():
                for reducer in reducers:
                    # What a reducer has to know of earlier runs, it finds in the rows that it made.
                    getattr(reducer, "resume", lambda row: None)(row)
        except BaseException:
            file.close()
            raise

    @property
    def last(self) -> int | None:
        """The version of the last row."""
        row = self._file.last()
        return None if row is None else int(row["version"])

    def add(self, source: Source, version: int | None = None, attrs: Mapping[str, Scalar] | None = None) -> bool:
        """Adds the version's row, and tells whether it did: a version that the file has, or has passed, is left out.

        Plain arrays do not know their version and attributes: give both.
        """
        row = self.reduce(source, version, attrs)
        if row is not None:
            self.append(row)
        return row is not None

    def reduce(
        self, source: Source, version: int | None = None, attrs: Mapping[str, Scalar] | None = None
    ) -> dict[str, Any] | None:
        """The row that :meth:`add` would add; None for a version that the file has, or has passed."""
        first = source[0] if isinstance(source, GroupSnapshot) else source
        if isinstance(first, Snapshot):
            version = first.version if version is None else version
            attrs = first.attrs if attrs is None else attrs
        if version is None:
            raise MisuseError(f"{self.path}: give the version of plain arrays")
        if self.last is not None and version <= self.last:
            return None
        known = attrs or {}
        row: dict[str, Any] = {"version": version}
        for name in self._attrs:
            value = known.get(name)
            # A time of 3 and one of 3.5 are of one column.
            row[name] = float(value) if isinstance(value, (bool, int)) else value
        for reducer in self._reducers:
            found: Mapping[str, ArrayLike] = reducer(source)
            if twice := row.keys() & found.keys():
                raise MisuseError(f"{self.path}: two columns of the name '{min(twice)}'; give each reducer a file")
            row |= found
        return row

    def append(self, row: Row) -> None:
        """Adds a row that :meth:`reduce` made."""
        self._file.append(row)

    def rewind(self, version: int) -> None:
        """Drops the rows from that version on."""
        self._file.rewind(version)

    def close(self) -> None:
        """Ends the writing. The file stays."""
        self._file.close()

    def __repr__(self) -> str:
        return f"<stillframe.analysis.Series {str(self.path)!r}, last version {self.last}>"


class Format(Protocol):
    """A kind of file."""

    def last(self) -> Row | None: ...
    def append(self, row: Row) -> None: ...
    def rewind(self, version: int) -> None: ...
    def close(self) -> None: ...


def open_locked(path: Path) -> io.FileIO:
    """The file, made if need be, for this process alone to write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise InUse(f"{path}: another process writes this series; give another file, or end that one") from None
    return file


def write_at(file: io.FileIO, data: bytes, offset: int) -> int:
    """Writes all of the data, and returns where it ends. After an error what was written is still to be overwritten."""
    while data:
        written = os.pwrite(file.fileno(), data, offset)
        data, offset = data[written:], offset + written
    return offset


class Csv:
    """Lines of text under a heading."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path = path
        self._file = file
        self._end = 0
        lines = self._file.readall().splitlines(keepends=True)
        # A line without its end is one that a killed process did not finish.
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        self._cut(sum(map(len, lines)))
        self._heading = parse(lines[0]) if lines else None
        if self._heading and self._heading[0] != "version":
            raise CorruptError(f"{path} is no series: its heading begins with '{self._heading[0]}'; give another file")
        self._last = self._row(lines[-1]) if len(lines) > 1 else None

    def last(self) -> Row | None:
        return self._last

    def append(self, row: Row) -> None:
        wide = next((name for name, value in row.items() if np.ndim(value)), None)
        if wide is not None:
            shape = np.shape(row[wide])
            raise MisuseError(f"{self._path}: '{wide}' has shape {shape}, and a line of text takes numbers; use .npy")
        text = ""
        if self._heading is None:
            self._heading = list(row)
            text = write_line(self._heading)
        if self._heading != list(row):
            had, got = ",".join(self._heading), ",".join(row)
            raise MisuseError(f"{self._path} has the columns {had}, not {got}: give another file")
        text += write_line([format_value(value) for value in row.values()])
        self._end = write_at(self._file, text.encode(), self._end)
        self._last = dict(row)

    def rewind(self, version: int) -> None:
        self._file.seek(0)
        lines = self._file.readall()[: self._end].splitlines(keepends=True)
        kept = [line for number, line in enumerate(lines) if number == 0 or int(parse(line)[0]) < version]
        self._cut(sum(map(len, kept)))
        self._last = self._row(kept[-1]) if len(kept) > 1 else None

    def close(self) -> None:
        self._file.close()

    def _cut(self, end: int) -> None:
        self._file.truncate(end)
        self._end = end

    def _row(self, line: bytes) -> Row:
        assert self._heading is not None
        cells = parse(line)
        try:
            int(cells[0])
            return dict(zip(self._heading, cells, strict=True))
        except (ValueError, IndexError):
            raise CorruptError(f"{self._path}: '{line.decode(errors='replace').strip()}' is no row of it") from None


def parse(line: bytes) -> list[str]:
    """The cells of a line."""
    return next(csv.reader([line.decode(errors="replace")]), [])


def write_line(cells: Sequence[str]) -> str:
    """A line of cells."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def format_value(value: Any) -> str:
    """The shortest text that reads back as the same value."""
    if value is None:
        return ""
    value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, str):
        # A line is a row.
        return " ".join(value.split())
    return repr(value)


class Npy:
    """numpy's own format: one array of records, to which records are appended.

    The heading has room for any number of rows and is written anew behind each. What lies behind the rows that it tells is
    a record that a killed process did not finish.
    """

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path = path
        self._file = file
        self._dtype: np.dtype[Any] | None = None
        self._rows = 0
        self._start = 0
        self._version = (1, 0)
        self._last: Row | None = None
        self._file.seek(0)
        if os.fstat(self._file.fileno()).st_size:
            self._read()

    def _read(self) -> None:
        try:
            self._version = np.lib.format.read_magic(self._file)
            shape, dtype = read_heading(self._file, self._version)
            if len(shape) != 1 or not dtype.names or dtype.names[0] != "version":
                raise ValueError(f"it holds {dtype} of shape {shape}")
        except ValueError as error:
            raise CorruptError(f"{self._path} is no series: {error}; give another file") from None
        self._dtype, self._rows, self._start = dtype, shape[0], self._file.tell()
        size = os.fstat(self._file.fileno()).st_size
        if size < self._end():
            raise CorruptError(f"{self._path} tells {self._rows} rows, and ends at {size} bytes: it was cut short")
        self._file.truncate(self._end())
        self._last = self._row(self._rows - 1)

    def last(self) -> Row | None:
        return self._last

    def append(self, row: Row) -> None:
        values = {name: as_numbers(self._path, name, value) for name, value in row.items()}
        if self._dtype is None:
            self._dtype = np.dtype([(name, value.dtype, value.shape) for name, value in values.items()])
            # Headings of format 1.0, which any numpy reads, have no names beyond latin-1.
            self._version = (1, 0) if all(map(is_latin, values)) else (3, 0)
            self._write_heading(self._dtype)
        if self._dtype.names != tuple(values):
            had, got = ",".join(self._dtype.names or ()), ",".join(values)
            raise MisuseError(f"{self._path} has the columns {had}, not {got}: give another file")
        record = np.zeros((), self._dtype)
        for name, value in values.items():
            column = self._dtype[name]
            if value.shape != column.shape or not np.can_cast(value.dtype, column.base, "same_kind"):
                had, got = f"{column.base} of shape {column.shape}", f"{value.dtype} of shape {value.shape}"
                raise MisuseError(f"{self._path}: '{name}' was {had} and is {got}: give another file")
            record[name] = value
        write_at(self._file, record.tobytes(), self._end())
        self._rows += 1
        self._write_heading(self._dtype)
        self._last = dict(row)

    def rewind(self, version: int) -> None:
        if self._dtype is None:
            return
        versions = np.load(self._path, mmap_mode="r")["version"] if self._rows else np.zeros(0)
        self._rows = int(np.searchsorted(versions, version))
        del versions
        self._write_heading(self._dtype)
        self._file.truncate(self._end())
        self._last = self._row(self._rows - 1)

    def close(self) -> None:
        self._file.close()

    def _end(self) -> int:
        return self._start + self._rows * (0 if self._dtype is None else self._dtype.itemsize)

    def _row(self, number: int) -> Row | None:
        if number < 0 or self._dtype is None:
            return None
        data = os.pread(self._file.fileno(), self._dtype.itemsize, self._start + number * self._dtype.itemsize)
        record = np.frombuffer(data, self._dtype)[0]
        return {name: record[name] for name in self._dtype.names or ()}

    def _write_heading(self, dtype: np.dtype[Any]) -> None:
        told = np.lib.format.dtype_to_descr(dtype)
        # Digits of the number of rows are the only part whose length changes.
        text = f"{{'descr': {told!r}, 'fortran_order': False, 'shape': ({self._rows},), }}"
        width, encoding = HEADINGS[self._version]
        begin, encoded = b"\x93NUMPY" + bytes(self._version), text.encode(encoding)
        if self._start == 0:
            self._start = -(-(len(begin) + width + len(encoded) + 24) // 64) * 64
        length = self._start - len(begin) - width
        if length >= 1 << 16:
            raise MisuseError(f"{self._path}: a row of so many columns has no heading; give each reducer a file")
        write_at(self._file, begin + length.to_bytes(width, "little") + encoded.ljust(length - 1) + b"\n", 0)


#: Of each version of the format, in how many bytes its heading is counted, and its encoding.
HEADINGS = {(1, 0): (2, "latin1"), (3, 0): (4, "utf-8")}


def is_latin(name: str) -> bool:
    """Whether latin-1 has all letters of a name."""
    return all(ord(letter) < 256 for letter in name)


def read_heading(file: io.FileIO, version: tuple[int, int]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype that a heading tells, which the file has next; :exc:`ValueError` if it tells none."""
    if version not in HEADINGS:
        raise ValueError("another version of the format")
    width, encoding = HEADINGS[version]
    length = int.from_bytes(file.read(width), "little")
    try:
        told = ast.literal_eval(file.read(min(length, 1 << 16)).decode(encoding))
        shape, dtype = tuple(told["shape"]), np.lib.format.descr_to_dtype(told["descr"])
    except (SyntaxError, TypeError, KeyError) as error:
        raise ValueError(f"its heading is none of numpy's: {error}") from None
    if not all(isinstance(extent, int) and extent >= 0 for extent in shape):
        raise ValueError(f"its shape is {shape}")
    return shape, dtype


def as_numbers(path: Path, name: str, value: Any) -> NDArray[Any]:
    """A value as numpy keeps it; what is missing as NaN."""
    array: NDArray[Any] = np.asarray(np.nan if value is None else value)
    if array.dtype.kind not in "biufc":
        raise MisuseError(f"{path}: '{name}' is {value!r}, and an array of records takes numbers; use .csv")
    return array.astype(np.uint64) if name == "version" else array
