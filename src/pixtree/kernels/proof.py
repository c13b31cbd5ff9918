"""Whether trees may be made on a GPU: only where a test on that very device gives what the CPU gives, to the bit.

Nothing of this library was ever run on a GPU by its authors, so a device has to prove itself, once per machine.
"""

import hashlib
import json
import re
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from pixtree.files import replacing
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.criterion import Penalty, Scoring
from pixtree.messages import warn_once
from pixtree.runtime import backend

# Older ones flush subnormal numbers in divisions and roots.
OLDEST = {"cuda": (3, 6), "hip": (3, 7, 1)}
SIDE, FEATURES, REGIONS = 40, 2, 25
CRITERION = Scoring(Penalty.AICC, 0.1, 0.5, True)
CHOICES = (Choice(CRITERION, 10.0, at_most=REGIONS), Choice(CRITERION, 10.0, True))
PACKAGE = Path(__file__).parents[1]


def cutting(name: str, device: torch.device, unable: str | None = None) -> str:
    """The backend that cuts tensors on `device`: "auto" is the device's own where that has proved itself.

    unable: why the device cannot make this cut, if it cannot; a notice names the reason.
    """
    own = backend.of_cuts(device) if name == "auto" else None
    if own is None:
        return name
    if unable is not None:
        warn_once(f"this cut is made on the host, not on {device}: {unable}; see docs/gpu.md")
        return name
    return own if holds(device) else name


@cache
def holds(device: torch.device) -> bool:
    """Whether trees are made on this device; where not, the first call says why."""
    fault = why_not(device)
    if fault is not None:
        warn_once(f"trees are built on the host, not on {device}: {fault}; see docs/gpu.md")
    return fault is None


# Compilers call it instead of tracing the test of a device.
holds._dynamo_marked_constant = True  # type: ignore[attr-defined]


def why_not(device: torch.device) -> str | None:
    """Why trees are not made on a device, None if they are; the outcome of a test is kept on disk."""
    fault = triton_fault()
    if fault is not None:
        return fault
    name = name_of(device)
    kept = _kept()
    if kept.get(name) == "equal":
        return None
    try:
        differing = differences(device)
    except Exception as error:  # whatever stops a device is the finding
        return f"its self-test ended with {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if differing:
        return f"its self-test gave other {', '.join(differing)} than the CPU"
    _keep({**kept, name: "equal"})
    return None


def triton_fault() -> str | None:
    """What is wrong with the installed Triton, if anything."""
    try:
        found = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return "Triton is not installed; builds of torch for GPUs bring it"
    oldest = OLDEST["hip" if torch.version.hip else "cuda"]
    if tuple(int(number) for number in re.findall(r"\d+", found)[:3]) < oldest:
        return f"Triton {found} is older than {'.'.join(map(str, oldest))}, from which on it rounds exactly; install a newer torch"
    return None


def name_of(device: torch.device) -> str:
    """What the outcome of a test holds for: the device, its driver, Triton, torch, and our kernels."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "triton" in path.with_suffix("").parts or path.parent.name == "runtime":
            digest.update(path.read_bytes())
    versions = (metadata.version("triton"), torch.__version__, torch.version.cuda, torch.version.hip, digest.hexdigest()[:16])
    return " ".join(map(str, (*backend.identity(device), *versions)))


def cases() -> list[tuple[Tensor, Tensor, float]]:
    """Images (B, 3, H, W), features (B, 2, H·W), and what a pixel of distance counts.

    Noise, many ties, a long chain, smooth areas, and flat shapes, which are flat where positions do not count; bytes and floats.
    """
    seeded, y, x = torch.Generator().manual_seed(0), *torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    noise = torch.randint(0, 256, (3, SIDE, SIDE), generator=seeded, dtype=torch.uint8)
    snake = torch.where(y % 2 == 0, x, SIDE - 1 - x) + y * SIDE  # a ramp that turns at every end
    ramp = ((snake.to(torch.float32) / SIDE**2) ** 2 * 255).to(torch.uint8).expand(3, -1, -1)
    smooth = torch.stack((x * 5 + y, y * 6, (x * y) // 7)).to(torch.uint8)
    flat = torch.where((x > SIDE // 2) ^ (3 * y > SIDE), 200, 30).masked_fill_(x == SIDE // 2, 110)
    shapes = flat.to(torch.uint8).expand(3, -1, -1)
    images = torch.stack((noise, noise // 86 * 86, ramp, smooth, shapes))
    features = torch.randn((len(images), FEATURES, SIDE * SIDE), generator=seeded)
    features[4] = 0.0  # or flat shapes would not be flat
    features[2:4] = (snake.flatten() / 97.0) ** 1.5
    return [(images, features, 1.0), (images.flip(0) / 255.0, features.flip(0), 0.0)]


def differences(device: torch.device) -> list[str]:
    """Which of labels, planes, levels and cuts by criteria the device gives otherwise than the CPU."""
    found: list[str] = []
    for images, features, unit in cases():
        arguments = (2.0, REGIONS, True, unit, MergeRule(), True)
        expected = kernels_for("numba").cut_batch(images, features, *arguments)
        moved = kernels_for("triton", device).cut_batch(images.to(device), features.to(device), *arguments)
        equal = {
            "labels": torch.equal(moved.labels.cpu(), expected.labels),
            "planes": torch.equal(moved.fixed.cpu(), expected.fixed),
            "levels": all(map(same_levels, moved.levels.cpu(), expected.levels)),
        }
        for number, choice in enumerate(CHOICES):
            wanted = (2.0, choice, True, unit, MergeRule(), False)
            chosen = kernels_for("triton", device).choose_batch(images.to(device), features.to(device), *wanted)
            equal[f"cuts by rule {number}"] = torch.equal(
                chosen.labels.cpu(), kernels_for("numba").choose_batch(images, features, *wanted).labels
            )
        found += [name for name, same in equal.items() if not same and name not in found]
    return found


def same_levels(a: Tensor, b: Tensor) -> bool:
    """Whether two levels (4, L), see `ExactCut`, are equal as far as they go; what comes after is zero in the first."""
    offset = a[3]
    last = int(offset.argmax())
    picks, starts = int(offset[last - 1]), int(offset[last] - offset[1]) + last - 1
    parts = (slice(3, 4), slice(last + 1)), (slice(2), slice(picks)), (slice(2, 3), slice(starts))
    return all(torch.equal(a[part], b[part]) for part in parts)


def _file() -> Path | None:
    from pixtree.runtime.machine_code import folder_fault  # numba, which `import pixtree` does not need

    folder = folder_fault()[0]
    return None if folder is None else Path(folder).parent / "pixtree_devices.json"


def _kept() -> dict[str, str]:
    path = _file()
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):  # no test before, or a damaged file: test again
        return {}
    return found if isinstance(found, dict) else {}


def _keep(outcomes: dict[str, str]) -> None:
    path = _file()
    if path is None:
        return
    with suppress(OSError), replacing(path) as temporary:  # not kept: the next process tests again
        temporary.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
