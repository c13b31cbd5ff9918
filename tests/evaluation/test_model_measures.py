"""Accuracy, neighbours, probes and costs against values that a reader can work out."""

import math

import pytest
import torch
from labelled_folders import NAME, table
from PIL import Image
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import pixtree
from pixtree.evaluation.classification import (
    accuracy_rows,
    best_count,
    check_classes,
    features,
    logits,
    neighbour_accuracy,
    neighbour_classes,
    outputs_of,
    probe_accuracy,
    probe_classes,
    transform_for,
)
from pixtree.evaluation.classified_images import ClassifiedImage, ClassifiedImages, classified_images
from pixtree.evaluation.variants import Variant, cost_of, in_turns, parsed_variant, variant_of
from pixtree.models.timm_import import timm


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return timm.create_model(NAME).eval()


def right(*classes):
    """The table of one right class per picture."""
    return torch.eye(10, dtype=torch.bool)[[int(one) for one in classes]]


def labelled(*classes):
    pictures = tuple(ClassifiedImage(None, one) for one in classes)
    return ClassifiedImages("made up", "none", pictures, 1 + max(max(one) for one in classes))


def test_accuracy_counts_any_of_a_pictures_classes_and_compares_with_the_first():
    first = torch.eye(6)[[0, 1, 2, 3]] * 9
    second = torch.eye(6)[[0, 5, 2, 5]] * 9
    data = labelled((0,), (1, 5), (4,), (3,))
    rows = accuracy_rows([first, second], data)
    assert [row["top1"] for row in rows] == [0.75, 0.5]
    assert rows[0]["kept"] == 1.0
    assert rows[1]["kept"] == pytest.approx(2 / 3)
    assert rows[1]["agreement"] == 0.5
    assert rows[0]["divergence"] == 0.0
    assert rows[1]["divergence"] > 1.0
    assert rows[0]["error"] == pytest.approx(math.sqrt(0.25 / 4))


def test_top_5_looks_at_five_classes():
    scores = torch.arange(7.0)[None]
    assert [accuracy_rows([scores], labelled((one,)))[0]["top5"] for one in (1, 2)] == [0.0, 1.0]


def test_a_model_without_the_classes_of_the_data_is_refused(model):
    with pytest.raises(ValueError, match="the 1000 classes of the model, got class 1200 in made up"):
        check_classes(model, labelled((1200,)))


def test_neighbours_vote_by_their_cosine():
    learned = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
    found = neighbour_accuracy(learned, torch.tensor([0, 1, 1]), torch.tensor([[2.0, 0.1], [0.0, 3.0]]), right(0, 1), (1, 3))
    assert found == {1: 1.0, 3: 1.0}  # two far neighbours do not outvote a near one
    assert best_count({10: 0.5, 20: 0.7, 50: 0.7}) == 20


def test_neighbours_that_are_fewer_than_k_all_vote():
    found = neighbour_accuracy(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), right(1, 0), (10,))
    assert found == {10: 0.0}


def test_any_of_a_pictures_classes_is_right_for_neighbours_and_a_class_beyond_the_table_is_wrong():
    table = torch.tensor([[True, True, False], [False, True, False], [False, False, True]])
    found = neighbour_accuracy(torch.eye(3), torch.tensor([1, 2, 7]), torch.eye(3), table, (1,))
    assert found == {1: pytest.approx(1 / 3)}


