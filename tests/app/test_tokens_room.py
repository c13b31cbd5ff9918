"""The Tokens room, used as a person would, in Chromium, without a model and with one."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from browsing import DESKTOP, PHONE, idle, open_example, screenshot, until, visit
from renderers import needs
from running import png, request, running, sentence, upload
from safetensors.torch import save_file

import pixtree
from pixtree.app.demo_model import DemoModel
from pixtree.app.limits import Limits
from pixtree.app.page import example
from pixtree.app.tokens_room import SIDE
from pixtree.app.uploads import decoded, reduced
from pixtree.app.wire import unpacked
from pixtree.models.timm_import import timm

TINY, DEIT = "vit_tiny_patch16_224", "deit_tiny_patch16_224"


@pytest.fixture(scope="module")
def picture():
    return decoded(example("coffee", 1024), Limits())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of random weights, or DeiT-Tiny where the pictures of the docs are renewed."""
    if os.environ.get("PIXTREE_SCREENSHOTS"):
        return DemoModel.load(DEIT, Path(os.environ["PIXTREE_DATA"]) / "weights" / f"{DEIT}.fp16.safetensors")
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model(TINY).state_dict(), path)
    return DemoModel.load(TINY, path)


@pytest.mark.parametrize("method", ["grid", "slic", "pixtree"])
def test_tokens_are_the_librarys(address, picture, method):
    name = upload(address, png(picture))[1]
    status, _, body = request(address, "GET", f"/api/trees/{name}/tokens?method={method}&count=100")
    header, _, arrays = unpacked(body)
    expected = pixtree.segment(reduced(picture, SIDE), tokens=100, partitioner=None if method == "pixtree" else method)
    assert status == 200
    assert max(arrays["labels"].shape) == SIDE
    assert (arrays["labels"] == expected).all()
    assert header["regions"] == expected.max() + 1


def test_outputs_of_a_model_are_those_of_timm_and_the_library(model, picture):
    header, arrays = model.outputs(picture)
    image = model._normalised(picture)
    with torch.inference_mode():
        logits, coarse = model.vit(image), model.coarse(image)
        rows, tree = model.coarse.forward_tree(image)
    assert header["answers"][0]["name"] == model._class_name(int(logits.argmax()))
    assert header["answers"][0]["share"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-4)
    assert header["coarseAnswers"][0]["share"] == pytest.approx(float(coarse.softmax(-1).max()), abs=1e-4)
    assert header["counts"] == [int(block.max()) + 1 for block in arrays["blocks"]] == list(tree.counts)
    assert rows.shape[1] == header["counts"][-1] + 1
    assert (np.diag(arrays["similarity"]) == 255).all()
    assert 0 < arrays["attention"].sum() < 1  # the rest goes to the class token itself


def test_attention_is_that_of_the_last_block(model, picture):
    seen = []
    last = model.vit.blocks[-1].attn
    last.fused_attn, fused = False, last.fused_attn  # the other way computes the softmax where a hook can see it
    hook = last.attn_drop.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    with torch.inference_mode():
        model.vit(model._normalised(picture))
    hook.remove()
    last.fused_attn = fused
    expected = seen[0][0, :, 0, 1:].mean(0)
    assert np.allclose(model.outputs(picture)[1]["attention"], expected, atol=1e-5)


def test_weights_of_another_model_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="safetensors"):
        DemoModel.load(TINY, tmp_path / "missing.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="choose another file"):
        DemoModel.load(TINY, tmp_path / "a.safetensors")


def test_a_server_without_a_model_says_how_to_get_one(address, picture):
    name = upload(address, png(picture))[1]
    status, _, body = request(address, "GET", f"/api/trees/{name}/model")
    assert (status, "--model" in sentence(body)) == (404, True)


@pytest.fixture(scope="module")
def model_address(model):
    with running(model=model) as port:
        yield port


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("?tokens=50&side=centre", {"tokens": 50, "side": "centre"}),
        ("?snap=false&side=occlusion", {"refine": None, "side": "occlusion"}),
    ],
)
def test_the_salient_object_is_the_librarys(model_address, model, picture, query, options):
    small = reduced(picture, 160)
    name = upload(model_address, png(small))[1]
    status, _, body = request(model_address, "GET", f"/api/trees/{name}/salient{query}")
    header, _, arrays = unpacked(body)
    expected = pixtree.salient(small, model.vit, **options)
    assert status == 200
    assert (arrays["mask"].astype(bool) == expected).all()
    assert header["area"] == expected.sum() > 0


