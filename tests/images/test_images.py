"""What counts as an image, what it becomes, and what is said when it is none."""

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from fresh_process import loaded_after

import pixtree
from pixtree.images import checked, checked_mask

COLOURS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8)
DEEP = np.array([[0, 1, 255, 256], [1000, 32768, 65534, 65535]], np.uint16)


def saved(path, image, **options):
    image.save(path, **options)
    return path


def png_bytes(colour_type, pixels):
    """A 16-bit PNG written by hand, for the colour types that Pillow reads but does not write."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class TestFiles:
    @pytest.mark.parametrize("name", ["a.png", "a.tiff", "a.webp"])
    def test_a_lossless_colour_file_keeps_its_bytes(self, tmp_path, name):
        options = {"lossless": True} if name.endswith("webp") else {}
        image = checked(saved(tmp_path / name, PIL.Image.fromarray(COLOURS), **options))
        assert image.dtype == torch.uint8
        assert image.is_contiguous()
        assert np.array_equal(image.permute(1, 2, 0).numpy(), COLOURS)

    def test_a_jpeg_is_read_as_three_channels(self, tmp_path):
        image = checked(saved(tmp_path / "a.jpg", PIL.Image.new("RGB", (8, 6), (200, 100, 50)), quality=95))
        assert image.shape == (3, 6, 8)
        assert (image[:, 0, 0].int() - torch.tensor([200, 100, 50])).abs().max() <= 2

    def test_a_path_may_be_a_string(self, tmp_path):
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(COLOURS))
        assert torch.equal(checked(str(path)), checked(path))

    def test_the_extension_does_not_matter(self, tmp_path):
        path = saved(tmp_path / "a.jpg", PIL.Image.fromarray(COLOURS), format="PNG")
        assert np.array_equal(checked(path).permute(1, 2, 0).numpy(), COLOURS)

    @pytest.mark.parametrize("extension", ["png", "tiff", "jpg"])
    def test_a_grey_file_has_one_channel(self, tmp_path, extension):
        image = checked(saved(tmp_path / f"a.{extension}", PIL.Image.new("L", (3, 2), 77)))
        assert image.shape == (1, 2, 3)
        assert image.dtype == torch.uint8
        assert (image == 77).all()

    def test_black_and_white_becomes_0_and_255(self, tmp_path):
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(np.array([[True, False]])))
        assert checked(path).tolist() == [[[255, 0]]]

    def test_a_palette_file_becomes_its_colours(self, tmp_path):
        image = PIL.Image.fromarray(np.array([[0, 1]], np.uint8)).convert("P")
        image.putpalette([10, 20, 30, 40, 50, 60])
        assert checked(saved(tmp_path / "a.png", image)).tolist() == [[[10, 40]], [[20, 50]], [[30, 60]]]

    def test_cmyk_becomes_rgb(self, tmp_path):
        path = saved(tmp_path / "a.tiff", PIL.Image.new("CMYK", (2, 1), (0, 255, 255, 0)))
        assert checked(path)[:, 0, 0].tolist() == [255, 0, 0]

    @pytest.mark.parametrize("extension", ["png", "tiff"])
    def test_16_bit_grey_is_divided_by_65535(self, tmp_path, extension):
        image = checked(saved(tmp_path / f"a.{extension}", PIL.Image.fromarray(DEEP)))
        assert image.dtype == torch.float32
        assert np.array_equal(image[0].numpy(), DEEP.astype(np.float32) / np.float32(65535))

    def test_16_bit_grey_of_the_other_byte_order_is_the_same(self, tmp_path):
        image = PIL.Image.frombytes("I;16B", (4, 2), DEEP.astype(">u2").tobytes())
        path = saved(tmp_path / "a.tiff", image)
        assert torch.equal(checked(path), checked(DEEP))
        assert torch.equal(checked(image), checked(DEEP))

    @pytest.mark.parametrize("most", [200, 70000])
    def test_32_bit_grey_needs_a_window(self, tmp_path, most):
        path = saved(tmp_path / "a.tiff", PIL.Image.fromarray(np.array([[most, 0]], np.int32)))
        with pytest.raises(ValueError, match=rf"got int32 from 0 to {most}; pass window=\"auto\", or .* window=\(0, {most}\)$"):
            checked(path)
        assert checked(path, window="auto").tolist() == [[[1.0, 0.0]]]

    def test_a_float_tiff_in_0_to_1_stays_float(self, tmp_path):
        path = saved(tmp_path / "a.tiff", PIL.Image.fromarray(np.array([[0.25, 1]], np.float32)))
        assert checked(path).tolist() == [[[0.25, 1.0]]]

    def test_a_float_tiff_beyond_1_is_refused(self, tmp_path):
        path = saved(tmp_path / "a.tiff", PIL.Image.fromarray(np.array([[0, 200]], np.float32)))
        with pytest.raises(ValueError, match="divide by 255 if these are bytes, or pass window"):
            checked(path)

    def test_16_bit_colour_png_is_read_as_8_bit(self, tmp_path):
        path = tmp_path / "a.png"
        path.write_bytes(png_bytes(2, np.full((2, 2, 3), 0x1234, np.uint16)))
        image = checked(path)
        assert image.dtype == torch.uint8
        assert (image == 0x12).all()

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_exif_rotation_is_applied(self, tmp_path, orientation):
        exif = PIL.Image.Exif()
        exif[0x0112] = orientation
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(COLOURS), exif=exif)
        turned = {
            1: COLOURS,
            2: COLOURS[:, ::-1],
            3: COLOURS[::-1, ::-1],
            4: COLOURS[::-1],
            5: COLOURS.swapaxes(0, 1),
            6: np.rot90(COLOURS, -1),
            7: COLOURS[::-1, ::-1].swapaxes(0, 1),
            8: np.rot90(COLOURS),
        }[orientation]
        assert np.array_equal(checked(path).permute(1, 2, 0).numpy(), turned)

    @pytest.mark.parametrize("extension", ["jpg", "tiff", "webp"])
    def test_exif_rotation_is_applied_once_in_every_format(self, tmp_path, extension):
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        path = saved(tmp_path / f"a.{extension}", PIL.Image.new("RGB", (8, 6)), exif=exif)
        assert checked(path).shape == (3, 8, 6)

    def test_the_channel_axis_does_not_concern_files(self, tmp_path):
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(COLOURS))
        assert checked(path, channel_axis=0).shape == (3, 6, 8)


class TestAlpha:
    def test_rgba_is_composited_over_white(self, tmp_path):
        pixels = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 0, 0, 51]]], np.uint8)
        image = checked(saved(tmp_path / "a.png", PIL.Image.fromarray(pixels)))
        assert image[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255], [204, 204, 204]]

    def test_grey_with_alpha_stays_one_channel(self, tmp_path):
        pixels = np.array([[[7, 255], [7, 0], [0, 51]]], np.uint8)
        assert checked(saved(tmp_path / "a.png", PIL.Image.fromarray(pixels))).tolist() == [[[7, 255, 204]]]

    def test_a_transparent_palette_entry_is_white(self, tmp_path):
        image = PIL.Image.fromarray(np.array([[0, 1]], np.uint8)).convert("P")
        image.putpalette([10, 20, 30, 40, 50, 60])
        path = saved(tmp_path / "a.png", image, transparency=1)
        assert checked(path)[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255]]

    @pytest.mark.parametrize(("mode", "key"), [("RGB", (9, 9, 9)), ("L", 9)])
    def test_a_colour_key_is_white(self, tmp_path, mode, key):
        path = saved(tmp_path / "a.png", PIL.Image.new(mode, (2, 2), key), transparency=key)
        assert (checked(path) == 255).all()

    def test_a_16_bit_colour_key_is_white(self, tmp_path):
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(DEEP), transparency=1000)
        assert checked(path)[0, 1].tolist()[0] == 1
        assert checked(path)[0, 0].tolist()[0] == 0

    def test_a_pil_image_is_composited_too(self):
        assert (checked(PIL.Image.new("RGBA", (2, 2), (0, 0, 0, 0))) == 255).all()

    def test_alpha_is_kept_if_asked_for(self, tmp_path):
        pixels = np.array([[[10, 20, 30, 255], [10, 20, 30, 0], [0, 0, 0, 51]]], np.uint8)
        path = saved(tmp_path / "a.png", PIL.Image.fromarray(pixels))
        for image in (path, PIL.Image.fromarray(pixels)):
            assert np.array_equal(checked(image, alpha=True).permute(1, 2, 0).numpy(), pixels)

    def test_an_image_without_alpha_is_opaque(self):
        assert checked(PIL.Image.new("L", (1, 1), 7), alpha=True).flatten().tolist() == [7, 7, 7, 255]
        assert checked(PIL.Image.new("F", (1, 1), 0.5), alpha=True).flatten().tolist() == [0.5, 0.5, 0.5, 1.0]

    def test_16_bit_grey_keeps_its_depth_beside_alpha(self, tmp_path):
        plain = checked(saved(tmp_path / "a.png", PIL.Image.fromarray(DEEP)), alpha=True)
        assert torch.equal(plain[1], torch.from_numpy(DEEP).float() / 65535)
        assert (plain[3] == 1).all()
        keyed = checked(saved(tmp_path / "b.png", PIL.Image.fromarray(DEEP), transparency=1000), alpha=True)
        assert keyed[3].tolist() == [[1, 1, 1, 1], [0, 1, 1, 1]]

    def test_a_file_with_alpha_is_decoded_once(self, tmp_path, monkeypatch):
        opened = []
        path = saved(tmp_path / "a.png", PIL.Image.new("RGBA", (5, 4), (9, 9, 9, 0)))
        real = PIL.Image.open
        monkeypatch.setattr(PIL.Image, "open", lambda source: opened.append(source) or real(source))
        assert pixtree.vectorize(path, paths=2, transparency=True).paths == 0
        assert opened == [path]

    def test_a_fourth_channel_of_an_array_is_no_alpha(self):
        assert checked(np.zeros((2, 2, 4), np.uint8)).tolist() == [[[0, 0], [0, 0]]] * 4


class TestUnreadableFiles:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"'.*no\.png' does not exist; check the path"):
            checked(tmp_path / "no.png")

    def test_a_folder(self, tmp_path):
        with pytest.raises(ValueError, match=r"got the folder '.*'; name one file in it"):
            checked(tmp_path)

    @pytest.mark.parametrize("extension", ["jpg", "png", "webp", "tiff"])
    def test_a_truncated_file(self, tmp_path, extension):
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        path = saved(tmp_path / f"a.{extension}", PIL.Image.fromarray(noise))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(ValueError, match=rf"a\.{extension}.*; \w+"):
            checked(path)

    def test_a_truncated_jpeg_says_so(self, tmp_path):
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        path = saved(tmp_path / "a.jpg", PIL.Image.fromarray(noise))
        path.write_bytes(path.read_bytes()[:-500])
        with pytest.raises(ValueError, match=r"image is needed, got '.*a\.jpg' \(.*truncated.*\); get it again"):
            checked(path)

    def test_a_text_named_png(self, tmp_path):
        path = tmp_path / "a.png"
        path.write_text("not a picture")
        with pytest.raises(ValueError, match=r"'.*a\.png' is none of them, whatever its name; convert it to PNG"):
            checked(path)

    def test_an_empty_file(self, tmp_path):
        path = tmp_path / "a.png"
        path.touch()
        with pytest.raises(ValueError, match=r"'.*a\.png' is empty; save or download it again"):
            checked(path)

    def test_a_decompression_bomb(self, tmp_path, monkeypatch):
        path = saved(tmp_path / "a.png", PIL.Image.new("L", (10, 10)))
        monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 20)
        with pytest.raises(ValueError, match=r"at most 40 pixels, got more in '.*'; shrink it, or raise PIL\.Image"):
            checked(path)

    def test_a_mode_that_pillow_cannot_convert(self):
        with pytest.raises(ValueError, match=r"got the PIL image .*La.*; get it again or save it as PNG"):
            checked(PIL.Image.new("La", (2, 2)))

    def test_every_message_is_one_line(self, tmp_path):
        (tmp_path / "text.png").write_text("x")
        for path in (tmp_path, tmp_path / "no.png", tmp_path / "text.png"):
            with pytest.raises((ValueError, FileNotFoundError)) as fault:
                checked(path)
            assert "\n" not in str(fault.value)
            assert str(fault.value).count(";") == 1


class TestPilImages:
    @pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "YCbCr", "HSV", "I;16", "I", "F"])
    def test_every_common_mode_is_read(self, mode):
        image = checked(PIL.Image.new(mode, (3, 2)), window=(0, 255) if mode == "I" else None)
        grey = mode in ("1", "L", "LA", "I;16", "I", "F")
        assert image.shape == (1 if grey else 3, 2, 3)
        assert image.dtype == (torch.float32 if mode[0] in "IF" else torch.uint8)

    def test_a_pil_image_keeps_its_own_grid(self, tmp_path):
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        with PIL.Image.open(saved(tmp_path / "a.png", PIL.Image.fromarray(COLOURS), exif=exif)) as image:
            assert checked(image).shape == (3, 6, 8)

    def test_a_pil_image_without_pixels(self):
        with pytest.raises(ValueError, match="at least 1 pixel, got shape"):
            checked(PIL.Image.new("RGB", (0, 3)))


class TestArrays:
    @pytest.mark.parametrize("channel_axis", [None, -1])
    def test_a_2d_array_is_grey(self, channel_axis):
        assert checked(COLOURS[..., 0], channel_axis=channel_axis).shape == (1, 6, 8)

    @pytest.mark.parametrize("channel_axis", [-3, -2, -1, 0, 1, 2])
    def test_the_channels_may_be_any_axis(self, channel_axis):
        image = checked(np.moveaxis(COLOURS, -1, channel_axis), channel_axis=channel_axis)
        assert np.array_equal(image.permute(1, 2, 0).numpy(), COLOURS)
        assert image.is_contiguous()

    def test_bool_becomes_0_and_255(self):
        image = checked(np.array([[True, False]]))
        assert image.dtype == torch.uint8
        assert image.tolist() == [[[255, 0]]]

    @pytest.mark.parametrize("dtype", ["<u2", ">u2"])
    def test_uint16_is_divided_by_65535(self, dtype):
        image = checked(DEEP.astype(dtype))
        assert image.dtype == torch.float32
        assert np.array_equal(image[0].numpy(), DEEP.astype(np.float32) / np.float32(65535))

    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
    def test_floats_in_0_to_1_become_float32(self, dtype):
        image = checked(np.array([[0, 0.25, 1]], dtype))
        assert image.dtype == torch.float32
        assert image.tolist() == [[[0, 0.25, 1]]]

    def test_rounding_beyond_float32_is_no_fault(self):
        assert checked(np.array([[1 + 1e-12]])).item() == 1

    @pytest.mark.parametrize("channels", [1, 2, 4, 64])
    def test_up_to_64_channels_are_taken(self, channels):
        assert checked(np.zeros((2, 3, channels), np.uint8), channel_axis=-1).shape == (channels, 2, 3)

    def test_a_read_only_or_flipped_array_is_taken_without_a_warning(self):
        frozen = COLOURS[..., 0].copy()
        frozen.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(checked(frozen)[0].numpy(), frozen)
            assert np.array_equal(checked(frozen[::-1, ::-1])[0].numpy(), frozen[::-1, ::-1])

    def test_the_input_is_not_changed(self):
        values = np.array([[True, False]]), DEEP.copy(), np.array([[0.5]])
        before = [array.copy() for array in values]
        for array, copy in zip(values, before, strict=True):
            checked(array)
            assert np.array_equal(array, copy)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.array([[0.0, 255.0]]), r"lie in 0..1, got 0 to 255; divide by 255 if these are bytes, or pass window=\"auto\", or"),
            (np.array([[0.0, 4095.0]]), r"got 0 to 4095; pass window=\"auto\", or .* white, such as window=\(0, 4095\)$"),
            (np.array([[-1024.0, 3071.0]]), r"got -1024 to 3071; pass window=\"auto\", or .* such as window=\(-1024, 3071\)$"),
            (np.array([[-2.1, 2.6]]), r"got -2.1 to 2.6; undo its normalisation \(image \* std \+ mean\), or pass window"),
            (np.array([[-0.5, 1.0]]), r"got -0.5 to 1; clip it, or pass window=\(0, 1\), which does$"),
            (np.array([[0.0, 1.1]]), r"got 0 to 1.1; clip it"),
            (np.array([[0.0, 1e300]]), r"got 0 to 1e\+300; pass window"),
        ],
    )
    def test_floats_beyond_0_to_1_are_refused(self, array, message):
        with pytest.raises(ValueError, match=message):
            checked(array)

    @pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u4", "u8"])
    def test_other_integers_are_refused(self, dtype):
        with pytest.raises(ValueError, match=r"got u?int\d+ from 0 to 0; pass window=\"auto\", or the values that are black"):
            checked(np.zeros((2, 2), dtype))

    @pytest.mark.parametrize("dtype", ["c8", "O", "U3", np.longdouble])
    def test_other_types_are_refused(self, dtype):
        with pytest.raises(ValueError, match=r"bool, integer or float, got .*; cast it to uint8 or float32"):
            checked(np.zeros((2, 2), dtype))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_pixels_that_are_not_finite_are_counted(self, bad):
        array = np.zeros((4, 5, 3))
        array[1, 2] = bad  # one pixel, three channels
        array[3, 4, 0] = bad
        with pytest.raises(ValueError, match=r"NaN or Inf in 2 of 20 pixels; replace them, .* nan_to_num\("):
            checked(array)

    def test_the_advice_for_pixels_that_are_not_finite_works(self):
        array = np.array([[np.nan, np.inf, -np.inf, 0.5]])
        assert checked(np.nan_to_num(array, nan=0, posinf=1, neginf=0)).tolist() == [[[0, 1, 0, 0.5]]]

    @pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 4, 3), (4, 4, 0)])
    def test_an_empty_array_is_refused(self, shape):
        with pytest.raises(ValueError, match=r"at least 1 pixel, got shape .*; check how it was cut"):
            checked(np.zeros(shape, np.uint8))

    def test_too_many_channels_are_refused(self):
        with pytest.raises(ValueError, match=r"1 to 64 channels, got \(C, H, W\) = \(100, 3, 90\); .*channel_axis"):
            checked(np.zeros((3, 90, 100), np.uint8), channel_axis=-1)

    def test_a_batch_of_arrays_is_refused(self):
        with pytest.raises(ValueError, match=r"got shape \(2, 6, 8, 3\); pass a batch as a tensor \(B, C, H, W\)"):
            checked(np.zeros((2, 6, 8, 3), np.uint8))

    @pytest.mark.parametrize("shape", [(), (5,), (1, 1, 1, 1, 1)])
    def test_other_dimensions_are_refused(self, shape):
        with pytest.raises(ValueError, match=r"must be \(H, W\) or \(H, W, C\), got shape .*; reshape it"):
            checked(np.zeros(shape, np.uint8))

    def test_a_channel_axis_must_fit_the_array(self):
        with pytest.raises(ValueError, match=r"channel_axis=None means a grey .*; pass the axis"):
            checked(COLOURS, channel_axis=None)
        with pytest.raises(ValueError, match=r"channel_axis=0 needs a 3-D array.*; pass None for grey"):
            checked(COLOURS[..., 0], channel_axis=0)
        with pytest.raises(ValueError, match=r"one of -3..2 for a 3-D array, got 3; -1 is the last axis"):
            checked(COLOURS, channel_axis=3)

    @pytest.mark.parametrize("thing", [[[1, 2]], 7, None, io.StringIO("abc")])
    def test_what_is_no_image_is_refused(self, thing):
        with pytest.raises(TypeError, match=r"a path, bytes, a PIL image, an array or a tensor, got \w+; try"):
            checked(thing)


class TestTensors:
    @pytest.mark.parametrize("shape", [(3, 6, 8), (2, 3, 6, 8), (1, 1, 1), (64, 2, 2)])
    def test_uint8_is_taken_as_it_is(self, shape):
        image = torch.randint(0, 256, shape, dtype=torch.uint8)
        assert torch.equal(checked(image), image)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_floats_become_float32(self, dtype):
        image = checked(torch.tensor([[[0, 0.25, 1]]], dtype=dtype))
        assert image.dtype == torch.float32
        assert image.tolist() == [[[0, 0.25, 1]]]

    def test_the_result_is_contiguous(self):
        assert checked(torch.zeros(6, 8, 3).permute(2, 0, 1)).is_contiguous()

    def test_the_device_is_kept(self):
        image = torch.zeros(3, 2, 2, dtype=torch.uint8, device="meta")
        assert checked(image).device.type == "meta"

    def test_the_gradient_ends_here(self):
        image = torch.rand(3, 2, 2, requires_grad=True)
        assert not checked(image).requires_grad
        assert image.requires_grad

    @pytest.mark.parametrize(
        ("image", "message"),
        [
            (torch.zeros(6, 8), r"got \(H, W\) = \(6, 8\); pass image\[None\]"),
            (torch.zeros(8), r"\(C, H, W\) or \(B, C, H, W\), got shape \(8,\); reshape it"),
            (torch.zeros(1, 1, 1, 6, 8), r"got shape \(1, 1, 1, 6, 8\); reshape it"),
            (torch.zeros(100, 90, 3), r"got shape \(100, 90, 3\); pass permute\(2, 0, 1\)"),
            (torch.zeros(2, 100, 90, 3), r"got shape \(2, 100, 90, 3\); pass permute\(0, 3, 1, 2\)"),
            (torch.zeros(65, 2, 2), r"1 to 64 channels, got \(C, H, W\) = \(65, 2, 2\); .*permute"),
            (torch.zeros(0, 3, 2, 2), r"at least 1 pixel, got shape \(0, 3, 2, 2\)"),
            (torch.zeros(3, 0, 2), r"at least 1 pixel, got shape \(3, 0, 2\)"),
            (torch.zeros(3, 2, 2, dtype=torch.int64), r"got int64 from 0 to 0; pass window"),
            (
                torch.zeros(3, 2, 2, dtype=torch.complex64),
                r"must be whole or real numbers, got complex64; cast the image to float32",
            ),
            (torch.full((3, 2, 2), 255.0), r"divide by 255 if"),
            (torch.full((1, 2, 2), -2.0), r"got -2 to -2; undo its normalisation \(image \* std \+ mean\)"),
            (torch.full((2, 3, 2, 2), torch.nan), r"NaN or Inf in 8 of 8 pixels"),
            (torch.full((1, 2, 2), torch.inf, dtype=torch.float16), r"NaN or Inf in 4 of 4 pixels"),
        ],
    )
    def test_what_is_no_image_is_refused(self, image, message):
        with pytest.raises(ValueError, match=message):
            checked(image)


class TestMasks:
    def test_no_mask_stays_no_mask(self):
        assert checked_mask(None, (2, 3)) is None

    @pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", ">u2", "i4", "u4", "i8", "u8"])
    def test_non_zero_is_inside(self, dtype):
        values = np.array([[0, 1, 0], [1, 1, 0]], dtype)
        mask = checked_mask(values, (2, 3))
        assert mask.dtype == torch.bool
        assert mask.tolist() == [[False, True, False], [True, True, False]]

    @pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.uint16, torch.int32, torch.int64])
    def test_a_tensor_is_a_mask_too(self, dtype):
        mask = checked_mask(torch.tensor([[0, 2], [3, 0]]).to(dtype).T, (2, 2))
        assert mask.is_contiguous()
        assert mask.tolist() == [[False, True], [True, False]]

    def test_negative_numbers_are_inside(self):
        assert checked_mask(np.array([[-1, 0]]), (1, 2)).tolist() == [[True, False]]

    @pytest.mark.parametrize("mode", ["L", "1", "RGB", "P"])
    def test_a_file_is_inside_where_it_is_not_black(self, tmp_path, mode):
        image = PIL.Image.fromarray(np.array([[0, 255, 0]], np.uint8)).convert(mode)
        mask = checked_mask(saved(tmp_path / "mask.png", image), (1, 3))
        assert mask.tolist() == [[False, True, False]]

    def test_a_16_bit_file_is_a_mask_too(self, tmp_path):
        path = saved(tmp_path / "mask.png", PIL.Image.fromarray(DEEP))
        assert checked_mask(path, (2, 4)).tolist() == [[False, True, True, True], [True] * 4]

    def test_transparent_is_outside(self):
        pixels = np.array([[[255, 255, 255, 0], [255, 255, 255, 255]]], np.uint8)
        assert checked_mask(PIL.Image.fromarray(pixels), (1, 2)).tolist() == [[False, True]]

    @pytest.mark.parametrize("mask", [np.ones((3, 2), bool), torch.ones(1, 2, 3, dtype=torch.bool)])
    def test_the_shape_must_be_that_of_the_image(self, mask):
        with pytest.raises(ValueError, match=r"height and width, \(2, 3\), got \(.*\); crop, resize or transpose it"):
            checked_mask(mask, (2, 3))

    @pytest.mark.parametrize("mask", [np.ones((2, 3)), torch.ones(2, 3), PIL.Image.new("F", (3, 2), 1.0)])
    def test_a_float_mask_is_refused(self, mask):
        with pytest.raises(ValueError, match=r"bool or integer, got float\d+; pass mask > 0.5"):
            checked_mask(mask, (2, 3))

    def test_an_empty_mask_is_refused(self):
        with pytest.raises(ValueError, match="at least 1 pixel inside, got none of 6; pass mask=None for all"):
            checked_mask(np.zeros((2, 3), bool), (2, 3))

    def test_a_missing_mask_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="does not exist; check the path"):
            checked_mask(Path(tmp_path / "no.png"), (2, 3))


def test_arrays_and_tensors_need_no_pillow():
    assert "PIL" not in loaded_after("an array")
