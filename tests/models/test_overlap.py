"""Overlap: who cuts, and when, changes nothing that the model computes."""

import copy
import threading

import PIL.Image
import pytest
import torch
from forked import PROCESSES
from pictures import photo
from tiny_models import tiny
from torch.utils.data import DataLoader, Dataset

import pixtree
from pixtree.models import WithPartition, collate_partitions, cut_ahead, overlap, retrofit
from pixtree.models.timm_import import timm

SIZE = 48


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    return pixels / 127.5 - 1.0


class Crops(Dataset):
    """Twelve crops of a photo, as a dataset with a transform and targets."""

    def __init__(self, transform=normalised) -> None:
        self.photo, self.transform = photo(height=96, width=200), transform

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number):
        return self.transform(self.photo[:, 4 * number : 4 * number + SIZE, 10 * number : 10 * number + SIZE]), number


def model_with(**options):
    torch.manual_seed(0)
    model = retrofit(tiny("vit_tiny_patch16_224"), **options).eval()
    torch.nn.init.normal_(model.tokenizer.regions.encoder.second.weight, std=0.02)
    return model


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"tokens": 12}, "fork"),
        pytest.param({"tokens": 12}, PROCESSES, id="options1-forkserver"),
        ({"budget": pixtree.AtMost(12)}, "fork"),
        ({"tokens": 12, "partitioner": "quadtree"}, "fork"),
    ],
)
def test_a_loader_with_two_workers_gives_the_same_logits(options, start):
    model = model_with(**options)
    transform = WithPartition(normalised, model)
    loader = DataLoader(Crops(transform), 4, num_workers=2, collate_fn=collate_partitions, multiprocessing_context=start)
    with torch.no_grad():
        expected = [(model(images), targets) for images, targets in DataLoader(Crops(), 4)]
        found = [(model(images, partition), targets) for images, partition, targets in loader]
    assert len(found) == 3
    for (a, numbers), (b, targets) in zip(expected, found, strict=True):
        assert torch.equal(numbers, targets)
        assert torch.allclose(a, b, atol=1e-6)


def test_a_dataset_of_timm_takes_the_transform(tmp_path):
    model = model_with(tokens=12)
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        PIL.Image.fromarray(photo(height=60 + number, width=70).permute(1, 2, 0).numpy()).save(tmp_path / name / "photo.png")
    usual = timm.data.create_transform(SIZE, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    dataset = timm.data.ImageDataset(str(tmp_path), transform=WithPartition(usual, model))
    ((images, partition, targets),) = DataLoader(dataset, 2, collate_fn=collate_partitions)
    assert targets.tolist() == [0, 1]
    assert partition == model.partition(images)
    assert partition.rows == (12, True)


def test_a_batch_knows_its_rows_before_it_travels():
    model = model_with(budget=pixtree.AtMost(12))
    crops = Crops(WithPartition(normalised, model))
    _, partition, _ = collate_partitions([crops[i] for i in range(4)])
    assert "rows" in vars(partition)
    assert partition.rows == (int(partition.counts.max()), len(set(partition.counts.tolist())) == 1)


def test_a_transform_keeps_the_weights_that_cut_and_nothing_else():
    model = model_with(tokens=12)
    transform = WithPartition(normalised, model)
    before = transform(Crops().photo[:, :SIZE, :SIZE])[1]
    with torch.no_grad():
        model.tokenizer.regions.decision.value.fill_(9.0)
    assert torch.equal(transform(Crops().photo[:, :SIZE, :SIZE])[1], before)
    weights = sum(one.numel() for one in transform.cutter.parameters())
    regions = sum(one.numel() for one in model.tokenizer.regions.parameters())
    assert weights == regions + model.tokenizer.prefix.numel()


@pytest.mark.parametrize("aggregation", ["straight", "raw"])
def test_cuts_give_the_tokens_and_gradients_of_cutting_in_the_model(aggregation):
    model = model_with(tokens=12, tokenizer={"aggregation": aggregation})
    images = torch.stack([Crops()[i][0] for i in range(4)])
    results = []
    for cuts in (None, model.cut(images)):
        model.zero_grad()
        logits = model(images, cuts)
        logits.square().mean().backward()
        results.append((logits.detach(), [one.grad for one in model.tokenizer.regions.parameters()]))
    assert torch.equal(results[0][0], results[1][0])
    for a, b in zip(results[0][1], results[1][1], strict=True):
        assert torch.equal(a, b)
    assert model.tokenizer.regions.decision.value.grad.abs() > 0  # only the rounds of the tree lead there


def test_raw_weights_refuse_cuts_that_have_forgotten_their_rounds():
    model = model_with(tokens=12, tokenizer={"aggregation": "straight"})
    images = torch.stack([Crops()[i][0] for i in range(2)])
    with torch.no_grad():
        cuts = model.cut(images)
    assert cuts.levels is None
    raw = model_with(tokens=12, tokenizer={"aggregation": "raw"})
    with pytest.raises(ValueError, match="raw weights follow the rounds of the tree"):
        raw(images, cuts)


def trained(model, batches, wrapped):
    """Logits of four steps of SGD that changes the encoder a lot, and the weights that cut each batch."""
    optimizer, logits = torch.optim.SGD(model.parameters(), lr=0.5), []
    for images, cuts, _ in wrapped(batches, model):
        found = model(images, cuts)
        optimizer.zero_grad()
        found.square().mean().backward()
        optimizer.step()
        logits.append(found.detach())
    return logits


def stale(batches, model):
    """The same by hand: every batch is cut with the weights from before the last step."""
    before = copy.deepcopy(model)
    for images, targets in batches:
        now = copy.deepcopy(model)
        yield images, before.cut(images), targets
        before = now


def test_cutting_ahead_is_one_step_stale_and_does_not_depend_on_speed():
    batches = list(DataLoader(Crops(), 3))
    expected = trained(model_with(tokens=12), batches, stale)
    for _ in range(2):
        found = trained(model_with(tokens=12), batches, cut_ahead)
        assert len(found) == len(expected) == 4
        for a, b in zip(found, expected, strict=True):
            assert torch.allclose(a, b, atol=1e-5)


def test_cutting_ahead_runs_while_the_batch_before_is_in_use(monkeypatch):
    cut_in, started = [], threading.Event()
    original = overlap.PixtreeViT.cut

    def watched(self, images, tokens=None):
        cut_in.append(threading.current_thread().name)
        if len(cut_in) == 2:
            started.set()
        return original(self, images, tokens)

    monkeypatch.setattr(overlap.PixtreeViT, "cut", watched)
    model = model_with(tokens=12)
    ahead = cut_ahead(DataLoader(Crops(), 4), model)
    _, cuts, targets = next(ahead)
    assert started.wait(20)  # the second batch is being cut though only the first was asked for
    assert cuts.partition.labels.shape == (4, SIZE, SIZE)
    assert targets.tolist() == [0, 1, 2, 3]
    assert len(list(ahead)) == 2
    assert all(name.startswith("pixtree-ahead") for name in cut_in)


def test_an_error_in_the_thread_reaches_the_training_loop():
    with pytest.raises(ValueError, match="expected images"):
        list(cut_ahead([(torch.zeros(1, 5, 8, 8),)], model_with(tokens=12)))