def test_a_salient_object_that_cannot_be_is_refused_in_one_sentence(model_address, address, picture):
    without, name = (upload(port, png(reduced(picture, 64)))[1] for port in (address, model_address))
    status, _, body = request(address, "GET", f"/api/trees/{without}/salient")
    assert (status, "--model" in sentence(body)) == (404, True)
    for query in ("side=back", "tokens=1", "tokens=2000", "snap=perhaps", "size=9999"):
        status, _, body = request(model_address, "GET", f"/api/trees/{name}/salient?{query}")
        assert (status, query.split("=")[0] in sentence(body)) == (422, True)


def test_a_salient_object_that_takes_too_long_is_refused(model, picture):
    with running(Limits(answer_seconds=0.05), model) as port:
        name = ""
        while not name:  # the first uploads may be refused for the same reason
            name = upload(port, png(reduced(picture, 32)))[1]
        status, _, body = request(port, "GET", f"/api/trees/{name}/salient")
        assert (status, "ask for less" in sentence(body)) == (503, True)


@needs("chromium")
def test_the_salient_object_is_painted_over_the_photo(browser, model_address, tmp_path):
    with visit(browser, model_address, viewport=DESKTOP, errors=("503",)) as page:
        open_example(page, "coffee")
        page.click("#tab-tokens")
        page.click("#token-view [data-value=object]")
        until(page, "pixtree.rooms.tokens.object() !== null")
        idle(page)
        assert page.inner_text("#object-share").endswith("% of the photo")
        assert page.is_hidden("#token-slider")
        screenshot(page, "object", tmp_path)
        shots = {page.screenshot()}
        for choice in ("#object-cut [data-value=regions]", "#object-side [data-value=centre]", "#object-snap"):
            page.click(choice)
            idle(page)
            shots.add(page.screenshot())
        assert page.is_visible("#token-slider")
        assert "nearer to the centre" in page.inner_text("#token-hint")
        assert len(shots) == 4
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        page.click("#tab-regions")  # and nothing of it stays behind
        page.click("#tab-tokens")
        idle(page)
        assert page.get_attribute("#token-view [data-value=object]", "aria-checked") == "true"
        page.route("**/salient*", lambda route: route.fulfill(status=503, json={"error": "an answer may take a minute"}))
        page.click("#object-side [data-value=attention]")
        page.wait_for_selector("#notice:not([hidden])")
        assert page.inner_text("#notice") == "An answer may take a minute."


@needs("chromium")
def test_three_ways_stand_side_by_side(browser, address, tmp_path):
    with visit(browser, address, viewport=DESKTOP) as page:
        open_example(page, "coffee")
        page.click("#tab-tokens")
        until(page, "Object.keys(pixtree.rooms.tokens.found()).length === 3")
        idle(page)
        assert page.locator(".trio strong").all_inner_texts() == ["Photo", "Square patches", "SLIC", "pixtree"]
        assert page.locator("#way-pixtree span").inner_text().startswith("196 tokens, ")
        assert page.is_hidden("#token-view")
        screenshot(page, "tokens", tmp_path)
        page.click("#token-fill [data-value=mean]")
        page.fill("#token-count", "64")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#way-pixtree span').textContent.startsWith('64 tokens')")
        idle(page)


@needs("chromium")
def test_a_models_views_are_shown(browser, model_address):
    with visit(browser, model_address) as page:
        open_example(page, "coffee")
        page.click("#tab-tokens")
        until(page, "pixtree.rooms.tokens.model() !== null")
        idle(page)
        assert page.locator("#answers li").count() == 5
        assert "50 %" in page.inner_text("#coarse-answer")
        shots = set()
        for view in ("attention", "blocks", "similarity"):
            page.click(f"#token-view [data-value={view}]")
            idle(page)
            shots.add(page.screenshot())
        page.mouse.click(300, 300)
        idle(page)
        shots.add(page.screenshot())
        page.click("#token-view [data-value=blocks]")
        page.focus("#token-slider")
        page.keyboard.press("Home")
        assert page.inner_text("#token-unit") == "tokens after block 1"
        assert page.input_value("#token-count") == "196"
        idle(page)
        shots.add(page.screenshot())
        assert len(shots) == 5
