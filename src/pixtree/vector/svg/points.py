"""Points of an SVG text: the coordinate pairs of its path data, which is what an editor shows as nodes and handles."""

import re

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
ARC = re.compile(rf"(?:{NUMBER.pattern}[\s,]*){{3}}[01][\s,]*[01][\s,]*{NUMBER.pattern}[\s,]*{NUMBER.pattern}")
NUMBERS_PER_POINT = {"m": 2, "l": 2, "t": 2, "c": 2, "s": 2, "q": 2, "h": 1, "v": 1}


def points_of(text: str) -> int:
    """Number of coordinate pairs in the `d` attributes of a text; h, v and an arc's end count as one."""
    return sum(points_of_data(data) for data in re.findall(r'\sd="([^"]*)"', text))


def points_of_data(data: str) -> int:
    """Number of coordinate pairs in path data."""
    total = 0
    for command, numbers in re.findall(r"([a-df-zA-DF-Z])([^a-df-zA-DF-Z]*)", data):
        kind = command.lower()
        if kind == "a":  # its flags may stand without a separator
            total += len(ARC.findall(numbers))
        elif kind in NUMBERS_PER_POINT:
            total += len(NUMBER.findall(numbers)) // NUMBERS_PER_POINT[kind]
    return total
