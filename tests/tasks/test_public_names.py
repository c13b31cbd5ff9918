"""Names of `pixtree.tasks` and `pixtree.batch` that users import, and what importing them costs."""

import subprocess
import sys

import pytest

import pixtree.batch
import pixtree.tasks


def test_every_public_name_is_there():
    assert [name for module in (pixtree.tasks, pixtree.batch) for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match=r"pixtree.tasks has no 'paint'; it has Affinity, correspondence"):
        _ = pixtree.tasks.paint


@pytest.mark.parametrize(("module", "late"), [("pixtree.tasks", ("timm", "PIL")), ("pixtree.batch", ("timm", "ray", "pyarrow"))])
def test_heavy_libraries_are_imported_late(module, late):
    program = f"import sys, {module}; sys.exit(', '.join(name for name in {late} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
