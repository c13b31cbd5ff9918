"""Reconstruction pretraining: exact resumption, seeds, losses that teach, the command."""

import json
import shutil

import pytest
import torch
from commands import invoke
from pictures import photo
from PIL import Image

from pixtree.cli.main import app
from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, Options, region_encoder
from pixtree.tokenizer.weights import load_weights
from pixtree.training import reconstruction, short_forms
from pixtree.training.batches import Crops, RandomCrops, Sample
from pixtree.training.logs import read_log
from pixtree.training.recipe import Plan, Reconstruction
from pixtree.training.reconstruction import (
    Pretraining,
    association_loss,
    neighbour_labels,
    reconstruction_error,
    reconstruction_loss,
)
from pixtree.training.short_forms import tokenizer_recipe
from pixtree.training.sources import image_files
from pixtree.trees.cuts import Exactly


@pytest.fixture
def folder(tmp_path):
    for name in ("astronaut", "coffee"):
        Image.fromarray(photo(name, 60, 70).permute(1, 2, 0).numpy()).save(tmp_path / f"{name}.png")
    return tmp_path


def encoder():
    torch.manual_seed(0)
    return region_encoder(Options().changed(features=4, hidden=6, compactness=0.0))


def test_the_batch_of_a_step_depends_on_seed_and_step_alone(folder):
    files = image_files(folder)
    crops = RandomCrops(files, 3, 32, seed=5)
    assert crops[7].shape == (3, 3, 32, 32)
    assert torch.equal(crops[7], RandomCrops(files, 3, 32, seed=5)[7])
    assert not torch.equal(crops[7], crops[8])
    assert not torch.equal(crops[7], RandomCrops(files, 3, 32, seed=6)[7])


def test_small_images_are_enlarged_and_grey_ones_get_colours(tmp_path):
    Image.fromarray(photo(height=20, width=9).permute(1, 2, 0).numpy()).convert("L").save(tmp_path / "grey.png")
    batch = RandomCrops(image_files(tmp_path), 1, 24)[0]
    assert batch.shape == (1, 3, 24, 24)
    assert torch.equal(batch[0, 0], batch[0, 2])


def test_a_damaged_image_is_replaced_by_the_next_one(folder, caplog):
    (folder / "broken.png").write_bytes(b"no picture")
    crops = Crops(image_files(folder), 24)
    damaged = [path.name for path in crops.files].index("broken.png")
    assert torch.equal(crops[Sample(0, damaged)], crops[Sample(0, (damaged + 1) % 3)])
    assert "skipped a damaged image, broken.png" in caplog.text


def test_held_out_images_are_reconstructed_between_steps(folder, tmp_path):
    data = tmp_path / "data"
    for part in ("train", "val"):
        shutil.copytree(folder, data / part, ignore=shutil.ignore_patterns("data"))
    changes = [word for one in ("batch=1", "epochs=2", "validation=1") for word in ("--set", f"schedule.{one}")]
    arguments = ["train", "recipe", "tokenizer_laptop", str(data), "-o", str(tmp_path / "run"), "--workers", "0", *changes]
    result = invoke(app, [*arguments, "--set", "encoder.crop=24", "--set", "encoder.tokens=6"])
    assert result.exit_code == 0, result.output
    found = [line.get("val_loss") for line in read_log(tmp_path / "run" / "log.jsonl")]
    assert [one is None for one in found] == [True, False, True, False]
    assert json.loads((tmp_path / "run" / "result.json").read_text())["held_out_loss"] == found[-1]
    refused = invoke(app, [*arguments[:3], str(folder), *arguments[4:]])
    assert "expected held-out images for schedule.validation, tokenizer has none" in refused.stderr


def test_the_papers_preset_takes_a_batch_that_ends_in_days():
    recipe = tokenizer_recipe("paper", images=1_281_167)
    assert (recipe.schedule.batch, recipe.plan(1_281_167).steps) == (256, 50_046)