def test_neighbours_in_a_large_bank_are_found_in_parts(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    learned, tested = torch.randn(60, 5, generator=generator), torch.randn(20, 5, generator=generator)
    classes = torch.arange(60) % 4
    whole = neighbour_classes(learned, classes, tested, (3, 10))
    monkeypatch.setattr("pixtree.evaluation.classification.PRODUCTS", 150)
    parts = neighbour_classes(learned, classes, tested, (3, 10))
    assert all(torch.equal(whole[count], parts[count]) for count in (3, 10))


def test_neighbours_and_probes_answer_with_the_classes_they_learned():
    learned, classes = torch.eye(3), torch.tensor([7, 2, 4])
    assert neighbour_classes(learned, classes, learned, (1,))[1].tolist() == [7, 2, 4]
    assert probe_classes(learned, classes, learned, (1e-3,))[0].tolist() == [7, 2, 4]


def test_a_probe_separates_what_a_line_separates():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(120, 4, generator=generator)
    classes = (rows[:, 0] > 0).to(torch.int64) * 5 + 2  # classes 2 and 7
    found, decay = probe_accuracy(rows[:100], classes[:100], rows[100:], right(*classes[100:]))
    assert found >= 0.95
    assert decay in (1e-4, 1e-3, 1e-2, 1e-1)
    never, _ = probe_accuracy(rows[:100], classes[:100], rows[100:], right(*[9] * 20), (1e-3,))
    assert never == 0.0
    with pytest.raises(ValueError, match="two classes"):
        probe_accuracy(rows[:5], torch.zeros(5, dtype=torch.int64), rows, right(*classes))


def test_variants_are_named_as_they_are_written():
    assert str(parsed_variant("compute=0.5, rule=tome")) == "compute=0.5,rule=tome"
    assert str(Variant()) == "as it is"
    assert str(Variant(tokens=9, run="a/b/c")) == "tokens=9,run=c"
    for text, words in (
        ("half", "'half'; try"),
        ("tokens=x", "'tokens=x'"),
        ("rule=tome", "add compute"),
        ("size=64,tokens=4", "not sized"),
    ):
        with pytest.raises(ValueError, match=words):
            parsed_variant(text)


def test_variants_answer_as_the_functions_they_stand_for(model):
    images = torch.rand(2, 3, 160, 160, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.equal(variant_of(model, Variant())(images), model(images))
        assert torch.equal(variant_of(model, Variant(tokens=9))(images), pixtree.retrofit(model, tokens=9)(images))
        tome = pixtree.coarsen(model, 0.7, rule="tome")
        assert torch.equal(variant_of(model, Variant(compute=0.7, rule="tome"))(images), tome(images))
        retrofit = pixtree.retrofit(model, tokens=40)
        fewer = variant_of(retrofit, Variant(tokens=9))
        assert torch.equal(fewer(images), pixtree.retrofit(model, tokens=9)(images))
        assert retrofit.tokens(images).features.shape[1] == 40
    both = variant_of(model, Variant(tokens=60, compute=0.7))
    assert (cost_of(both).tokens, cost_of(both).left) == (60, both.counts[-1])


def test_the_cost_of_patches_is_what_torch_counts(model):
    # The counter knows attention only where it is written out as products.
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, 160, 160))
    cost = cost_of(model)
    assert cost.tokens == 100
    assert cost.gflops == pytest.approx(counter.get_total_flops() / 1e9, rel=1e-3)
    assert cost_of(variant_of(model, Variant(size=80))).gflops < 0.3 * cost.gflops
    regions = cost_of(variant_of(model, Variant(tokens=100)))
    assert cost.gflops < regions.gflops < 3 * cost.gflops
    assert cost_of(variant_of(model, Variant(tokens=100)), 320).gflops > regions.gflops


def test_all_models_see_the_same_pictures_in_one_pass(model, tmp_path):
    data, seen = classified_images(table(tmp_path, [0, 1, 2])), []
    grid = pixtree.retrofit(model, partitioner="grid")
    first, second = outputs_of([model, grid], data, report=seen.append)
    assert seen == [3]
    torch.testing.assert_close(first, second, atol=1e-3, rtol=1e-3)
    image = transform_for(model)(Image.open(data.images[1].path).convert("RGB"))
    torch.testing.assert_close(first[1:2], logits(model, image[None]))
    rows = outputs_of([model, grid, pixtree.coarsen(model, 0.9)], data, features)
    assert [tuple(row.shape) for row in rows] == [(3, model.embed_dim)] * 3
    torch.testing.assert_close(rows[0], rows[1], atol=1e-3, rtol=1e-3)


def test_features_of_padded_batches_leave_out_the_padding(model, tmp_path):
    criterion = pixtree.retrofit(model, budget=pixtree.Criterion("aicc", penalty=20.0))
    data = classified_images(table(tmp_path, [0, 1, 2]))
    together = outputs_of([criterion], data, features)[0]
    alone = outputs_of([criterion], data.limited(1), features)[0]
    torch.testing.assert_close(together[:1], alone, atol=1e-4, rtol=1e-4)


def test_a_damaged_picture_is_named(model, tmp_path):
    data = classified_images(table(tmp_path, [0]))
    data.images[0].path.write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"could not read 'ILSVRC2012_val_00000001.png'"):
        outputs_of([model], data)


def test_models_take_turns_and_the_first_round_does_not_count():
    calls = []
    models = {name: (lambda images, name=name: calls.append(name)) for name in "ab"}
    found = in_turns(models, torch.zeros(1), 2)
    assert [len(times) for times in found.values()] == [2, 2]
    assert calls == list("abbaab")
