"""Images in parquet files. The sizes of all pages are checked before any is unpacked: a kilobyte may unpack to gigabytes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pixtree.batch.archives import StoredImage, Unreadable, damaged, split_name, unread
from pixtree.files import IMAGE_SUFFIXES
from pixtree.images import bounds
from pixtree.images.bounds import is_machine_fault

NAMES = ("__key__", "key", "path", "file_name", "filename", "id")  # columns that may name an image
IMAGES = ("image", "img", "jpg", "jpeg", "png", "webp", "bytes")
UNSUSPICIOUS = 1 << 26  # bytes of a page that need no further look
MOST_INFLATED = 100  # times its stored size: encoded images hardly shrink, so more is an attack
LONGEST_HEADER = 1 << 20  # bytes of the header of a page


class _Columns(NamedTuple):
    """The columns of a file that hold the images and their names."""

    image: str
    name: str | None


def images_of_table(path: Path) -> Iterator[StoredImage | Unreadable]:
    """Rows: bytes, or a struct with bytes as Hugging Face has it; without a name, the row number is the key."""
    import pyarrow.parquet  # noqa: F401 (a missing package is not a damaged file)

    count = 0
    try:
        path.open("rb").close()
    except OSError as fault:
        yield unread(path.name, fault)
        return
    try:
        for found in _rows(path, with_images=True):
            yield found
            count += isinstance(found, StoredImage)
    except Exception as fault:  # pyarrow raises OSError, ArrowInvalid, MemoryError and more for damaged files
        yield damaged(path.name, count, fault)


def keys_of_table(path: Path) -> Iterator[str]:
    """The keys of the same images."""
    import pyarrow.parquet  # noqa: F401

    try:
        for found in _rows(path, with_images=False):
            yield found.key
    except Exception as fault:  # reported when the images are read
        if is_machine_fault(fault):
            raise


def results_of_table(path: Path) -> Iterator[StoredImage | Unreadable]:
    """The results of a batch run, which has written a column `key` and one named like the suffix of its files."""
    import pyarrow.parquet

    count = 0
    try:
        with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
            name = next(name for name in file.schema_arrow.names if name != "key")
            for row in _checked_rows(stream, file, _Columns(name, "key"), [name]):
                yield StoredImage(row["key"], f".{name}", row[name])
                count += 1
    except Exception as fault:  # as for images
        yield damaged(path.name, count, fault)


def _rows(path: Path, with_images: bool) -> Iterator[StoredImage | Unreadable]:
    import pyarrow.parquet

    with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
        columns = _columns_of(file.schema_arrow.names, path)
        wanted = [columns.image] if with_images else _paths_inside(file.schema_arrow, columns.image)
        for number, row in enumerate(_checked_rows(stream, file, columns, wanted)):
            yield _of_row(row, columns, f"{path.stem}-{number:06d}")


def _checked_rows(stream: BinaryIO, file: Any, columns: _Columns, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """The columns `wanted` and that of the names, after a look at the sizes that the file claims."""
    if file.metadata.num_rows > os.fstat(stream.fileno()).st_size:
        raise ValueError(f"it claims {file.metadata.num_rows} rows, more than it has bytes")
    _check_pages(stream, columns)
    # One row at a time: one stored value may be repeated in many rows, each of which takes memory for it.
    for batch in file.iter_batches(1, columns=[*wanted, *([columns.name] if columns.name else [])], use_threads=False):
        yield from batch.to_pylist()


def _columns_of(names: list[str], path: Path) -> _Columns:
    image = next((name for name in IMAGES if name in names), None)
    if image is None:
        raise ValueError(f"a parquet file needs an image column named {', '.join(IMAGES)}, got {', '.join(names)}; rename one")
    return _Columns(image, next((one for one in NAMES if one in names), None))


def _paths_inside(schema: Any, image: str) -> list[str]:
    """The column of paths inside a struct of images."""
    import pyarrow

    kind = schema.field(image).type
    return [f"{image}.path"] if pyarrow.types.is_struct(kind) and kind.get_field_index("path") >= 0 else []


def _of_row(row: dict[str, Any], columns: _Columns, default: str) -> StoredImage | Unreadable:
    value = row.get(columns.image)
    inner = value if isinstance(value, dict) else {"bytes": value}
    key, suffix = split_name(str(row.get(columns.name or "") or inner.get("path") or default))
    content = inner.get("bytes") or b""
    if not isinstance(content, bytes):
        return Unreadable(key, f"an image is stored as bytes, got {type(content).__name__}; store the content of its file")
    return StoredImage(key, suffix if suffix in IMAGE_SUFFIXES else "", content)


def _check_pages(file: BinaryIO, columns: _Columns) -> None:
    """Refuse a page that would unpack to more than an honest one; the sizes in the footer may lie, those of pages may not."""
    for place, end in _chunks(file, columns):
        while place < end:
            place = _checked_page(file, place)


def _chunks(file: BinaryIO, columns: _Columns) -> Iterator[tuple[int, int]]:
    """Where the values of these columns begin and end in the file, for every group of rows.

    Read here, since pyarrow ends the process where such an entry of the footer is damaged; the numbers are those of the fields in
    parquet's definition of its footer.
    """
    size = file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(size - length, 0))
    for group in _fields(_Thrift(file.read(length)).struct(), 4):
        for chunk in _fields(group, 1):
            entry = _field(chunk, 3, dict)
            names = _fields(entry, 3)
            if not names or names[0] not in [name.encode() for name in columns if name]:
                continue
            starts = [start for start in (entry.get(9), entry.get(11)) if isinstance(start, int) and start > 0]
            if not starts:
                raise ValueError("a column without a place")
            yield min(starts), min(starts) + _field(entry, 7, int)


def _field(struct: Any, number: int, kind: type) -> Any:
    """A field of a struct."""
    value = struct.get(number) if isinstance(struct, dict) else None
    if not isinstance(value, kind):
        raise ValueError("a footer that is damaged")
    return value


def _fields(struct: Any, number: int) -> list[Any]:
    """A field that is a list."""
    return _field(struct, number, list)  # type: ignore[no-any-return]


def _checked_page(file: BinaryIO, place: int) -> int:
    """Check the page at a place of the file; returns the place of the next one."""
    sizes, header = _header_at(file, place)
    unpacked, stored = sizes.get(2, -1), sizes.get(3, -1)
    if unpacked < 0 or stored < 0:
        raise ValueError("a page without its size")
    if unpacked > min(max(UNSUSPICIOUS, MOST_INFLATED * stored), bounds.MAX_BYTES):
        raise ValueError(f"a page of {stored} bytes that unpacks to {unpacked}")
    return place + header + stored


def _header_at(file: BinaryIO, place: int) -> tuple[dict[int, int], int]:
    """The numbers of a page's header, and its length; few are longer than a hundred bytes."""
    for length in (LONGEST_HEADER >> 10, LONGEST_HEADER):
        file.seek(place)
        header = _Thrift(file.read(length))
        try:
            fields = header.struct()
        except _CutOffError:
            continue
        return {field: value for field, value in fields.items() if isinstance(value, int)}, header.place
    raise ValueError("a page whose header is cut off")