def test_the_command_prints_what_a_run_would_cost(folder, tmp_path):
    arguments = ["train", "tokenizer", str(folder), "-o", str(tmp_path / "w.safetensors"), "--size", "24", "--tokens", "6"]
    result = invoke(app, [*arguments, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "2 images, 400 steps of 4" in result.stdout
    assert "time: " in result.stdout
    assert list(tmp_path.glob("w.*")) == []


def test_the_rate_rises_and_falls():
    plan = Plan(steps=100, rate=1.0, warmup_steps=10)
    rates = [plan.rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) > 0.9
    assert rates[-1] < 0.001


def test_neighbour_labels_repeat_the_border():
    labels = torch.tensor([[[0, 1], [2, 3]]])
    assert neighbour_labels(labels).tolist() == [
        [[[0, 1], [2, 3]]],
        [[[1, 1], [3, 3]]],
        [[[0, 0], [2, 2]]],
        [[[2, 3], [2, 3]]],
        [[[0, 1], [0, 1]]],
    ]


def test_the_association_loss_teaches_what_decides_the_partition():
    module = encoder()
    regions = module(photo(height=40, width=40)[None], Exactly(20))
    loss = association_loss(regions, module)
    loss.backward()
    assert float(module.decision.value.grad) != 0
    assert float(module.similarity.log_sigma.grad) != 0
    assert bool((module.encoder.second.weight.grad != 0).any())
    # As σ goes to 0, every pixel is painted with the region of itself and its neighbours that is nearest to it.
    with torch.no_grad():
        module.similarity.log_sigma.fill_(-20.0)
        assert float(association_loss(regions, module)) == pytest.approx(hard_loss(regions, module), rel=1e-4)


def hard_loss(regions, module):
    """The loss where each pixel counts for one region, pixel by pixel."""
    compared = torch.cat((regions.fixed[0], module.decision.weight.sqrt() * regions.features[0, :3]))
    labels, pixels = regions.partition.labels[0], regions.pixels[0]
    members = [regions.labels[0] == label for label in range(regions.count)]
    means, colours = (torch.stack([planes[:, one].mean(1) for one in members]) for planes in (compared, pixels))
    total = 0.0
    for p in range(1600):
        y, x = divmod(p, 40)
        near = {
            int(labels[min(max(y + dy, 0), 39), min(max(x + dx, 0), 39)]) for dy, dx in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
        }
        best = min(near, key=lambda label: float((compared[:, p] - means[label]).square().sum()))
        total += float((pixels[:, p] - colours[best]).square().sum())
    return total / 1600


def test_pretraining_adds_both_losses_by_their_weights(folder):
    module, crops = encoder(), RandomCrops(image_files(folder), 2, 24)

    def loss(**weights):
        return float(Pretraining(module, Exactly(8), Reconstruction(**weights))(crops[3])["loss"].detach())

    regions = module(crops[3], Exactly(8))
    painted = float(reconstruction_loss(regions.pixels, regions.colours, regions.labels).detach())
    associated = float(association_loss(regions, module).detach())
    assert loss(reconstruction=1.0, association=0.0) == pytest.approx(painted)
    assert loss(reconstruction=2.0, association=0.5) == pytest.approx(2 * painted + 0.5 * associated)
    assert associated > 0.01 * painted
    assert float(Pretraining(module, Exactly(8))(crops[3])["loss"].detach()) == pytest.approx(painted + associated)


@pytest.mark.parametrize("kernel", ["cosine", "tanimoto"])
def test_so_it_does_with_the_other_kernels(kernel, folder):
    torch.manual_seed(0)
    module = region_encoder(Options().changed(features=4, hidden=6, compactness=0.0, kernel=kernel))
    regions = module(photo(height=40, width=40)[None], Exactly(20))
    association_loss(regions, module).backward()
    assert float(module.decision.value.grad) != 0
    assert bool((module.encoder.second.weight.grad != 0).any())
    crops = RandomCrops(image_files(folder), 1, 24)
    both, alone = (Pretraining(module, Exactly(8), Reconstruction(association=weight))(crops[0])["loss"] for weight in (1.0, 0.0))
    own = association_loss(module(crops[0], Exactly(8)), module)
    assert float(both.detach()) == pytest.approx(float(alone.detach()) + float(own.detach()), rel=1e-5)


def test_soft_assignments_are_the_kernel_over_the_regions_around_a_pixel():
    """Two regions of one row: the pixels at their border see both, the others only their own."""
    module = region_encoder(Options().changed(features=3, linear=True, decision="features", similarity="cosine", kernel="cosine"))
    picture = torch.tensor([[0.9, 0.8, 0.1, 0.2], [0.1, 0.3, 0.8, 0.9], [0.2, 0.1, 0.3, 0.1]])[None, :, None]
    regions = module(picture, Exactly(2))
    assert regions.partition.labels.flatten().tolist() == [0, 0, 1, 1]
    features, means = regions.features[0].T, torch.stack([regions.features[0, :, :2].mean(1), regions.features[0, :, 2:].mean(1)])
    kernel = 0.5 + 0.5 * torch.nn.functional.cosine_similarity(features[:, None], means, dim=2)
    share = kernel / kernel.sum(1, keepdim=True)
    share[0], share[3] = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    expected = (picture[0, :, 0].T - share @ regions.means[0]).square().sum(1).mean()
    assert float(association_loss(regions, module).detach()) == pytest.approx(float(expected.detach()), rel=1e-4)


def test_the_papers_preset_is_the_papers_pretraining_and_ours_is_another():
    assert set(reconstruction.PRESETS) == set(short_forms.PRESETS)
    ours, paper = (tokenizer_recipe(name, images=1000, batch=8) for name in ("default", "paper"))
    plan = paper.plan(1000)
    assert (plan.rate.base, plan.weight_decay, plan.steps, plan.clip) == (1e-4, 1e-2, 1250, None)
    assert {plan.rate_at(step) for step in range(plan.steps)} == {1e-4}
    assert reconstruction.preset_of(paper.encoder) == (PAPER, PAPER_BUDGET)
    assert paper.loss == Reconstruction(reconstruction=1.0, association=0.0)
    assert reconstruction.preset_of(ours.encoder) == (Options().changed(compactness=0.0), Exactly(80))
    assert ours.loss == Reconstruction(reconstruction=1.0, association=1.0)
    assert ours.plan(1000) == Plan(batch=8, steps=400, warmup_steps=20, rate=1e-2, weight_decay=0.0, clip=1.0, every=100)


def test_the_command_has_the_papers_preset(folder, tmp_path):
    weights = tmp_path / "w.safetensors"
    arguments = ["train", "tokenizer", str(folder), "-o", str(weights), "--preset", "paper", "--batch", "5", "--size", "16"]
    result = invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert load_weights(weights).about["steps"] == "4"  # ten epochs of two images, five a step
    state = torch.load(weights.with_suffix(".checkpoint"), weights_only=True)
    assert (state["about"]["plan"]["rate"], state["about"]["plan"]["decay"]) == (1e-4, 1e-2)
    group = state["optimizer"]["param_groups"][0]
    assert (group["lr"], group["weight_decay"]) == (1e-4, 1e-2)


def test_the_command_trains_saves_and_goes_on(folder, tmp_path):
    weights = tmp_path / "w.safetensors"
    arguments = [
        "train",
        "tokenizer",
        str(folder),
        "-o",
        str(weights),
        "--steps",
        "3",
        "--batch",
        "1",
        "--size",
        "24",
        "--tokens",
        "6",
    ]
    result = invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "over 3 steps" in result.output
    assert load_weights(weights).about["steps"] == "3"
    assert weights.with_suffix(".checkpoint").is_file()
    assert invoke(app, [*arguments, "--resume"]).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["-o", "w.pt"], ".safetensors"),
        (["--preset", "none"], "default, paper"),
        (["--steps", "0"], "'schedule.steps' in the recipe, got 0: input should be greater than 0"),
        (["--decay", "-1"], "'schedule.weight_decay' in the recipe, got -1.0: input should be greater than or equal to 0"),
        (["--preset", "paper", "--tokens", "80"], "no --tokens"),
        (["--preset", "paper", "--association", "0"], "no --association"),
        (["--preset", "paper", "--compactness", "0.1", "--tokens", "9"], "no --tokens, --compactness"),
        (["--resume"], "checkpoint"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(folder, tmp_path, changes, words):
    arguments = ["train", "tokenizer", str(folder), "-o", str(tmp_path / "w.safetensors"), "--steps", "2", *changes]
    result = invoke(app, arguments)
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_folder_without_images_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="found none"):
        image_files(tmp_path)


def test_the_start_reconstructs_a_photo_as_well_as_its_region_means():
    image = photo(height=40, width=50)
    module = encoder()
    with torch.no_grad():
        regions = module(image[None], Exactly(30))
    flat = regions.means[0][regions.labels[0].long()].T
    assert reconstruction_error(module, image, Exactly(30)) == pytest.approx(
        float((regions.pixels[0] - flat).square().mean()), rel=1e-4
    )
