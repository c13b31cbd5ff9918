"""Ray makes the same bytes as the pool."""

import pytest
from corpora import contents, shards_of

from pixtree.batch import run
from pixtree.batch.datasets import ray_dataset

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster():
    """A local cluster of two workers."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def test_ray_makes_the_bytes_of_the_pool(tmp_path, cluster):
    shards, one, other = shards_of(tmp_path / "shards", 3, 3), tmp_path / "pool", tmp_path / "ray"
    run("segment", shards, one, workers=1, tokens=4)
    came = run("segment", shards, other, engine="ray", workers=2, tokens=4)
    assert (came.done, came.failed, came.whole) == (9, 0, True)
    assert contents(one) == contents(other)


def test_results_in_parquet_are_a_ray_data_set(tmp_path, cluster):
    run("segment", shards_of(tmp_path / "shards", 2, 3), tmp_path / "made", to="parquet", workers=1, tokens=4)
    rows = ray_dataset(tmp_path / "made").take_all()
    assert sorted(row["key"] for row in rows) == [f"{shard:03d}{number:03d}" for shard in range(2) for number in range(3)]
