"""TreeOptions: how a tree is grown, as one value; the home of all defaults."""

from dataclasses import dataclass, field

from pixtree.kernels.tree import FLOOR, MergeRule
from pixtree.trees.features import coordinate_unit
from pixtree.trees.similarity import Likelihood, Similarity, merge_rule


@dataclass(frozen=True)
class TreeOptions:
    """Options of a tree: the similarity of regions, and the energy that nested cuts minimise.

    similarity: "likelihood" (default), "ward", or the paper's "gaussian", "cosine", "tanimoto"; by name or by value.
    compactness: weight of pixel coordinates; 0.1 makes one pixel count as much as one Lab unit, 0 leaves them out.
    energy: what a nested cut with n regions minimises, "likelihood" (n Σ log(1 + σ²/φ)) or "squared_error".
    floor: φ, a variance in squared feature units, below which a region counts as flat; it also regularises the likelihood cost.
    """

    similarity: Similarity | str = field(default=Likelihood())
    compactness: float = 0.0
    energy: str = "likelihood"
    floor: float = FLOOR

    def __post_init__(self) -> None:
        coordinate_unit(self.compactness)
        merge_rule(self.similarity, self.energy, self.floor)

    @property
    def rule(self) -> MergeRule:
        """The plain numbers that kernels take."""
        return merge_rule(self.similarity, self.energy, self.floor)
