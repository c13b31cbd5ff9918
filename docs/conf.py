"""Configuration of the documentation site; `make docs` builds it into `out/site`."""

import re
from importlib.metadata import version as installed

from sphinx.application import Sphinx

from pixtree.trees import TreeOptions

project = "pixtree"
author = "The pixtree developers"
project_copyright = "the pixtree developers, MIT licence"
version = release = installed("pixtree")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # signatures refer to types of other packages, whose pages are not available offline

default_role = "code"  # docstrings are written as Markdown: single backticks are code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_default_options = {"exclude-members": "__init__, __new__, __repr__"}
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = "pixtree"
html_show_sphinx = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0a7d5a", "color-brand-content": "#0a7d5a"},
    "dark_css_variables": {"color-brand-primary": "#4cc79e", "color-brand-content": "#4cc79e"},
}
pygments_style, pygments_dark_style = "tango", "monokai"

PARAMETER = re.compile(r"([a-z_]+(?:, [a-z_]+)*): ")


def list_parameters(app: object, what: str, name: str, described: object, options: object, lines: list[str]) -> None:
    """Write the lines `name: meaning` of a docstring as a list, which reStructuredText would run together."""
    written: list[str] = []
    inside = False
    for line in lines:
        found = PARAMETER.match(line)
        if found and not inside:
            written.append("")
        inside = bool(found) or (inside and bool(line.strip()))
        written.append(f"- **{found[1]}**: {line[found.end() :]}" if found else f"  {line.strip()}" if inside else line)
    lines[:] = written


# Shorter signatures: aliases instead of what they stand for, values of defaults, no catch-all for unknown keywords.
ARRAY = r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[~(?:typing|numpy)\.(\w+)\]\]"
SHORTER = (
    (ARRAY, r"~numpy.ndarray[\1]"),
    (r"ndarray\[(?:Any|generic)\]", "ndarray"),
    (r"str \| ~pathlib\.Path \| PIL\.Image\.Image \| ~numpy\.ndarray \| ~torch\.Tensor", "Image"),
    (r", \*\*words: ~typing\.Never", ""),
    (r"_DEFAULTS\.similarity", "'likelihood'"),
)


def shorten_signature(
    app: object, what: str, name: str, described: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten a signature without changing its meaning."""
    return _shorter(signature), _shorter(returned)


def _shorter(text: str | None) -> str | None:
    if text is None:
        return None
    for pattern, replacement in SHORTER:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"_DEFAULTS\.(\w+)", lambda found: repr(getattr(TreeOptions(), found[1])), text)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", list_parameters)
