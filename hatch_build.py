"""The build of wheels: a pure one by default; with PIXTREE_MACHINE_CODE=FOLDER one for this Python and platform, with machine code.

The folder is made by `pixtree warmup --ship FOLDER`; `make wheel` runs both builds.
"""

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "pixtree/runtime/shipped_code"


def platform_tag() -> str:
    """The tag of a wheel for this Python and platform.

    Machine code is no shared library: it is linked by the numba of the build only, whose own wheel names the system that it needs.
    """
    if sys.platform != "linux":
        raise ValueError(f"wheels with machine code are built on Linux, got {sys.platform}; build the pure wheel only")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}{sys.abiflags}-manylinux_2_17_{platform.machine()}"


class MachineCodeHook(BuildHookInterface):
    """Adds machine code to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Change the tag and the files of the wheel, if there is machine code for it."""
        folder = os.environ.get("PIXTREE_MACHINE_CODE")
        if folder is None or version == "editable":
            return
        if not Path(folder, "manifest.json").is_file():
            raise ValueError(f"expected machine code in {folder}, found no manifest.json; run pixtree warmup --ship {folder}")
        build_data["pure_python"] = False
        build_data["tag"] = platform_tag()
        build_data["force_include"][str(Path(folder).resolve())] = PLACE
