"""An hour of continuous mixed work, and the memory, files and threads of the two processes that do it.

    python benchmarks/soak.py --minutes 60 -o benchmarks/results/soak.json --plot docs/pictures/soak.png

One process uses the library: trees, cuts, selections, snapped masks, drawings, tokens forward and backward, a retrofitted model and
a corpus. It also sends requests to `pixtree demo`, which runs in a second process on loopback. The work comes in rounds. After
CYCLE rounds the same rounds begin again with the same seeds, so that memory of equal work is compared, and every answer of a
later cycle must equal that of the first, byte by byte. Speed does not matter here: run it with `nice` beside other work.
SIGTERM ends the work after the round, and the record tells of the rounds until then.
"""

import argparse
import gc
import http.client
import io
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from app import megabytes, server
from evidence.records import provenance, write_record
from PIL import Image
from scaling import processor_seconds

import pixtree
from pixtree.batch import run
from pixtree.files import replacing

CYCLE = 8  # rounds, after which the same work comes again
WARM_UP = 600.0  # seconds at least: kernels, torch's and the allocator's caches
FILLED = 5 * CYCLE  # rounds at least: the trees that the server keeps, up to its limit
MOST_GROWTH = 0.02  # of the memory after warming up, over the whole rest of the run
PACKAGES = ("pixtree", "torch", "numpy", "numba", "timm", "fastapi", "uvicorn")
COMMAND = "python benchmarks/soak.py --minutes 60 -o benchmarks/results/soak.json --plot docs/pictures/soak.png"


