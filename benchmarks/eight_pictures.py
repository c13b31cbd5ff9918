"""Eight pictures that stand for what people trace: four that are generated here, and four made of scikit-image's photos."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LARGE = 4  # generated pictures are drawn so many times as large, and reduced by area

LOGO_BLUE, LOGO_ORANGE = (20, 60, 140), (245, 130, 30)


def reduced(image: Image.Image) -> np.ndarray:
    """The image at its size, anti-aliased."""
    return np.asarray(image.resize((image.width // LARGE, image.height // LARGE), Image.Resampling.BOX))


def canvas(width: int, height: int, colour: object = "white", mode: str = "RGB") -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new(mode, (width * LARGE, height * LARGE), colour)  # type: ignore[arg-type]
    return image, ImageDraw.Draw(image)


def scaled(*values: float) -> tuple[int, ...]:
    return tuple(round(value * LARGE) for value in values)


def logo() -> np.ndarray:
    """A ring, a leaf of two colours and a word."""
    image, draw = canvas(240, 160)
    draw.ellipse(scaled(20, 20, 120, 120), fill=LOGO_BLUE)
    draw.ellipse(scaled(38, 38, 102, 102), fill="white")
    draw.polygon([scaled(70, 30), scaled(125, 70), scaled(70, 110)], fill=LOGO_ORANGE)
    draw.rounded_rectangle(scaled(20, 132, 120, 146), LARGE * 7, fill=LOGO_BLUE)
    draw.text(scaled(132, 48), "tree", LOGO_BLUE, ImageFont.load_default(46 * LARGE))
    return reduced(image)


def line_art() -> np.ndarray:
    """A house in thin lines."""
    image, draw = canvas(220, 180)
    width = round(2.2 * LARGE)
    for line in (
        [(30, 90), (110, 25), (190, 90)],
        [(45, 80), (45, 160), (175, 160), (175, 80)],
        [(95, 160), (95, 115), (125, 115), (125, 160)],
    ):
        draw.line([scaled(*point) for point in line], "black", width, joint="curve")
    draw.ellipse(scaled(60, 95, 84, 119), outline="black", width=width)
    draw.ellipse(scaled(136, 95, 160, 119), outline="black", width=width)
    draw.arc(scaled(5, 140, 215, 210), 180, 360, "black", width)
    return reduced(image)


def screenshot() -> np.ndarray:
    """A window with a bar, buttons and text at its own size."""
    image = Image.new("RGB", (360, 240), (240, 240, 242))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, 359, 27), fill=(52, 58, 70))
    for number, colour in enumerate([(237, 106, 94), (245, 191, 79), (98, 197, 84)]):
        draw.ellipse((10 + 20 * number, 8, 22 + 20 * number, 20), fill=colour)
    draw.rectangle((0, 28, 95, 239), fill=(225, 228, 232))
    for row, words in enumerate(["Inbox", "Drafts", "Sent", "Archive"]):
        draw.text((12, 40 + 24 * row), words, (40, 44, 52), ImageFont.load_default(13))
    draw.rectangle((108, 40, 347, 196), fill="white", outline=(200, 204, 210))
    for row, words in enumerate(
        ["Images as trees of regions:", "exact cuts, tokens for any ViT,", "and drawings that open", "in every program."]
    ):
        draw.text((118, 52 + 22 * row), words, "black", ImageFont.load_default(14))
    draw.rounded_rectangle((268, 206, 347, 230), 5, fill=(38, 110, 220))
    draw.text((290, 209), "Send", "white", ImageFont.load_default(14))
    return np.asarray(image)


def app_icon() -> np.ndarray:
    """A rounded square with a shadow around it and a sign on it, on nothing (RGBA)."""
    from PIL import ImageFilter

    image, draw = canvas(160, 160, (0, 0, 0, 0), "RGBA")
    draw.rounded_rectangle(scaled(16, 20, 144, 148), 28 * LARGE, fill=(0, 0, 0, 110))
    image = image.filter(ImageFilter.GaussianBlur(4 * LARGE))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle(scaled(16, 14, 144, 142), 28 * LARGE, fill=(94, 60, 190, 255))
    draw.ellipse(scaled(46, 44, 114, 112), fill=(255, 255, 255, 255))
    draw.polygon([scaled(70, 60), scaled(98, 78), scaled(70, 96)], fill=(94, 60, 190, 255))
    return reduced(image)


def photo(name: str, size: tuple[int, int] = (256, 256)) -> np.ndarray:
    """One of scikit-image's photos at another size."""
    from skimage import data

    return np.asarray(Image.fromarray(getattr(data, name)()).resize(size, Image.Resampling.LANCZOS))


# Name -> picture and the options with which it is traced.
PICTURES = {
    "logo": (logo, {}),
    "line art": (line_art, {}),
    "screenshot": (screenshot, {}),
    "app icon with alpha": (app_icon, {}),
    "photo: astronaut": (lambda: photo("astronaut"), {"paths": 1000}),
    "photo: coffee": (lambda: photo("coffee", (300, 200)), {"paths": 1000}),
    "poster: chelsea": (lambda: photo("chelsea", (300, 200)), {"preset": "poster"}),
    "sketch: rocket": (lambda: photo("rocket", (320, 214)), {"preset": "sketch"}),
}
