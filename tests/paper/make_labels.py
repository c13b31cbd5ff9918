"""Write labels.txt: the labels of the paper in the order of its text. `python tests/paper/make_labels.py dht.tex`"""

import re
import sys
from pathlib import Path

LABELS = Path(__file__).parent / "labels.txt"


def labels_of(source: str) -> list[str]:
    """Labels of a LaTeX source, without those in comments."""
    text = re.sub(r"(?<!\\)%.*", "", source)
    return re.findall(r"\\label\{([^}]+)\}", text)


if __name__ == "__main__":
    LABELS.write_text("\n".join(labels_of(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n", encoding="utf-8")
