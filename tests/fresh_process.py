"""What a new process has loaded after importing one part of pixtree after the other.

One process for all of them, and once for all tests, since torch alone takes seconds to load: what a later part must not load, the
earlier ones must not load either.
"""

import json
import subprocess
import sys
from functools import cache
from typing import Any

PROGRAM = """
import io, json, sys
from contextlib import redirect_stdout

found = {}
def keep(part):
    found[part] = sorted(name for name in sys.modules if "." not in name)

import pixtree
found["version"] = pixtree.__version__
keep("pixtree")
from pixtree.cli.main import app
with redirect_stdout(io.StringIO()) as printed:
    for option in ("--version", "--help"):
        app([option], standalone_mode=False)
found["printed"] = printed.getvalue()
keep("pixtree --help")
import pixtree.runtime.threads  # the first to load torch; that must register the operators, which need this very module
import torch
found["names"] = dir(pixtree)
found["schemas"] = [str(one) for one in torch._C._jit_get_all_schemas() if one.name.startswith("pixtree::")]
import pixtree.kernels.operators
keep("pixtree.kernels.operators")
import numpy
from pixtree.images import checked
checked(numpy.zeros((2, 2), "u1"))
keep("an array")
import pixtree.tasks
keep("pixtree.tasks")
import pixtree.batch
keep("pixtree.batch")
print(json.dumps(found))
"""


@cache
def found() -> dict[str, Any]:
    """By part: the top-level modules that are loaded after it; and the public names, the operators and what the command printed."""
    return json.loads(subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout)


def loaded_after(part: str) -> set[str]:
    """The top-level modules that are loaded after a part."""
    return set(found()[part])
