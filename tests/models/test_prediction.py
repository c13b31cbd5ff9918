"""Any image to classes, and timm's way to another image size."""

import numpy as np
import PIL.Image
import pytest
import torch
from pictures import photo
from tiny_models import far, images, tiny

import pixtree
from pixtree.models import PixtreeViT
from pixtree.models.prediction import Predictions, prepared
from pixtree.models.timm_import import timm

PIXELS = photo(height=60, width=80).permute(1, 2, 0).numpy()


@pytest.fixture(scope="module")
def model():
    return pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=16)


@pytest.fixture
def path(tmp_path):
    PIL.Image.fromarray(PIXELS).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_every_form_of_an_image_gives_the_same_classes(model, path):
    forms = [path, str(path), PIL.Image.fromarray(PIXELS), PIXELS, torch.from_numpy(PIXELS).permute(2, 0, 1), PIXELS / 255]
    found = model.predict(forms, top=3)
    assert found.classes.shape == found.probabilities.shape == (6, 3)
    assert (found.classes == found.classes[0]).all()
    assert torch.equal(model.predict(path, top=3).classes[0], found.classes[0])
    assert len(model.predict(torch.from_numpy(PIXELS).permute(2, 0, 1).expand(2, -1, -1, -1))) == 2


def test_images_are_prepared_as_timm_does_it(model):
    vit = tiny("vit_tiny_patch16_224")
    config = timm.data.resolve_data_config({"input_size": (3, 64, 64)}, model=vit)
    expected = timm.data.create_transform(**config, is_training=False)(PIL.Image.fromarray(PIXELS))
    assert torch.equal(prepared(model, PIXELS)[0], expected)
    best = model(expected[None]).softmax(dim=1).topk(2)
    found = model.predict(PIXELS, top=2)
    assert torch.equal(found.classes, best.indices)
    assert torch.allclose(found.probabilities, best.values)


def test_a_coarsened_model_predicts_too():
    coarse = pixtree.coarsen(tiny("vit_tiny_patch16_224", depth=4), compute=0.9)
    assert coarse.predict(PIXELS, top=2).classes.shape == (1, 2)
    assert coarse.predict(PIXELS[..., 0]).probabilities.sum() <= 1 + 1e-6


def test_classes_have_names_where_the_model_knows_them():
    known = pixtree.retrofit("vit_tiny_patch16_224", tokens=9, depth=1, embed_dim=48, num_heads=3, img_size=48)
    found = known.predict(PIXELS, top=2)
    from timm.data import ImageNetInfo

    description = ImageNetInfo().index_to_description(int(found.classes[0, 0]))
    assert found.names[0][0] == description.partition(",")[0]
    assert repr(found).startswith(f"{found.names[0][0]} {found.probabilities[0, 0]:.1%}, ")
    assert pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=9).predict(PIXELS).names is None


def test_names_of_a_config_win():
    vit = tiny("vit_tiny_patch16_224")
    vit.pretrained_cfg = {**vit.pretrained_cfg, "label_names": list("abcdefg")}
    found = pixtree.retrofit(vit, tokens=9).predict(PIXELS, top=7)
    assert sorted(found.names[0]) == list("abcdefg")


def test_an_answer_without_names_is_printed_by_number():
    assert repr(Predictions(torch.tensor([[3, 1]]), torch.tensor([[0.75, 0.25]]))) == "class 3 75.0%, class 1 25.0%"


def test_predict_does_not_train(model):
    model.train()
    model.predict(PIXELS)
    assert model.training
    assert not model.predict(PIXELS).probabilities.requires_grad
    model.eval()


def test_a_window_is_for_predict_as_well(model):
    deep = PIXELS.astype(np.int32) * 16
    assert torch.equal(model.predict(deep, window=(0, 255 * 16)).classes, model.predict(PIXELS).classes)


@pytest.mark.parametrize("top", [0, 8])
def test_as_many_classes_as_there_are(model, top):
    with pytest.raises(ValueError, match=f"this model has 7 classes, got top={top}; ask for 1 to 7$"):
        model.predict(PIXELS, top=top)


def test_a_model_without_a_classifier_cannot_predict():
    bare = pixtree.retrofit(tiny("vit_tiny_patch16_224", num_classes=0), tokens=9)
    with pytest.raises(ValueError, match="predict needs a classifier, this model has none; call reset_classifier first, or"):
        bare.predict(PIXELS)


