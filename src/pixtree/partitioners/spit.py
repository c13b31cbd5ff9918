"""Levels of a plain merging tree: superpixel tokens without a criterion, as in SPiT (Aasan et al.)."""

from dataclasses import dataclass

from torch import Tensor

from pixtree.partitioners.baseline import Baseline, LabelMap, Setting
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.options import TreeOptions


@dataclass(frozen=True)
class Spit(Baseline):
    """The level whose count is nearest to `tokens` (the coarser of two) of a tree with the paper's cosine kernel.

    Every region merges with its most similar neighbour in every round, so the counts fall by a factor of two to four
    from level to level and few images hit the one asked for: choose by the count that came out.
    """

    similarity: str = "cosine"
    compactness: float = 0.0
    backend: str = "auto"

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """Regions of the level."""
        options = TreeOptions(similarity=self.similarity, compactness=self.compactness)
        tree = hierarchy_of_image(image, options, backend=self.backend)
        # a level's regions are the nodes up to it whose parent comes later: each merge up to it lowers the count by one
        merges = tree.level[tree.leaves :]
        counts = [tree.leaves - int((merges <= level).sum()) for level in range(tree.levels + 1)]
        level = min(reversed(range(tree.levels + 1)), key=lambda known: abs(counts[known] - setting[0]))
        return tree.at_level(level).numpy()
