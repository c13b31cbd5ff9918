"""Distillation: identical models have no loss, a student approaches its teacher, runs resume, and wrong settings are refused."""

import json

import pytest
import torch
from commands import invoke
from pictures import photo
from PIL import Image
from safetensors.torch import save_file

import pixtree
from pixtree.cli.main import app
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.batches import Images, Sample, SampleBatches, SampleOrder, Share
from pixtree.training.distillation import Distillation, divergence, patch_shares, relative_error
from pixtree.training.logs import read_log
from pixtree.training.loop import train
from pixtree.training.recipe import Matching, Plan
from pixtree.training.short_forms import distillation_recipe
from pixtree.training.sources import folder_reader

NAME = "vit_tiny_patch16_224"


def teacher(classes=7, **changes):
    torch.manual_seed(0)
    return timm.create_model(NAME, depth=2, num_classes=classes, **changes).eval()


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "photos"
    where.mkdir()
    for name in ("astronaut", "coffee", "chelsea"):
        Image.fromarray(photo(name, 60, 70).permute(1, 2, 0).numpy()).save(where / f"{name}.png")
    return where


def images():
    return torch.stack([photo(name, 64, 64) for name in ("astronaut", "coffee")]) / 127.5 - 1.0


class Same:
    """The same batch at every step."""

    def starting(self, step, share):
        while True:
            yield [images()]


@pytest.mark.parametrize("regions", [0.0, 1.0])
def test_square_patches_lose_nothing(regions):
    model = teacher(img_size=64)
    student = pixtree.retrofit(model, partitioner="grid")
    found = Distillation(model, student, Matching(regions=regions))(images())
    assert {"loss", "answer", "pooled", "tokens"} <= set(found)
    assert float(found["loss"]) < 1e-6
    assert float(found["tokens"]) == 16


@pytest.mark.parametrize("kind", ["retrofit", "coarsen"])
def test_a_student_comes_nearer_to_its_teacher(kind):
    model = teacher(img_size=64)
    student = pixtree.retrofit(model, tokens=9) if kind == "retrofit" else pixtree.coarsen(teacher(img_size=64), 0.7)
    with torch.no_grad():  # with random weights all tokens are alike, so that fewer of them change little
        student.vit.head.weight += 0.1 * torch.randn(student.vit.head.weight.shape, generator=torch.Generator().manual_seed(1))
    objective = Distillation(model, student, Matching(regions=float(kind == "retrofit")))
    losses = train(objective, Same(), Plan(steps=12, rate=2e-5, warmup_steps=1)).losses
    assert losses[-1] < 0.5 * losses[0]
    assert not any(one.requires_grad for one in model.parameters())
    if kind == "retrofit":
        moved = dict(student.named_parameters())
        assert moved["tokenizer.regions.encoder.residual.weight"].grad is not None


def test_patches_are_shared_among_regions_by_their_pixels():
    labels = torch.tensor([[[0, 0, 1, 1], [0, 0, 1, 2], [0, -1, 2, 2]]])
    found = patch_shares(labels, (2, 2), 4)[0]  # patches 0, 1 above and 2, 3 below
    assert torch.allclose(found, torch.tensor([[0.8, 0, 0.2, 0], [0, 1, 0, 0], [0, 1 / 3, 0, 2 / 3], [0, 0, 0, 0]]))


def test_budgets_are_mixed():
    model = teacher(img_size=64)
    objective = Distillation(model, pixtree.retrofit(model, tokens=16), budgets=(4, 9, 16))
    torch.manual_seed(0)
    assert {int(objective(images())["tokens"]) for _ in range(12)} == {4, 9, 16}


