"""Corpora: the same work on every picture of a folder, of webdataset shards or of parquet files, by many processes, resumable.

`run("segment", "photos", "labels", tokens=200)` is the whole of it; `pixtree batch` is the same on the command line. The corpus
falls into parts. A part is read, worked on and written by one process; its manifest, which accounts for every picture in it, is
written last, so that a part is either finished or done again.
"""

from pixtree.batch.corpus import Corpus, Part, open_corpus
from pixtree.batch.datasets import Partitioned, PartitionedStream, ray_dataset
from pixtree.batch.runs import Summary, run

__all__ = ["Corpus", "Part", "Partitioned", "PartitionedStream", "Summary", "open_corpus", "ray_dataset", "run"]
