"""The library's own tree, under the same roof as its rivals."""

from dataclasses import dataclass

from torch import Tensor

from pixtree.partitioners.baseline import Baseline, LabelMap, Setting
from pixtree.trees.batch import partition_images
from pixtree.trees.cuts import Exactly
from pixtree.trees.similarity import Similarity


@dataclass(frozen=True)
class Tree(Baseline):
    """Exactly `tokens` 4-connected regions: the cut of a Hierarchy; the options are those of `pixtree.segment`."""

    similarity: Similarity | str = "likelihood"
    compactness: float = 0.0
    energy: str = "likelihood"
    floor: float = 10.0
    relax: bool = False
    backend: str = "auto"

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """The cut with exactly that many regions."""
        part = partition_images(
            image[None],
            Exactly(int(setting[0])),
            similarity=self.similarity,
            compactness=self.compactness,
            energy=self.energy,
            floor=self.floor,
            relax=self.relax,
            backend=self.backend,
        )
        return part.numpy()
