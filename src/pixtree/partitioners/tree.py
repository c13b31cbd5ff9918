"""The library's own tree, under the same roof as the other partitioners."""

from dataclasses import dataclass

from torch import Tensor

from pixtree.partitioners.baseline import Baseline, LabelMap, Setting
from pixtree.trees.build import partition_images
from pixtree.trees.cuts import Exactly
from pixtree.trees.options import Similarity, TreeOptions


@dataclass(frozen=True)
class Tree(Baseline):
    """Exactly `tokens` 4-connected regions: the cut of a Hierarchy; the options are those of `pixtree.segment`."""

    similarity: Similarity | str = "likelihood"
    compactness: float = TreeOptions.compactness
    energy: str = TreeOptions.energy
    floor: float = TreeOptions.floor
    relax: bool = False
    backend: str = "auto"

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """The cut with exactly that many regions."""
        options = TreeOptions(self.similarity, self.compactness, self.energy, self.floor)
        part = partition_images(image[None], Exactly(int(setting[0])), options, relax=self.relax, backend=self.backend)
        return part.numpy()
