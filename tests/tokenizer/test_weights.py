"""Weights: saved and loaded whole, shipped and better than colours alone, converted from the authors' release."""

from importlib.resources import files

import pytest
import torch
from pictures import photo
from torch import nn

from pixtree.kernels import kernels_for
from pixtree.tokenizer.tokenizer import Options, Tokenizer, region_encoder
from pixtree.tokenizer.weights import Weights, from_release, load_weights, save_weights, shipped_weights
from pixtree.training.reconstruction import reconstruction_error
from pixtree.trees.cuts import Exactly

RELEASE_NORMALISATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation, those of ImageNet
UNSEEN = ("retina", "immunohistochemistry", "hubble_deep_field")  # photos of scikit-image that the shipped weights never saw


class Release(nn.Module):
    """The architecture that the released weights belong to."""

    def __init__(self, features, hidden):
        super().__init__()
        self.ds = nn.Sequential(nn.Conv2d(3, features, 1), nn.BatchNorm2d(features))
        first, second = nn.Conv2d(3, hidden, 2, 2), nn.Conv2d(hidden, features, 2, 2)
        branch = (first, nn.BatchNorm2d(hidden), nn.SiLU(), second, nn.BatchNorm2d(features))
        self.cv = nn.Sequential(*branch, nn.UpsamplingBilinear2d(scale_factor=4))

    def forward(self, images):
        return nn.functional.silu(self.ds(images) + self.cv(images))


def test_weights_come_back_as_they_were_saved(tmp_path):
    torch.manual_seed(3)
    encoder, other = region_encoder(Options()), region_encoder(Options())
    save_weights(encoder, tmp_path / "w.safetensors", {"steps": "0"})
    weights = load_weights(tmp_path / "w.safetensors")
    weights.into(other)
    assert weights.about == {"steps": "0", "compared": "3"}
    for a, b in zip(encoder.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_weights_of_another_make_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"encoder.residual.weight \(16, 3, 1, 1\) against \(8, 3, 1, 1\)"):
        Tokenizer.pretrained(width=8, features=16)
    with pytest.raises(FileNotFoundError, match="check the path"):
        load_weights(tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="save them again"):
        load_weights(tmp_path / "broken.safetensors")
    tensors = {name: tensor for name, tensor in shipped_weights().tensors.items() if "sigma" not in name}
    with pytest.raises(ValueError, match="no similarity"):
        Weights(tensors, {}).into(region_encoder(Options()))


def test_the_shipped_weights_are_small_and_load_without_a_network():
    assert (files("pixtree.tokenizer") / "pretrained.safetensors").stat().st_size < 10_000
    tokens = Tokenizer.pretrained(Exactly(9), width=16)(photo(height=32, width=32)[None])
    assert tokens.features.shape == (1, 9, 16)


def test_shipped_features_reconstruct_unseen_photos_better_in_the_mean_than_region_means_of_the_lab_partition():
    learned, lab = (region_encoder(Options().changed(compactness=0.0)) for _ in range(2))
    shipped_weights().into(learned)
    with torch.no_grad():
        lab.decision.value.fill_(-50.0)
    images = [photo(name, 128, 128) for name in UNSEEN]
    errors = [sum(reconstruction_error(encoder, image, Exactly(100)) for image in images) for encoder in (learned, lab)]
    assert errors[0] < 0.97 * errors[1]


@pytest.mark.parametrize(("features", "hidden"), [(8, 32), (6, 20)], ids=["of the released size", "of another size"])
def test_the_released_encoder_runs_in_our_engine(features, hidden):
    torch.manual_seed(1)
    release, linear = Release(features, hidden), nn.Linear(features, 3)
    for module in release.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -1, 1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 2)
    release.eval()
    state = {f"conv.{name}": tensor for name, tensor in release.state_dict().items()}
    state |= {f"linear.{name}": tensor for name, tensor in linear.state_dict().items()}
    encoder = from_release(state)
    images = torch.rand(2, 3, 24, 32)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in RELEASE_NORMALISATION)
    with torch.no_grad():
        expected = release((images - mean) / std)
        assert torch.allclose(encoder.encoder(images), expected, atol=1e-4)
        colours = linear(expected.movedim(1, -1)).movedim(-1, 1) * std + mean
        found = encoder.colour(expected.movedim(1, -1)).movedim(-1, 1)
        assert torch.allclose(found, colours, atol=1e-5)
        regions = encoder(images, Exactly(10))
    assert kernels_for().paint(regions.colours, regions.labels).shape == (2, 3, 24 * 32)


def test_what_is_no_release_is_refused():
    with pytest.raises(ValueError, match="load r2v"):
        from_release({"weight": torch.zeros(1)})
