"""Threads, processes and concurrent callers all give the same labels."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from forked import PROCESSES
from pictures import noise, photo
from torch.utils.data import DataLoader, Dataset

import pixtree
from pixtree.runtime.threads import each, thread_count
from pixtree.trees.options import SIMILARITIES

BATCH = torch.stack([photo(height=40, width=44), noise(40, 44), photo("coffee", 40, 44), photo("chelsea", 40, 44)] * 2)


def labels_with(threads: str, monkeypatch, **options) -> torch.Tensor:
    monkeypatch.setenv("PIXTREE_THREADS", threads)
    return pixtree.segment(BATCH, tokens=30, **options)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_both_backends_agree_for_every_similarity_with_two_threads(monkeypatch, similarity):
    monkeypatch.setenv("PIXTREE_THREADS", "2")
    some = BATCH[:4, :, :24, :24].contiguous()
    reference, compiled = (pixtree.segment(some, tokens=9, similarity=similarity, backend=name) for name in ("torch", "numba"))
    assert torch.equal(reference, compiled)


@pytest.mark.parametrize("relax", [False, True])
def test_the_number_of_threads_changes_nothing(monkeypatch, relax):
    alone = labels_with("1", monkeypatch, relax=relax)
    for threads in ("2", "5"):
        assert torch.equal(labels_with(threads, monkeypatch, relax=relax), alone)


def test_both_backends_agree_with_one_and_two_threads(monkeypatch):
    expected = labels_with("1", monkeypatch, backend="torch")
    for threads in ("1", "2"):
        for backend in ("torch", "numba"):
            assert torch.equal(labels_with(threads, monkeypatch, backend=backend), expected)


def test_eight_concurrent_callers_get_what_they_would_get_alone(monkeypatch):
    monkeypatch.setenv("PIXTREE_THREADS", "2")
    expected = [pixtree.segment(image, tokens=30) for image in BATCH]
    with ThreadPoolExecutor(8) as callers:
        for _ in range(3):
            alone = list(callers.map(lambda image: pixtree.segment(image, tokens=30), BATCH))
            batches = list(callers.map(lambda _: pixtree.segment(BATCH, tokens=30), range(8)))
            assert all(torch.equal(a, b) for a, b in zip(alone, expected, strict=True))
            assert all(torch.equal(batch, torch.stack(expected)) for batch in batches)


class Segmented(Dataset):
    """Labels made inside the workers of a loader."""

    def __len__(self) -> int:
        return len(BATCH)

    def __getitem__(self, index: int) -> torch.Tensor:
        return pixtree.segment(BATCH[index : index + 1], tokens=30)[0]


@pytest.mark.parametrize("method", ["fork", PROCESSES], ids=["fork", "forkserver"])
def test_loader_workers_give_the_same_labels(method):
    expected = pixtree.segment(BATCH, tokens=30)  # the parent's pool has run before the workers start
    loader = DataLoader(Segmented(), batch_size=4, num_workers=2, multiprocessing_context=method)
    assert torch.equal(torch.cat(list(loader)), expected)


def test_a_forked_child_makes_its_own_pool(monkeypatch):
    import multiprocessing

    monkeypatch.setenv("PIXTREE_THREADS", "2")
    expected = pixtree.segment(BATCH, tokens=30)
    # One thread for torch's own operators, as in a DataLoader's workers: OpenMP does not survive a fork.
    with multiprocessing.get_context("fork").Pool(1, torch.set_num_threads, (1,)) as pool:
        assert torch.equal(pool.apply_async(pixtree.segment, (BATCH, 30)).get(timeout=60), expected)


@pytest.mark.parametrize("value", ["0", "two", "-1"])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, value):
    monkeypatch.setenv("PIXTREE_THREADS", value)
    with pytest.raises(ValueError, match="PIXTREE_THREADS must be a whole number"):
        thread_count()


def test_work_inside_work_does_not_wait_for_itself(monkeypatch):
    monkeypatch.setenv("PIXTREE_THREADS", "2")
    assert each(lambda x: each(lambda y: x * y, [1, 2]), [1, 2, 3]) == [[1, 2], [2, 4], [3, 6]]


def test_an_error_in_one_item_reaches_the_caller(monkeypatch):
    monkeypatch.setenv("PIXTREE_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        each(lambda x: 1 // x, [1, 0, 2])
