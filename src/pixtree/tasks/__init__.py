"""Tasks: one file per verb of a user, from an image or its tree to labels, masks, drawings or likenesses.

The verbs themselves are names of `pixtree`; names that only some users need are here.
"""

from typing import TYPE_CHECKING

from pixtree.lazy import lazy_names

if TYPE_CHECKING:
    from pixtree.tasks.correspond import correspondence, correspondence_picture
    from pixtree.tasks.token_graph import Affinity
    from pixtree.tasks.vectorize import rendered

# Loaded when first asked for: correspondences need timm, which most tasks do without.
_HOMES = {
    "Affinity": "token_graph",
    "correspondence": "correspond",
    "correspondence_picture": "correspond",
    "rendered": "vectorize",
}

__all__ = ["Affinity", "correspondence", "correspondence_picture", "rendered"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
