"""Marks: points, boxes and scribbles by which users point at objects, as checked pixel masks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Mask = NDArray[np.bool_]
# A point (row, column), a box (top, left, bottom, right), a sequence of both, or a scribble mask (H, W).
Marks: TypeAlias = Sequence[Any] | NDArray[Any] | Tensor
Objects: TypeAlias = Marks | Mapping[int, Marks]


class ObjectMarks(NamedTuple):
    """The marks of one object, masks (H, W)."""

    inside: Mask  # pixels that belong to it
    beyond: Mask  # pixels that do not, because they lie outside its boxes
    likely: Mask  # the middle of its boxes, which probably belongs to it


def object_marks(inside: Objects, shape: tuple[int, int]) -> dict[int, ObjectMarks]:
    """The marks of every object by its label; a single object without a label gets 1."""
    found = {label: _marks_of_one(marks, shape) for label, marks in _by_label(inside).items()}
    for label, marks in found.items():
        if not (marks.inside.any() or marks.likely.any()):
            of = f" of object {label}" if isinstance(inside, Mapping) else ""
            raise ValueError(f"a selection needs at least one mark inside the object, got none{of}; give inside=[(row, column)]")
    return found


def names_objects(inside: Objects) -> bool:
    """Whether marks have labels of objects, in a mapping or an integer map (H, W)."""
    array = _array(inside)
    return isinstance(inside, Mapping) or (array is not None and _is_label_map(array))


def _is_label_map(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] not in (2, 4)  # these are points and boxes


def outside_marks(outside: Marks | None, shape: tuple[int, int]) -> Mask:
    """The pixels (H, W) that belong to no object; a box here marks all its pixels."""
    if outside is None:
        return np.zeros(shape, bool)
    points, boxes, scribble = _parsed(outside, shape, "outside")
    marked = scribble if scribble is not None else np.zeros(shape, bool)
    marked[points[:, 0], points[:, 1]] = True
    for box in boxes:
        marked[_slices(box)] = True
    return marked


def check_agreement(objects: Mapping[int, ObjectMarks], outside: Mask) -> None:
    """Refuse pixels that are marked for two objects, or inside and outside."""
    taken = outside.copy()
    for marks in objects.values():
        if (both := marks.inside & (taken | marks.beyond)).any():
            row, column = np.argwhere(both)[0].tolist()
            raise ValueError(
                f"marks must not contradict each other, got pixel (row {row}, column {column}) as inside and as outside or in "
                "another object; remove one of the two marks"
            )
        taken |= marks.inside


def check_places(marked: Sequence[Mask], allowed: Mask) -> None:
    """Refuse marks on pixels outside the tree's mask."""
    if (lost := np.logical_or.reduce(marked) & ~allowed).any():
        row, column = np.argwhere(lost)[0].tolist()
        raise ValueError(
            f"marks must lie inside the tree's mask, got one at (row {row}, column {column}) outside it; move or remove it"
        )


def _by_label(inside: Objects) -> dict[int, Marks]:
    """Marks by object: those of a mapping, of the values above 0 of an integer map, or of one object, 1."""
    if isinstance(inside, Mapping):
        wrong = [label for label in inside if isinstance(label, bool) or not isinstance(label, int | np.integer) or label < 1]
        if wrong or not inside:
            got = repr(wrong[0]) if wrong else "no object"
            raise ValueError(f"objects are numbered from 1, as in inside={{1: marks, 2: marks}}, got {got}; 0 is the background")
        return {int(label): marks for label, marks in inside.items()}
    array = _array(inside)
    if array is not None and _is_label_map(array):
        labels = np.unique(array[array > 0]).tolist()
        return {label: array == label for label in labels} or {1: array > 0}
    return {1: inside}


def _marks_of_one(marks: Marks, shape: tuple[int, int]) -> ObjectMarks:
    points, boxes, scribble = _parsed(marks, shape, "inside")
    inside = scribble if scribble is not None else np.zeros(shape, bool)
    inside[points[:, 0], points[:, 1]] = True
    beyond, likely = np.full(shape, len(boxes) > 0), np.zeros(shape, bool)
    for box in boxes:
        beyond[_slices(box)] = False
        likely |= _middle(box, shape)
    return ObjectMarks(inside, beyond, likely)


