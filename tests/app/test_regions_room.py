"""The Regions room, used as a person would, in Chromium."""

import numpy as np
import pytest
from browsing import DESKTOP, idle, open_example, screenshot, until, visit
from PIL import Image
from renderers import needs

import pixtree
from pixtree.app.limits import Limits
from pixtree.app.page import example
from pixtree.app.uploads import decoded

pytestmark = needs("chromium")
ASTRONAUT = "astronaut"


@pytest.fixture(scope="module")
def picture():
    return decoded(example(ASTRONAUT, 1024), Limits())


@pytest.fixture(scope="module")
def opened(browser, address):
    """The page with a photo, and the labels (H, W) of its finest regions, which are many for a message from the page."""
    with visit(browser, address) as page:
        open_example(page)
        shape = page.evaluate("[pixtree.app.tree.height, pixtree.app.tree.width]")
        yield page, np.array(page.evaluate("pixtree.app.tree.labels.join()").split(","), int).reshape(shape)


@pytest.mark.parametrize("count", [1, 2, 200, 4096])
def test_the_page_cuts_as_the_library_does(opened, picture, count):
    page, labels = opened
    nodes = np.array(page.evaluate(f"[...pixtree.rooms.regions.regionTable({count})]"))  # the page's own code finds them
    assert (pixtree.Partition.from_labels(nodes[labels]).numpy() == pixtree.segment(picture, tokens=count)).all()


@pytest.mark.parametrize("renderer", ["webgl2", "canvas"])
def test_the_slider_draws_every_cut_without_a_request(browser, address, picture, renderer, tmp_path):
    with visit(browser, address, path=f"/?renderer={renderer}") as page:
        open_example(page)
        assert page.evaluate("pixtree.app.stage.renderer.kind") == renderer
        idle(page)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.click("#fill [data-value=mean]")
        page.uncheck("#lines")
        for count in (2, 40, 1500):
            page.fill("#count", str(count))
            page.keyboard.press("Enter")
            idle(page)
            assert mean_error(page, picture, count, tmp_path) < 4
        page.focus("#slider")
        before = page.input_value("#count")
        page.keyboard.press("ArrowRight")
        assert page.input_value("#count") != before
        page.keyboard.press("Home")
        assert (page.input_value("#count"), page.inner_text("#count-unit")) == ("1", "region")
        page.keyboard.press("End")
        assert page.input_value("#count") == "4,096"
        assert asked == []


def mean_error(page, picture, count, folder):
    """Mean absolute difference of the stage and the library's mean colours, both at the size of the picture."""
    from pixtree.exports.pictures import mean_colours

    page.screenshot(path=folder / "stage.png")
    view = page.evaluate("(({x, y, scale}) => [x, y, scale])(pixtree.app.stage.view)")
    box = page.locator("#stage").bounding_box()
    shown = Image.open(folder / "stage.png").convert("RGB")
    height, width = picture.shape[:2]
    left, top = box["x"] + view[0], box["y"] + view[1]
    part = (left, top, left + width * view[2], top + height * view[2])
    shown = np.asarray(shown.resize((width, height), Image.Resampling.NEAREST, part))
    return np.abs(shown.astype(int) - mean_colours(picture, pixtree.segment(picture, tokens=count))).mean()


def at(page, x, y):
    """Column and row of the picture under a point of the page."""
    box = page.locator("#stage").bounding_box()
    return page.evaluate(f"pixtree.app.stage.view.toPicture({x - box['x']}, {y - box['y']})")


def test_pointing_at_a_region_shows_its_numbers_and_a_click_its_branch(browser, address, picture):
    with visit(browser, address) as page:
        open_example(page)
        page.mouse.move(480, 420)
        until(page, "document.querySelectorAll('#region dd').length === 5")
        column, row = at(page, 480, 420)
        labels = pixtree.segment(picture, tokens=200)
        area = int((labels == labels[row, column]).sum())
        assert page.inner_text("#region dd").startswith(f"{area:,} px")
        page.mouse.click(480, 420)
        until(page, "document.querySelectorAll('#branch button').length > 4")
        page.locator("#branch button").last.click()  # the whole photo
        assert page.input_value("#count") == "1"
        assert page.locator("#branch button").last.get_attribute("aria-current") == "true"


def test_levels_and_criteria_come_from_the_server(browser, address, picture):
    with visit(browser, address) as page:
        open_example(page)
        page.click("#cut-by [data-value=criterion]")
        page.click("#criterion [data-value=bic]")
        wanted = int(pixtree.segment(picture, criterion="bic").max()) + 1
        until(page, f"document.getElementById('count').value === '{wanted:,}'")
        page.click("#cut-by [data-value=level]")
        tree = pixtree.hierarchy(picture)
        level = int(page.input_value("#level"))
        until(page, f"document.getElementById('count').value === '{int(tree.at_level(level).counts[0]):,}'")
        page.focus("#level")
        page.keyboard.press("ArrowRight")
        until(page, f"document.getElementById('count').value === '{int(tree.at_level(level + 1).counts[0]):,}'")
        page.click("#cut-by [data-value=count]")
        assert page.input_value("#count") == "200"


def test_regions_are_taken_away_as_files(browser, address, picture):
    with visit(browser, address) as page:
        open_example(page)
        page.fill("#count", "25")
        page.keyboard.press("Enter")
        for format, name in (("png", "labels.png"), ("geojson", "regions.geojson"), ("coco", "regions.coco.json")):
            with page.expect_download() as waited:
                page.click(f"#get-{format}")
            assert waited.value.suggested_filename == name
            if format == "png":
                assert (np.asarray(Image.open(waited.value.path())) == pixtree.segment(picture, tokens=25)).all()
        idle(page)


def test_the_wheel_and_keys_zoom_and_a_drag_pans(browser, address):
    with visit(browser, address) as page:
        open_example(page)
        fitted = page.evaluate("pixtree.app.stage.view.scale")
        page.mouse.move(500, 400)
        page.mouse.wheel(0, -600)
        until(page, f"pixtree.app.stage.view.scale > {1.5 * fitted}")
        before = page.evaluate("pixtree.app.stage.view.x")
        page.mouse.down()
        page.mouse.move(560, 430, steps=4)
        page.mouse.up()
        assert page.evaluate("pixtree.app.stage.view.x") == pytest.approx(before + 60, abs=1)
        page.focus("#stage")
        page.keyboard.press("0")
        assert page.evaluate("pixtree.app.stage.view.scale") == pytest.approx(fitted)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        until(page, "document.querySelectorAll('#branch button').length > 2")


def test_a_forgotten_photo_is_sent_again(browser):
    from running import running

    with running(Limits(session_bytes=1)) as port, visit(browser, port, errors=["410"]) as page:
        open_example(page)
        with visit(browser, port) as other:
            open_example(other, "coffee")
        page.click("#cut-by [data-value=criterion]")
        until(page, "pixtree.rooms.regions.state.other !== null")
        assert page.locator("#notice").is_hidden()


def test_the_room_looks_as_in_the_docs(browser, address, tmp_path):
    with visit(browser, address, viewport=DESKTOP) as page:
        open_example(page)
        page.mouse.click(520, 330)
        idle(page)
        screenshot(page, "regions", tmp_path)
