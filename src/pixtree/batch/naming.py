"""Names of results: which keys name a place below the destination, and which would take the place of another result."""

from collections.abc import Iterable
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from pixtree.batch.archives import split_name
from pixtree.batch.corpus import Corpus, Kind, stored_keys

OWN = "manifest"  # the folder of the run's own files below the destination


class Conflicts(NamedTuple):
    """Keys whose results would replace others. Which of them fails follows from the corpus alone, not from who comes first."""

    taken: dict[str, frozenset[str]]  # by part: keys that an earlier part has
    folders: frozenset[str]  # folders of results whose names could be those of results


NO_CONFLICTS = Conflicts({}, frozenset())


def conflicts(corpus: Corpus, to: Kind) -> Conflicts:
    """Conflicts between the parts of a corpus whose results go to one folder. Reads the names in all archives, but no image."""
    if to != "folder" or (corpus.kind == "folder" and not _dotted(name for part in corpus.parts for name in part.files)):
        return NO_CONFLICTS  # the keys of a folder are unique
    keys: set[str] = set()
    taken: dict[str, frozenset[str]] = {}
    for part in corpus.parts:
        mine = set(stored_keys(corpus, part))
        if not keys.isdisjoint(mine):
            taken[part.name] = frozenset(keys & mine)
        keys |= mine
    return Conflicts(taken, frozenset(folder for folder in _dotted(keys) if split_name(folder)[0] in keys))


def _dotted(names: Iterable[str]) -> set[str]:
    """The folders of names that look like files with a suffix."""
    nearest = {name.rpartition("/")[0] for name in names}
    folders = {folder.as_posix() for one in nearest for folder in (PurePosixPath(one), *PurePosixPath(one).parents)}
    return {folder for folder in folders if split_name(folder)[1]}


def checked_key(key: str, to: Kind = "folder") -> str:
    """A key that names a place below the destination, and that results of this kind can hold."""
    path = PurePosixPath(key)
    leaves = path.is_absolute() or ".." in path.parts or PureWindowsPath(key).drive != ""
    if not path.name or leaves or "\0" in key or "\\" in key:
        raise ValueError(f"an image's name must stay below its folder, got {key!r}; rename it")
    if to == "folder" and path.parts[0].lower() == OWN and len(path.parts) > 1:  # some file systems know no capitals
        raise ValueError(f"the folder {OWN} belongs to the run itself, got {key!r}; rename it")
    if to == "parquet" and not _is_text(key):
        raise ValueError(f"a name in a parquet file must be UTF-8, got {key!r}; rename it, or choose another kind of results")
    return key


def _is_text(key: str) -> bool:
    """Whether a name is text: bytes of other encodings are surrogates in Python."""
    return not any("\ud800" <= letter <= "\udfff" for letter in key)
