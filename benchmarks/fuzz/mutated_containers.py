"""Mutated tar shards, parquet files, tree files and batch manifests, and what becomes of each; as `mutated_files` for images."""

import io
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from mutated_files import MUTATIONS, with_right_sums

FORMATS = {"tar": ".tar", "parquet": ".parquet", "tree": ".npz", "manifest": ".bin"}
MOST_BYTES = 1 << 26  # the guard against files that unpack to much, set as --max-bytes does
IMAGES = [(f"{name}.png", (name * 40).encode()) for name in ("a", "folder/b", "c", "a long name " * 12)]
# Files of a finished run, which a mutated manifest replaces in turn.
OWN = ("manifest/plan.json", "manifest/manifest.jsonl", "manifest/parts/part-0.jsonl", "manifest/parts/part-0.json")


def originals() -> list[tuple[str, bytes]]:
    """Whole files, with their formats. A manifest begins with the number of the file that it stands for."""
    return [*(("tar", data) for data in _tars()), *(("parquet", data) for data in _tables()), *_trees(), *_manifests()]


def _tars() -> list[bytes]:
    files = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
            for name, data in IMAGES[: 3 if form == tarfile.USTAR_FORMAT else 4]:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        files.append(stream.getvalue())
    return files


def _tables() -> list[bytes]:
    import pyarrow
    import pyarrow.parquet

    rows = [{"image": {"bytes": data, "path": name}, "label": 1} for name, data in IMAGES * 3]
    flat = [{"jpg": data, "__key__": name} for name, data in IMAGES * 3]
    files = []
    for table in (pyarrow.Table.from_pylist(rows), pyarrow.Table.from_pylist(flat)):
        for words in ({}, {"compression": "zstd", "use_dictionary": False}, {"compression": "none", "data_page_version": "2.0"}):
            stream = io.BytesIO()
            pyarrow.parquet.write_table(table, stream, row_group_size=5, **words)  # type: ignore[arg-type]
            files.append(stream.getvalue())
    return files


def _trees() -> list[tuple[str, bytes]]:
    import tempfile

    import pixtree

    image = np.kron(np.arange(12, dtype=np.uint8).reshape(3, 4) * 20, np.ones((2, 2), np.uint8))
    mask = np.ones(image.shape, bool)
    mask[2:4, :3] = False
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for words in ({}, {"mask": mask}):
            pixtree.hierarchy(image, backend="torch", **words).save(Path(folder) / "tree.npz")
            files.append(("tree", (Path(folder) / "tree.npz").read_bytes()))
    return files


def _stub(image: Any) -> Any:
    from pixtree.batch.work import Made

    return Made({".txt": sha256(image.read()).hexdigest().encode()}, {})


def _run(home: Path) -> Any:
    """A run over three images whose task computes nothing."""
    from unittest.mock import patch

    from pixtree.batch import run, work

    with patch.dict(work.TASKS, {"stub": ({}, _stub)}):
        return run("stub", home / "photos", home / "made", workers=1)


def _finished_run(home: Path) -> None:
    (home / "photos").mkdir(parents=True, exist_ok=True)
    for name in ("a", "b", "c"):
        (home / "photos" / f"{name}.png").write_bytes(name.encode())
    _run(home)


def _manifests() -> list[tuple[str, bytes]]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        _finished_run(Path(folder))
        return [("manifest", bytes([index]) + (Path(folder) / "made" / name).read_bytes()) for index, name in enumerate(OWN)]


def mutated(files: list[tuple[str, bytes]], seed: int, index: int) -> tuple[str, bytes]:
    """Input number `index` of a run. Most archives have right checksums again, so that changes reach what is behind them."""
    random = np.random.default_rng([seed, index])
    format = list(FORMATS)[int(random.integers(len(FORMATS)))]
    same = [data for kind, data in files if kind == format]
    original, other = (same[int(random.integers(len(same)))] for _ in range(2))
    if format == "tree" and random.random() < 0.6:
        return format, _with_changed_member(original, random)
    head, body = (original[:1], original[1:]) if format == "manifest" else (b"", original)
    changed = _changed(body, random, other)
    return format, head + (_with_right_headers(changed) if format == "tar" and random.random() < 0.7 else changed)


def _changed(content: bytes, random: np.random.Generator, other: bytes) -> bytes:
    file = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        if file:
            file = MUTATIONS[int(random.integers(len(MUTATIONS)))](file, random, other)
    return with_right_sums(bytes(file))


def _with_changed_member(content: bytes, random: np.random.Generator) -> bytes:
    """A zip file with right checksums, one of whose members is mutated."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        chosen = int(random.integers(len(old.namelist())))
        for number, name in enumerate(old.namelist()):
            data = old.read(name)
            new.writestr(name, _changed(data, random, data) if number == chosen else data)
    return stream.getvalue()


def _with_right_headers(content: bytes) -> bytes:
    """A tar file in which every block that may be a header has the right checksum."""
    file = bytearray(content)
    for start in range(0, len(file) - 511, 512):
        if file[start + 257 : start + 262] == b"ustar":
            total = sum(file[start : start + 148]) + 8 * 32 + sum(file[start + 156 : start + 512])
            file[start + 148 : start + 156] = b"%06o\0 " % total
    return bytes(file)


def verdict(path: Path) -> tuple[str, str]:
    """What becomes of a file: "read", "refused" or "crashed", and the reason."""
    try:
        return {".tar": _of_archive, ".parquet": _of_archive, ".npz": _of_tree, ".bin": _of_manifest}[path.suffix](path)
    except ValueError as fault:
        text = str(fault)
        return ("refused", text) if text and "\n" not in text else ("crashed", f"a message of several lines: {text!r}")
    except BaseException as fault:  # whatever it is, no file may raise it
        return "crashed", f"{type(fault).__name__}: {fault}"


def _of_archive(path: Path) -> tuple[str, str]:
    from pixtree.batch.archives import Unreadable, images_of_shard
    from pixtree.batch.parquet import images_of_table

    found = list((images_of_shard if path.suffix == ".tar" else images_of_table)(path))
    reasons = [one.reason for one in found if isinstance(one, Unreadable)]
    if any("\n" in reason or not reason for reason in reasons):
        return "crashed", f"a reason of several lines: {reasons!r}"
    return ("refused", reasons[-1]) if reasons else ("read", "")


def _of_tree(path: Path) -> tuple[str, str]:
    import pixtree

    tree = pixtree.Hierarchy.load(path)
    count = min(3, int(tree.left.numel()) + 1)
    regions = int(tree.cut(count).labels.max()) + 1
    return ("read", "") if regions == count else ("crashed", f"{regions} regions")


def _of_manifest(path: Path) -> tuple[str, str]:
    """Replace a file of a finished run and run again: all images must be done, with the results that they had."""
    # One run for all inputs of a process: it must be whole again after each.
    home, content = path.parent.with_name(f"{path.parent.name}-run"), path.read_bytes()
    if not home.exists():
        _finished_run(home)
    (home / "made" / OWN[content[0]]).write_bytes(content[1:])
    came = _run(home)
    results = {file.name: file.read_bytes() for file in (home / "made").glob("*.txt")}
    wanted = {f"{name}.txt": sha256(name.encode()).hexdigest().encode() for name in ("a", "b", "c")}
    return ("read", "") if came.done == 3 and results == wanted else ("crashed", f"{came}, {results}")
