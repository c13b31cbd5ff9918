"""Names of `pixtree.tasks` and `pixtree.batch` that users import, and what importing them costs."""

import pytest
from fresh_process import loaded_after

import pixtree.batch
import pixtree.tasks


def test_every_public_name_is_there():
    assert [name for module in (pixtree.tasks, pixtree.batch) for name in module.__all__ if not hasattr(module, name)] == []
    with pytest.raises(AttributeError, match=r"pixtree.tasks has no 'paint'; it has Affinity, correspondence"):
        _ = pixtree.tasks.paint


@pytest.mark.parametrize(("module", "late"), [("pixtree.tasks", ("timm", "PIL")), ("pixtree.batch", ("timm", "ray", "pyarrow"))])
def test_heavy_libraries_are_imported_late(module, late):
    assert loaded_after(module).isdisjoint(late)