class Worker:
    """One process's work: every method does one kind on a picture and gives what must be the same in every cycle."""

    def __init__(self, port: int) -> None:
        from skimage import data

        torch.manual_seed(0)
        self.port = port
        self.sources = [data.astronaut(), data.coffee(), data.chelsea(), data.rocket()]
        self.tokenizer = pixtree.Tokenizer.pretrained(pixtree.Exactly(64), width=64, patch=8)
        self.model = pixtree.retrofit("vit_tiny_patch16_224", tokens=64, depth=2, num_classes=10).eval()

    def picture(self, generator: np.random.Generator) -> np.ndarray:
        """A crop (H, W, 3) of 96 to 256 pixels a side."""
        source = self.sources[generator.integers(len(self.sources))]
        height, width = generator.integers(96, 257, 2)
        top, left = (generator.integers(0, side - part + 1) for side, part in zip(source.shape, (height, width), strict=False))
        return np.ascontiguousarray(source[top : top + height, left : left + width])

    def segment(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """Exactly as many regions as are asked for."""
        count = int(generator.integers(2, 1000))
        labels = np.asarray(pixtree.segment(picture, tokens=count, relax=bool(generator.integers(2))))
        if int(labels.max()) + 1 != count:
            raise ValueError(f"expected {count} regions, got {int(labels.max()) + 1}; a cut is wrong after long work")
        return labels.tobytes()

    def tree(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """The tree, three cuts, its contours and its file."""
        tree = pixtree.hierarchy(picture)
        cuts = [tree.cut(tokens=int(generator.integers(2, 500))), tree.cut(criterion="aicc"), tree.at_level(4)]
        with tempfile.TemporaryDirectory() as folder:
            tree.save(Path(folder) / "tree.npz")
            again = pixtree.Hierarchy.load(Path(folder) / "tree.npz")
        vertical, horizontal = tree.contours()
        cuts.append(again.cut(tokens=17))
        return b"".join([*(cut.numpy().tobytes() for cut in cuts), vertical.numpy().tobytes(), horizontal.numpy().tobytes()])

    def select(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """An object from two points, and a rough mask of it made sharp."""
        tree = pixtree.hierarchy(picture)
        rows, columns = generator.integers(0, picture.shape[0], 2), generator.integers(0, picture.shape[1], 2)
        mask = pixtree.select(tree, inside=[(rows[0], columns[0])], outside=[(rows[1], columns[1])])
        rough = np.zeros(picture.shape[:2], bool)
        rough[rows.min() : rows.max() + 8, columns.min() : columns.max() + 8] = True
        return np.asarray(mask).tobytes() + np.asarray(pixtree.snap(rough, tree)).tobytes()

    def vectorize(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """A drawing."""
        return str(pixtree.vectorize(picture, paths=int(generator.integers(20, 300)))).encode()

    def tokens(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """One step of learning without the step: forward and backward through the tokenizer."""
        images = torch.from_numpy(picture).permute(2, 0, 1)[None].repeat(2, 1, 1, 1)
        self.tokenizer.zero_grad(set_to_none=True)
        tokens = self.tokenizer(images)
        tokens.features.square().mean().backward()
        return tokens.features.detach().numpy().tobytes()

    def retrofit(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """Logits of a model on regions."""
        images = torch.from_numpy(picture[:96, :96]).permute(2, 0, 1)[None] / 255
        with torch.inference_mode():
            return self.model(images).numpy().tobytes()

    def batch(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """A corpus of three pictures, one of them damaged."""
        with tempfile.TemporaryDirectory() as folder:
            photos, labels = Path(folder) / "photos", Path(folder) / "labels"
            photos.mkdir()
            for name, part in (("left", picture[:, :90]), ("right", picture[:, -90:])):
                Image.fromarray(part).save(photos / f"{name}.png")
            (photos / "torn.png").write_bytes((photos / "left.png").read_bytes()[:500])
            came = run("segment", photos, labels, workers=1, tokens=30)
            if (came.done, came.failed) != (2, 1):
                raise ValueError(f"expected 2 pictures done and 1 failed, got {came}; a run is wrong after long work")
            return b"".join(path.read_bytes() for path in sorted(labels.glob("*.png")))

    def app(self, picture: np.ndarray, generator: np.random.Generator) -> bytes:
        """A picture sent to the server, and four rooms' answers about it."""
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "PNG")
        sent, name = self._asked("POST", "/api/trees", stream.getvalue())
        tree = f"/api/trees/{name}"
        point = [int(generator.integers(side)) for side in picture.shape[:2]]
        marks = json.dumps({"marks": [{"inside": True, "points": [point]}]}).encode()
        answers = [
            self._asked("GET", f"{tree}/cut?tokens={int(generator.integers(2, 500))}"),
            self._asked("POST", f"{tree}/select", marks),
            self._asked("GET", f"{tree}/drawing?paths={int(generator.integers(20, 200))}"),
            self._asked("GET", f"{tree}/tokens?method=pixtree&count=49"),
            self._asked("GET", f"{tree}/regions?tokens=40&format=geojson"),
        ]
        return b"".join([sent, *(body for body, _ in answers)])

    def _asked(self, method: str, path: str, body: bytes | None = None) -> tuple[bytes, str | None]:
        """The answer of the server; a server that is too busy (503) is asked again."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            try:
                connection.request(method, path, body)
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            if answer.status == 200:
                return content, answer.headers.get("x-pixtree-id")
            if answer.status != 503:
                raise ValueError(f"expected an answer to {method} {path}, got {answer.status}: {content[:200]!r}; see the server")
            time.sleep(5)


def round_of(worker: Worker, number: int) -> str:
    """Every kind of work once, in the order of the round's seed; a hash of all answers."""
    kinds: list[Callable[[np.ndarray, np.random.Generator], bytes]] = [
        *(worker.segment, worker.tree, worker.select, worker.vectorize),
        *(worker.tokens, worker.retrofit, worker.batch, worker.app),
    ]
    generator = np.random.default_rng(number)
    digest = sha256()
    for index in generator.permutation(len(kinds)):
        digest.update(kinds[index](worker.picture(generator), generator))
    return digest.hexdigest()


def sample(began: float, process: int) -> dict[str, float]:
    """Seconds since the beginning; memory, processor time, open files and threads of this process and of the server."""
    found = {"seconds": round(time.monotonic() - began, 1)}
    for name, number in (("library", os.getpid()), ("server", process)):
        found[f"{name}_mb"] = round(megabytes(number), 1)
        found[f"{name}_cpu"] = round(processor_seconds(number), 1)
        found[f"{name}_files"] = len(os.listdir(f"/proc/{number}/fd"))  # noqa: PTH208  a folder that changes as it is read
        found[f"{name}_threads"] = len(os.listdir(f"/proc/{number}/task"))  # noqa: PTH208
    return found


def warmed_up(samples: list[dict[str, float]]) -> int:
    """The first round that counts; short runs are tries, of which all do."""
    return next((place for place, one in enumerate(samples) if place >= FILLED and one["seconds"] >= WARM_UP), 0)


def judged(samples: list[dict[str, float]], name: str) -> dict[str, float]:
    """Memory of one process after warming up, and the growth of a straight line through it, per hour and as a share."""
    settled = samples[warmed_up(samples) :]
    seconds, values = (np.array([one[key] for one in settled]) for key in ("seconds", f"{name}_mb"))
    slope = float(np.polyfit(seconds, values, 1)[0])
    grown = slope * float(seconds[-1] - seconds[0])
    return {
        "process": "the library" if name == "library" else "the server of `pixtree demo`",
        "mean_mb": float(values.mean()),
        "largest_mb": float(max(one[f"{name}_mb"] for one in samples)),
        "mb_per_hour": slope * 3600,
        "growth": grown / float(values.mean()),
        "files": max(one[f"{name}_files"] for one in settled),
        "more_files": settled[-1][f"{name}_files"] - settled[0][f"{name}_files"],
        "more_threads": settled[-1][f"{name}_threads"] - settled[0][f"{name}_threads"],
    }


def plot(samples: list[dict[str, float]], path: Path) -> None:
    """Memory of both processes against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axis = figure.subplots()
    minutes = [one["seconds"] / 60 for one in samples]
    for name, label in (("library", "process that uses the library"), ("server", "server of pixtree demo")):
        axis.plot(minutes, [one[f"{name}_mb"] for one in samples], label=label, lw=1.4)
    axis.axvspan(0, minutes[warmed_up(samples)], color="0.92", label="warming up")
    axis.set(xlabel="minutes of mixed work", ylabel="resident memory, MB", xlim=(0, minutes[-1]))
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120)


def note(samples: list[dict[str, float]], rounds: int, repeated: int) -> str:
    """What was done."""
    last = samples[-1]
    minutes = {name: f"{last[name] / 60:.0f}" for name in ("seconds", "library_cpu", "server_cpu")}
    return (
        f"{rounds} rounds in {minutes['seconds']} minutes, with {minutes['library_cpu']} minutes of processor time of the library "
        f"and {minutes['server_cpu']} of the server, beside other work on the machine. A round does eight kinds of work on photos. "
        f"The rounds repeat after {CYCLE}, and {repeated} of them were repetitions. Memory is sampled after each round; the slope "
        f"is that of a straight line through those after {WARM_UP / 60:.0f} minutes and {FILLED} rounds of warming up."
    )


def worked(minutes: float) -> tuple[list[dict[str, float]], int, int, int]:
    """Samples after each round, the count of rounds, and of those that were repeated and that differed from the first time."""
    samples, first, repeated, different, number, asked_to_end = [], {}, 0, 0, 0, []
    signal.signal(signal.SIGTERM, lambda number, frame: asked_to_end.append(number))
    with server("--memory", "64") as (port, process):
        worker = Worker(port)
        began = time.monotonic()
        while time.monotonic() - began < minutes * 60 and not asked_to_end:
            digest = round_of(worker, number % CYCLE)
            repeated += number >= CYCLE
            different += first.setdefault(number % CYCLE, digest) != digest
            gc.collect()  # cycles of Python's own are no leak
            samples.append(sample(began, process))
            number += 1
            if number % CYCLE == 0:
                print(json.dumps({"round": number, "different": different, **samples[-1]}), flush=True)
    return samples, number, repeated, different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    left = set(Path(tempfile.gettempdir()).glob("pixtree-*"))
    samples, rounds, repeated, different = worked(options.minutes)
    leaked = len(set(Path(tempfile.gettempdir()).glob("pixtree-*")) - left)
    rows = [judged(samples, name) for name in ("library", "server")]
    met = {True: "yes", False: "no"}
    bars = [
        {
            "what": f"growth of memory after warming up, {row['process']}",
            "wanted": f"≤ {MOST_GROWTH}",
            "found": row["growth"],
            "met": met[row["growth"] <= MOST_GROWTH],
        }
        for row in rows
    ]
    bars += [
        {"what": "repeated rounds that gave other answers", "wanted": "0", "found": different, "met": met[different == 0]},
        {"what": "temporary files left behind", "wanted": "0", "found": leaked, "met": met[leaked == 0]},
    ]
    record = {
        "benchmark": "table",
        "title": "A long run",
        "shows": "Shows whether memory grows under continuous mixed work on small pictures. It says nothing about speed.",
        **provenance(COMMAND, PACKAGES),
        "columns": [
            ["process", "Process", ""],
            ["mean_mb", "Mean MB", ".0f"],
            ["largest_mb", "Largest MB", ".0f"],
            ["mb_per_hour", "Slope, MB per hour", ".1f"],
            ["growth", "Growth after warming up", ".2%"],
            ["files", "Most open files", "d"],
            ["more_files", "More open files at the end", "d"],
            ["more_threads", "More threads at the end", "d"],
        ],
        "rows": rows,
        "bars": bars,
        "notes": [note(samples, rounds, repeated)],
        "samples": samples,
    }
    write_record(record, options.output)
    if options.plot:
        plot(samples, options.plot)
    for line in (*rows, *bars):
        print(line)


if __name__ == "__main__":
    main()