def _parsed(marks: Marks, shape: tuple[int, int], name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], Mask | None]:
    """Points (N, 2), boxes (K, 4) and a scribble mask (H, W) of one argument, each checked against the image."""
    array = _array(marks)
    if array is not None and array.dtype == np.bool_:
        if array.shape != tuple(shape):
            raise ValueError(
                f"a scribble mask must have the image's height and width, {tuple(shape)}, got {array.shape} in {name}=; resize it"
            )
        return np.empty((0, 2), np.int64), np.empty((0, 4), np.int64), array.copy()
    rows = _rows(marks if array is None else array, name)
    points = [row for row in rows if len(row) == 2]
    boxes = [row for row in rows if len(row) == 4]
    return _places(points, shape, name), _checked_boxes(boxes, shape, name), None


def _array(marks: object) -> NDArray[Any] | None:
    """An array or tensor as an array; None for anything else."""
    if isinstance(marks, Tensor):
        return marks.detach().cpu().numpy()
    return marks if isinstance(marks, np.ndarray) else None


def _rows(marks: Any, name: str) -> list[tuple[float, ...]]:
    """Every mark as two or four numbers; a single mark needs no list around it."""
    expected = f"{name}= takes points (row, column), boxes (top, left, bottom, right) or a bool mask (H, W)"
    try:
        items = list(marks)
        if items and all(np.ndim(item) == 0 for item in items):
            items = [items]
        rows = [tuple(float(number) for number in item) for item in items]
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {type(marks).__name__}; try {name}=[(120, 80)]") from None
    wrong = next((row for row in rows if len(row) not in (2, 4) or not np.isfinite(row).all()), None)
    if wrong is not None:
        raise ValueError(f"{expected}, got {wrong}; try {name}=[(120, 80)]")
    return rows


def _places(points: Sequence[tuple[float, ...]], shape: tuple[int, int], name: str) -> NDArray[np.int64]:
    """The pixels in which points lie, (N, 2): coordinates are those of pixel centres."""
    places = np.floor(np.array(points, np.float64).reshape(-1, 2) + 0.5).astype(np.int64)
    lost = ((places < 0) | (places >= shape)).any(axis=1)
    if lost.any():
        row, column = points[int(np.argmax(lost))]
        raise ValueError(
            f"marks must lie in the image of {shape[0]} rows and {shape[1]} columns, got (row {row:g}, column {column:g}) in "
            f"{name}=; points are (row, column), counted from 0"
        )
    return places


def _checked_boxes(boxes: Sequence[tuple[float, ...]], shape: tuple[int, int], name: str) -> NDArray[np.int64]:
    """Boxes (K, 4) in whole pixels: top, left, bottom, right, the last two exclusive."""
    for box in boxes:
        top, left, bottom, right = box
        if not (0 <= top < bottom <= shape[0] and 0 <= left < right <= shape[1]):
            raise ValueError(
                f"a box is (top, left, bottom, right) in the image of {shape[0]} rows and {shape[1]} columns, bottom and right "
                f"exclusive, got ({', '.join(f'{side:g}' for side in box)}) in {name}=; check its order"
            )
    return np.rint(np.array(boxes, np.float64).reshape(-1, 4)).astype(np.int64)


def _slices(box: NDArray[np.int64]) -> tuple[slice, slice]:
    top, left, bottom, right = box.tolist()
    return slice(top, max(bottom, top + 1)), slice(left, max(right, left + 1))


def _middle(box: NDArray[np.int64], shape: tuple[int, int]) -> Mask:
    """The ellipse of half the box's height and width in its centre, (H, W)."""
    top, left, bottom, right = box.tolist()
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    away = ((rows + 0.5 - (top + bottom) / 2) / max((bottom - top) / 4, 0.75)) ** 2
    inner: Mask = away + ((columns + 0.5 - (left + right) / 2) / max((right - left) / 4, 0.75)) ** 2 <= 1
    return inner
