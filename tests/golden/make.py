"""Write the stored results that `tests/trees/test_golden.py` compares with; run it only when a change of results is meant."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from pictures import photo

from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.options import SIMILARITIES, TreeOptions

HERE = Path(__file__).parent


def results() -> dict[str, np.ndarray]:
    """Parents and a cut of a small photo for every similarity, and what relaxation and a criterion make of the default."""
    image, found = photo(height=32, width=40), {}
    for name in SIMILARITIES:
        tree = hierarchy_of_image(image, TreeOptions(similarity=name))
        found[f"{name}_parent"] = tree.parent.numpy()
        found[f"{name}_25"] = tree.cut(tokens=25).numpy().astype(np.uint8)
    tree = hierarchy_of_image(image)
    found["relaxed_25"] = tree.cut(tokens=25, relax=True).numpy().astype(np.uint8)
    found["aicc"] = tree.cut(criterion="aicc").numpy().astype(np.uint8)
    return found


if __name__ == "__main__":
    np.savez_compressed(HERE / "small_photo.npz", **results())
