"""docs/paper.md has a row for every label of the paper, and every row names things that exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LABELS = (Path(__file__).parent / "labels.txt").read_text(encoding="utf-8").split()
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
STATUSES = ("faithful", "differs", "beyond", "not yet", "prose")
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]) == 5
}
NAMED = sorted(set(re.findall(r"`([\w/.]+\.(?:py|json|md))(?:::([\w.]+))?`", PAGE)))


def test_every_label_of_the_paper_has_one_row():
    found = Counter(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE))
    assert {label: found[label] for label in LABELS if found[label] != 1} == {}
    assert set(found) - set(LABELS) == set()
    assert set(ROWS) == set(LABELS)


def faults_of(label: str) -> list[str]:
    """The cells of a row that are empty or too short for its status."""
    _, says, where, status, shown = ROWS[label]
    is_there = status.startswith(("faithful", "beyond", "differs"))
    explains = status.startswith(("differs", "not yet")) and where  # how and why, or what is there instead
    faults = {
        "says nothing": not says,
        "unknown status": not status.startswith(STATUSES),
        "names no place": is_there and not where,
        "shows nothing": is_there and not shown,
        "explains nothing": explains and len(status.split()) <= 3,
    }
    return [fault for fault, is_so in faults.items() if is_so]


def test_a_row_has_a_status_and_what_is_there_is_shown():
    assert {label: faults for label in LABELS if (faults := faults_of(label))} == {}


def test_points_that_rows_refer_to_exist():
    points = {int(number) for number in re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE)}
    referred = {int(one) for group in re.findall(r"points? ([\d, and to]+\d|\d+)", PAGE) for one in re.findall(r"\d+", group)}
    assert points == set(range(1, len(points) + 1))
    assert referred <= points


def test_files_and_names_of_the_page_exist():
    assert len(NAMED) > 50
    lost = []
    for path, name in NAMED:
        file = next((one for one in (ROOT / path, ROOT / "src" / "pixtree" / path) if one.is_file()), None)
        if file is None or (name and name not in defined(file)):
            lost.append("::".join(filter(None, (path, name))))
    assert lost == []


@cache
def defined(file: Path) -> set[str]:
    """Functions, classes, methods and constants at the top of a file; methods as Class.method."""
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{one.name}" for one in getattr(node, "body", []) if isinstance(one, ast.FunctionDef)}
        elif isinstance(node, ast.Assign):
            names |= {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


MEASURED = [label for label in LABELS if label.startswith(("tab:", "fig:"))]


def test_a_table_or_a_figure_has_a_command_and_a_result_or_a_reason_why_not():
    assert len(MEASURED) > 20
    lost, unproven = {}, []
    for label in MEASURED:
        _, _, _, status, shown = ROWS[label]
        scripts = re.findall(r"`(benchmarks/[\w/]+\.py)`", shown)
        records = re.findall(r"`(benchmarks/results/\w+\.json)`", shown)
        commands = re.findall(r"`pixtree ((?:evaluate|train) [\w-]+)`", shown)
        lost[label] = {*(one for one in (*scripts, *records) if not (ROOT / one).is_file()), *commands} - known_commands()
        made = records or [one for one in scripts if one.endswith("_pictures.py")]
        if not made and not re.search(r"\bbecause\b", status):
            unproven.append(label)  # name a committed result, or the reason why there is none
    assert {label: names for label, names in lost.items() if names} == {}
    assert unproven == []


@cache
def known_commands() -> set[str]:
    """Groups and names of the commands that write results."""
    from typer.main import get_command

    from pixtree.cli.main import app

    groups = get_command(app).commands
    return {f"{group} {name}" for group in ("evaluate", "train") for name in groups[group].commands}
