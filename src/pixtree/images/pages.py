"""Pages of a file: which of them is the image."""

from pathlib import Path


class FileFaultError(ValueError):
    """A file that is whole, but not what was asked for; its message is complete."""


def chosen_page(count: int, path: Path, page: int | None) -> int:
    """The page of a file of so many that is asked for; a file of one page has no other."""
    if page is None:
        if count > 1:
            raise FileFaultError(f"an image is one page of a file, got {count} pages in '{path}'; choose one, from page=0 on")
        return 0
    if not 0 <= page < count:
        raise FileFaultError(
            f"'{path}' has {count} page{'' if count == 1 else 's'}, from 0 on, got page={page}; choose one of them"
        )
    return page