class _CutOffError(ValueError):
    """There are too few bytes."""


class _Thrift:
    """A struct in Thrift's compact protocol. Every value takes a byte at least, so that a few cannot claim to be many."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The values of a struct by the number of their field: whole numbers, bytes, lists and structs; others are None."""
        if depth > 8:
            raise ValueError("structs that are nested too deep")
        fields: dict[int, Any] = {}
        field = 0
        while (first := self._byte()) != 0:
            field = field + (first >> 4) if first >> 4 else self._number()
            # A truth value of a struct is in its kind.
            fields[field] = None if first & 15 in (1, 2) else self._value(first & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._number()
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            return self._list(depth + 1)
        if kind == 12:
            return self.struct(depth + 1)
        if kind not in (1, 2, 3, 7):
            raise ValueError("a value of an unknown kind")
        self._bytes(8 if kind == 7 else 1)
        return None

    def _list(self, depth: int) -> list[Any]:
        if depth > 8:
            raise ValueError("lists that are nested too deep")
        first = self._byte()
        count = first >> 4 if first >> 4 < 15 else self._varint()
        return [self._value(first & 15, depth) for _ in range(count)]

    def _bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise _CutOffError("a value that is cut off")
        self.place += count
        return self.data[self.place - count : self.place]

    def _byte(self) -> int:
        if self.place >= len(self.data):
            raise _CutOffError("a value that is cut off")
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
