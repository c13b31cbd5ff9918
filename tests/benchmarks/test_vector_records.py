"""Records of drawings on the page of results: leads over another program, and bars that were met or not."""

import json

from evidence.report import render

HEAD = {
    "command": "python benchmarks/vectors.py others",
    "date": "2024-05-06",
    "machine": {"cpu": "Some CPU", "cores": 2, "platform": "Linux"},
}
ROW = {"setting": "polygon", "bytes": 1000.0, "own_bytes": 990.0, "vtracer": 25.0, "pixtree": 30.5, "lead": 5.5}
BARS = [
    {"what": "Mean lead", "wanted": "≥ 4", "found": 5.5, "met": "yes"},
    {"what": "Least lead", "wanted": "≥ 6", "found": 5.5, "met": "no"},
]


def page_of(tmp_path, **record):
    (tmp_path / "a.json").write_text(json.dumps({**HEAD, **record}))
    return render(tmp_path)[0]


def test_leads_are_shown_per_setting_and_per_photo(tmp_path):
    content = {"settings": [{"photos": 3, **ROW}], "rows": [{"image": "cat.jpg", **ROW}], "notes": ["Equal bytes."]}
    page = page_of(tmp_path, benchmark="vectors_others", title="Others", **content)
    assert "| polygon | 3 | 1,000 | 990 | 25.00 | 30.50 | 5.50 |" in page
    assert "| cat.jpg | polygon | 1,000 | 990 | 25.00 | 30.50 | 5.50 |" in page
    assert "Equal bytes." in page


def test_bars_end_a_section_and_say_what_was_missed(tmp_path):
    page = page_of(tmp_path, benchmark="table", title="Bars", columns=[["a", "A", ""]], rows=[{"a": 1}], bars=BARS)
    assert page.endswith("| Mean lead | ≥ 4 | 5.5 | yes |\n| Least lead | ≥ 6 | 5.5 | no |\n")


def test_figures_that_others_printed_are_quoted_as_such(tmp_path):
    row = {"method": "pixtree", "paths": 5.0, "bytes": 100.0, "psnr": 30.0, "psnr_of_mean": 29.0, "mse": 0.001, "ssim": 0.9}
    printed = [{"method": "DiffVG", "mse": 0.00265, "psnr": 26.22, "ssim": 0.8494}]
    page = page_of(tmp_path, benchmark="vectors", title="Drawings", rows=[row], printed=printed, notes=["Not ours."])
    assert page.index("| pixtree |") < page.index("As printed in the paper:") < page.index("| DiffVG | 0.00265 | 26.22 | 0.8494 |")
    assert "Not ours." in page
