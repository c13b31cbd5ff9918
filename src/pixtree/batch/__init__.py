"""Corpora: the same work on every image of a folder, of webdataset shards or of parquet files, by many processes, resumable.

`run("segment", "photos", "labels", tokens=200)` does it all; `pixtree batch` is the same on the command line. The corpus is split
into parts. One process reads a part, works on its images and writes the results; the part's manifest, with the status of every
image in it, is written last, so that a part is either finished or done again.
"""

from pixtree.batch.corpus import Corpus, CorpusPart, open_corpus
from pixtree.batch.datasets import Partitioned, PartitionedStream, ray_dataset
from pixtree.batch.driver import Summary, run
from pixtree.batch.work import PartResult

Part = CorpusPart  # its name until 0.2

__all__ = [
    "Corpus",
    "CorpusPart",
    "Part",
    "PartResult",
    "Partitioned",
    "PartitionedStream",
    "Summary",
    "open_corpus",
    "ray_dataset",
    "run",
]
