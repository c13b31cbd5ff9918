"""Examples at the end of a command's help."""

from collections.abc import Iterable


def with_examples(examples: Iterable[str], *notes: str) -> str:
    """The end of a help text: notes and examples, each on a line of its own."""
    return "\n\n".join([*notes, "Examples:", *examples])  # an empty line keeps the line break