def test_losses_are_what_their_names_say():
    first, second = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    p, q = first.softmax(1), second.softmax(1)
    assert float(divergence(first, second)) == pytest.approx(float((q * (q / p).log()).sum()))
    assert float(relative_error(torch.tensor([[3.0, 0.0]]), torch.tensor([[2.0, 0.0]]))) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Distillation(teacher(7), teacher(8)), "same classes, got 7 and 8"),
        (lambda: Distillation(teacher(0), teacher(0)), "weight of the answer to 0"),
        (lambda: Distillation(teacher(7), teacher(7, embed_dim=96)), "one width, got 192 and 96"),
        (lambda: Distillation(teacher(7), teacher(7), budgets=(4,)), "need a retrofitted student"),
        (lambda: Matching(answer=0.0, pooled=0.0, regions=0.0), "one is above 0, got 0, 0 and 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_images_are_seeded_by_sample_and_damaged_ones_are_skipped(folder):
    (folder / "broken.png").write_bytes(b"no picture")
    reader = folder_reader(str(folder))
    assert len(reader) == 4

    def noisy(image):
        return torch.rand(2) + len(image.mode)

    found = Images(reader, noisy, seed=1)
    torch.manual_seed(5)
    first = found[Sample(0, 0)]
    torch.manual_seed(6)
    assert torch.equal(first.images, found[Sample(0, 0)].images)
    assert not torch.equal(first.images, found[Sample(1, 0)].images)
    broken = next(place for place in range(4) if reader.filename(place, basename=True) == "broken.png")
    assert int(found[Sample(0, broken)].damaged) == 1
    steps = SampleBatches(found, SampleOrder(4, 4), micro_batch=2).starting(0, Share())
    batches = next(steps)
    assert [tuple(one.images.shape) for one in batches] == [(2, 2), (2, 2)]
    assert sum(int(one.damaged.sum()) for one in batches) == 1
    assert torch.equal(
        next(steps)[0].images, next(SampleBatches(found, SampleOrder(4, 4), micro_batch=2).starting(1, Share()))[0].images
    )


def test_a_folder_of_nothing_but_damage_is_refused(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="could not read 50 in a row"):
        Images(folder_reader(str(tmp_path)), lambda image: torch.zeros(1))[Sample(0, 0)]


@pytest.fixture
def weights(tmp_path, narrow):
    path = tmp_path / "weights.safetensors"
    torch.manual_seed(0)
    save_file(timm.create_model(NAME).half().state_dict(), path)
    return path


def test_the_command_distils_saves_and_goes_on(folder, weights, tmp_path):
    output = tmp_path / "run"
    arguments = ["train", "distill", NAME, str(folder), "-o", str(output), "--weights", str(weights)]
    arguments += ["--tokens", "9", "--epochs", "2", "--batch", "3", "--workers", "0"]
    dry = invoke(app, [*arguments, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "3 images, 2 steps of 3" in dry.output
    assert not output.exists()
    result = invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = read_log(output / "log.jsonl")
    assert [line["step"] for line in lines] == [0, 1]
    assert lines[0]["tokens"] == 9
    assert PixtreeViT.from_pretrained(output).eval()(images()).shape == (2, 1000)
    again = invoke(app, [*arguments, "--resume"])
    assert again.exit_code == 0, again.output


def test_patch_features_of_regions_are_matched_where_there_are_regions():
    assert distillation_recipe("any").loss.regions == 1
    assert distillation_recipe("any", regions=0.5).loss.regions == 0.5
    assert distillation_recipe("any", compute=0.5).loss.regions == 0


def test_the_command_distils_token_trees(folder, weights, tmp_path):
    output = tmp_path / "run"
    arguments = ["train", "distill", NAME, str(folder), "-o", str(output), "--weights", str(weights), "--compute", "0.5"]
    result = invoke(app, [*arguments, "--epochs", "1", "--batch", "3", "--workers", "0"])
    assert result.exit_code == 0, result.output
    assert json.loads((output / "config.json").read_text())["compute"] == 0.5
    assert (output / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("changes", "words", "code"),
    [
        (["--tokens", "9", "--compute", "0.5"], "got both (9 and 0.5)", 2),
        (["--weights", "none.safetensors"], "found none at 'none.safetensors'", 1),
        (["--compute", "3"], "compute", 1),
        (["--batch", "0"], "'schedule.batch' in the recipe, got 0: input should be greater than 0", 1),
        (["--crop", "0"], "got 0.0; try 0.7", 1),
        (["--precision", "float8"], "'schedule.precision' in the recipe, got 'float8': input should be 'float32' or 'bfloat16'", 1),
        (["--compute", "0.5", "--regions", "1"], "regions and budgets need a retrofitted student", 1),
    ],
)
def test_the_command_refuses_in_one_line_before_any_work(folder, weights, tmp_path, changes, words, code):
    arguments = ["train", "distill", NAME, str(folder), "-o", str(tmp_path / "run"), "--weights", str(weights), *changes]
    result = invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
