"""features_only=True: timm's wrapper around retrofitted and coarsened models, and the weights that it would download."""

import time

import pytest
import torch
from tiny_models import SMALL, far, images

import pixtree
from pixtree.models import downloads
from pixtree.models.timm_import import timm

NAME = "vit_tiny_patch16_224"
OPTIONS = {**{key: value for key, value in SMALL.items() if key != "num_classes"}, "img_size": 64, "depth": 4}


def getter(**options):
    torch.manual_seed(0)
    return timm.create_model(NAME, features_only=True, out_indices=(1, 2), **OPTIONS, **options).eval()


@torch.no_grad()
def test_the_grid_of_patches_gives_the_features_of_timm():
    model, batch = getter(), images(64)
    same = pixtree.retrofit(model, partitioner="grid")
    assert type(same) is type(model)
    assert all(far(a, b) <= 1e-5 for a, b in zip(same(batch), model(batch), strict=True))


@torch.no_grad()
def test_nothing_merged_gives_the_features_of_timm():
    model, batch = getter(), images(64)
    same = pixtree.coarsen(model, compute=1.0)
    assert all(far(a, b) <= 1e-5 for a, b in zip(same(batch), model(batch), strict=True))
    assert same.model.model is model.model


@torch.no_grad()
def test_names_take_features_only_too():
    regions = pixtree.retrofit(NAME, tokens=9, features_only=True, out_indices=(0, 2), **OPTIONS)
    merged = pixtree.coarsen(NAME, schedule=[16, 12, 9], features_only=True, out_indices=(0, 2), **OPTIONS)
    for model in (regions, merged):
        assert [tuple(one.shape) for one in model.eval()(images(64))] == [(2, 48, 4, 4)] * 2
        assert model.feature_info.channels() == [48, 48]


def test_weights_that_cannot_be_downloaded_are_refused_within_seconds(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(downloads, "_is_cached", lambda repository: False)
    start = time.perf_counter()
    for make in (pixtree.retrofit, pixtree.coarsen):
        with pytest.raises(ConnectionError, match=r"come from timm/vit_tiny_patch16_224\.augreg_in21k_ft_in1k on the"):
            make(NAME, pretrained=True)
    assert time.perf_counter() - start < 5.0


def test_a_hub_that_never_answers_is_not_waited_for(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(downloads, "SECONDS", 0.2)
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: time.sleep(60))
    start = time.perf_counter()
    assert not downloads._answers()
    assert time.perf_counter() - start < 3.0


def test_a_file_of_weights_needs_no_hub(monkeypatch):
    monkeypatch.setattr(downloads, "_answers", lambda: pytest.fail("nobody is asked"))
    downloads.check_download("local-dir:somewhere")
    monkeypatch.setattr(downloads, "_is_cached", lambda repository: True)
    downloads.check_download(NAME)
