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


def _rows(path: Path, with_images: bool) -> Iterator[StoredImage | Unreadable]:
    import pyarrow.parquet

    with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream) as file:
        columns = _columns_of(file.schema_arrow.names, path)
        if file.metadata.num_rows > os.fstat(stream.fileno()).st_size:
            raise ValueError(f"it claims {file.metadata.num_rows} rows, more than it has bytes")
        _check_pages(stream, file.metadata, columns)
        wanted = [columns.image] if with_images else _paths_inside(file.schema_arrow, columns.image)
        number = 0
        # One row at a time: one stored value may be repeated in many rows, each of which takes memory for it.
        for batch in file.iter_batches(1, columns=[*wanted, *([columns.name] if columns.name else [])], use_threads=False):
            for row in batch.to_pylist():
                yield _of_row(row, columns, f"{path.stem}-{number:06d}")
                number += 1


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


def _check_pages(file: BinaryIO, metadata: Any, columns: _Columns) -> None:
    """Refuse a page that would unpack to more than an honest one; the sizes in the metadata may lie, those of pages may not."""
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            if chunk.path_in_schema.split(".")[0] not in columns:
                continue
            starts = [chunk.data_page_offset, chunk.dictionary_page_offset]
            place = min(start for start in starts if start is not None and start > 0)
            end = place + chunk.total_compressed_size
            while place < end:
                place = _checked_page(file, place)


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
        header = _Header(file.read(length))
        try:
            return header.struct(), header.place
        except _CutOffError:
            continue
    raise ValueError("a page whose header is cut off")


class _CutOffError(ValueError):
    """There are too few bytes."""


class _Header:
    """The header of a page in Thrift's compact protocol, of which only the whole numbers at the top are kept."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Numbers of a struct by their field, read to its end."""
        if depth > 8:
            raise ValueError("a header that is nested too deep")
        numbers: dict[int, int] = {}
        field = 0
        while (first := self._byte()) != 0:
            field = field + (first >> 4) if first >> 4 else self._number()
            value = self._value(first & 15, depth)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int, depth: int) -> int | None:
        if kind in (1, 2):  # the two truth values
            return None
        if kind in (4, 5, 6):
            return self._number()
        if kind == 12:
            self.struct(depth + 1)
        elif kind in (3, 7):
            self.place += 1 if kind == 3 else 8
        elif kind == 8:
            length = self._varint()
            self.place += length
        elif kind in (9, 10):
            first = self._byte()
            count = first >> 4 if first >> 4 < 15 else self._varint()
            for _ in range(min(count, len(self.data))):
                self._value(first & 15, depth + 1)
        else:
            raise ValueError("a header that is damaged")
        return None

    def _byte(self) -> int:
        if self.place >= len(self.data):
            raise _CutOffError("a header that is cut off")
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a header that is damaged")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