def test_other_channels_are_refused(model):
    with pytest.raises(ValueError, match="this model takes images of 3 channels, got 4; choose as many"):
        model.predict(np.zeros((8, 8, 4), np.uint8))
    with pytest.raises(ValueError, match="predict needs at least 1 image, got an empty list; pass some"):
        model.predict([])


@pytest.mark.parametrize("method", ["forward", "forward_features", "partition"])
def test_forward_stays_tensors_and_names_predict(model, path, method):
    with pytest.raises(TypeError) as fault:
        getattr(model, method)(path)
    assert str(fault.value) == (
        f"forward takes a tensor (B, C, H, W), normalised or uint8, got {type(path).__name__}; "
        "call predict, which takes paths, PIL images and arrays"
    )


def test_the_other_modules_name_the_cure_too(path):
    with pytest.raises(TypeError, match="got Image; call predict"):
        pixtree.coarsen(tiny("vit_tiny_patch16_224", depth=4), compute=0.9)(PIL.Image.fromarray(PIXELS))
    with pytest.raises(TypeError) as fault:
        pixtree.Tokenizer(pixtree.Exactly(9), width=16)(str(path))
    assert str(fault.value) == (
        "a tokenizer takes a tensor (B, C, H, W), uint8 or float in 0..1, got str; pass pixtree.images.checked(image)[None]"
    )
    from pixtree.images import checked

    assert pixtree.Tokenizer(pixtree.Exactly(9), width=16)(checked(str(path))[None]).features.shape == (1, 9, 16)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "eva02_tiny_patch14_224"])
@pytest.mark.parametrize("size", [(96, 128), 98])
def test_another_input_size_gives_the_logits_of_timm(name, size):
    vit = tiny(name)
    patch = vit.patch_embed.patch_size[0]
    sides = tuple(side // patch * patch for side in ((size, size) if isinstance(size, int) else size))
    same = pixtree.retrofit(vit, partitioner="grid")
    same.set_input_size(sides)
    vit.set_input_size(sides)
    assert far(same(images(*sides)), vit(images(*sides))) < 1e-4
    assert same.image_size == sides
    assert prepared(same, PIXELS).shape[2:] == sides


def test_another_input_size_moves_the_position_table_once():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=16)
    before = model(images(96))
    model.set_input_size(96)
    assert model.tokenizer.positions.table.shape[0] == 36
    assert far(model(images(96)), before) < 1e-4
    model.set_input_size()
    assert model.image_size == (96, 96)


def test_the_input_size_is_saved(tmp_path):
    model = pixtree.retrofit("vit_tiny_patch16_224", tokens=16, img_size=64, embed_dim=48, depth=1, num_heads=3).eval()
    model.set_input_size((96, 80))
    model.save_pretrained(tmp_path / "model")
    again = PixtreeViT.from_pretrained(tmp_path / "model")
    assert again.image_size == (96, 80)
    assert torch.equal(again(images(96, 80)), model(images(96, 80)))


def test_a_coarsened_model_takes_another_input_size():
    vit = tiny("vit_tiny_patch16_224", depth=4)
    coarse = pixtree.coarsen(vit, compute=0.9)
    coarse.set_input_size(96)
    assert vit.patch_embed.img_size == (96, 96)
    assert coarse(images(96)).shape == (2, 7)
    resized = pixtree.coarsen(vit, compute=0.5, input_size=64)
    with pytest.raises(ValueError, match=r"this model resizes its images to \(64, 64\), got img_size=96; coarsen it anew"):
        resized.set_input_size(96)


def test_the_patch_stays():
    model = pixtree.retrofit(tiny("vit_tiny_patch16_224"), tokens=16)
    model.set_input_size(80, patch_size=16)
    with pytest.raises(ValueError) as fault:
        model.set_input_size(patch_size=8)
    assert str(fault.value) == (
        "a retrofit keeps the patch of its model, 16 pixels, got patch_size=8; set it on the timm model first"
    )
    with pytest.raises(ValueError, match="at least one patch a side, 16 pixels, got img_size=8; choose a larger one"):
        model.set_input_size(8)
