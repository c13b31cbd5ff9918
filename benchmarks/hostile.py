"""One honest client of the web app, first alone and then among hostile ones, all on loopback.

    python benchmarks/hostile.py -o benchmarks/results/app_hostile.json --minutes 10

The honest client sends a photo, cuts it by a criterion and selects an object, with a second between requests. The hostile ones come
from 127.0.0.2 to 127.0.0.9, in a process of their own that ends by itself: heads and bodies that trickle, a byte after a whole
request, two lengths in one request, answers that are never read, and 16 uploads at once. Their number is fixed. Their process has
the lowest priority, since real ones would have machines of their own.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from app import bar, crops, megabytes, row, server
from evidence.records import provenance, write_record

HONEST = "127.0.0.1"
ADDRESSES = [f"127.0.0.{last}" for last in range(2, 10)]
PER_ADDRESS = {"slow heads": 12, "a byte after a request": 12, "slow bodies": 8, "never reading": 4}  # connections at a time
UPLOADS = 16  # at a time, of all addresses together
PAUSE = 1.0  # seconds between honest requests
WARM = 20.0  # seconds of many uploads beforehand
SETTLE = 75.0  # seconds after which every deadline of the server is over
HEAD = b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\n"
PAGE = b"GET /static/main.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
CLICK = {"marks": [{"inside": True, "points": [[60, 80]]}]}
MEASURES = ("src/pixtree/app",)  # which the server's process loads
PACKAGES = ("pixtree", "fastapi", "uvicorn", "h11", "torch", "numpy", "numba")
Line = socket.socket
Hostile = Callable[[Line, float], None]


@contextmanager
def connected(port: int, address: str) -> Iterator[Line]:
    """A connection from one of the machine's loopback addresses."""
    line = socket.create_connection((HONEST, port), timeout=30, source_address=(address, 0))
    try:
        yield line
    finally:
        line.close()


def ask(port: int, address: str, method: str, path: str, body: bytes | None = None) -> tuple[int, str | None]:
    """The status of an answer, read to its end, and the id of an uploaded photo."""
    connection = http.client.HTTPConnection(HONEST, port, timeout=120, source_address=(address, 0))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("x-pixtree-id")
    finally:
        connection.close()


def trickle(line: Line, content: bytes, end: float, seconds: float) -> None:
    """Send a byte at a time until the server ends the connection or time is over."""
    for place in range(len(content)):
        if time.monotonic() > end:
            return
        line.sendall(content[place : place + 1])
        time.sleep(seconds)


def slow_head(line: Line, end: float) -> None:
    trickle(line, b"GET / HTTP/1.1\r\nx: " + b"y" * 1000, end, 1.0)


def byte_after_request(line: Line, end: float) -> None:
    line.sendall(b"GET /api/about HTTP/1.1\r\nhost: localhost\r\n\r\nG")
    line.settimeout(max(0.1, min(30.0, end - time.monotonic())))
    while line.recv(65536):
        pass


def slow_body(line: Line, end: float) -> None:
    line.sendall(HEAD + b"content-length: 30000000\r\n\r\n")
    trickle(line, bytes(1000), end, 0.5)


def two_lengths(line: Line, end: float) -> None:
    line.sendall(HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n")
    while time.monotonic() < end:
        line.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")


def never_reading(line: Line, end: float) -> None:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.sendall(PAGE * 2000)
    trickle(line, PAGE * 100, end, 1.0)


def repeated(port: int, address: str, what: str, attack: Hostile, end: float, pause: float, seen: Counter[str]) -> None:
    """Attack with one connection after the other."""
    while time.monotonic() < end:
        try:
            with connected(port, address) as line:
                attack(line, end)
        except TimeoutError:
            seen[f"{what}: not read by the server"] += 1
        except OSError:  # the server has ended it, or did not accept it
            seen[f"{what}: ended by the server"] += 1
        seen[f"{what}: connections"] += 1
        time.sleep(pause)


def uploads(port: int, end: float, seen: Counter[str]) -> None:
    """Sixteen photos at once, again and again."""
    photos = [crops(100 + number)[0] for number in range(UPLOADS)]

    def send(number: int) -> None:
        try:
            status, _ = ask(port, ADDRESSES[number % len(ADDRESSES)], "POST", "/api/trees", photos[number])
        except (OSError, http.client.HTTPException):
            status = 0
        seen[f"16 uploads at once: status {status}"] += 1

    with ThreadPoolExecutor(UPLOADS) as pool:
        while time.monotonic() < end:
            list(pool.map(send, range(UPLOADS)))


def attack_all(port: int, seconds: float, results: "multiprocessing.Queue[dict[str, int]]") -> None:
    """All hostile clients at once, for this long."""
    os.nice(19)
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds
    kinds = {
        "slow heads": (slow_head, 0.1),
        "a byte after a request": (byte_after_request, 0.1),
        "slow bodies": (slow_body, 0.1),
        "never reading": (never_reading, 0.1),
        "two lengths": (two_lengths, 0.5),
    }
    threads = [threading.Thread(target=uploads, args=(port, end, seen), daemon=True)]
    for address in ADDRESSES:
        for what, (attack, pause) in kinds.items():
            words = (port, address, what, attack, end, pause, seen)
            threads += [threading.Thread(target=repeated, args=words, daemon=True) for _ in range(PER_ADDRESS.get(what, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, end + 60 - time.monotonic()))
    results.put(dict(seen))


def honest(port: int, seconds: float) -> tuple[list[float], Counter[int]]:
    """Milliseconds of every request of the honest client, and how often each status came that is no answer."""
    photos, times, failed = crops(0), [], Counter[int]()
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        name = None
        for step in range(3):
            match step:
                case 0:
                    words = ("POST", "/api/trees", photos[turn % len(photos)])
                case 1:
                    words = ("GET", f"/api/trees/{name}/cut?criterion=bic", None)
                case _:
                    words = ("POST", f"/api/trees/{name}/select", json.dumps(CLICK).encode())
            start = time.perf_counter()
            try:
                status, given = ask(port, HONEST, *words)
            except (OSError, http.client.HTTPException):
                status, given = 0, None
            times.append(1000 * (time.perf_counter() - start))
            failed.update([] if status == 200 else [status])
            name = given or name
            time.sleep(PAUSE)
        turn += 1
    return times, failed


def descriptors(process: int) -> int:
    """Open files and sockets of a process."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def measured(minutes: float) -> dict[str, object]:
    """Times of the honest client alone and among hostile ones; memory and descriptors of the server before, during and after."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    seconds = 60 * minutes
    with server("--memory", "64") as (port, process), ExitStack() as stack:
        uploads(port, time.monotonic() + WARM, Counter())  # the memory of all threads is in use before it is compared
        honest(port, 1.0)  # and everything is compiled
        alone = honest(port, max(30.0, seconds / 3))
        before = (megabytes(process), descriptors(process))
        crowd = context.Process(target=attack_all, args=(port, seconds + 10, results))
        crowd.start()
        stack.callback(crowd.kill)
        time.sleep(10)  # all of them are there
        most = (megabytes(process), descriptors(process))
        among = honest(port, seconds)
        most = (max(most[0], megabytes(process)), max(most[1], descriptors(process)))
        seen = results.get(timeout=120)
        crowd.join(30)
        time.sleep(SETTLE)
        after = (megabytes(process), descriptors(process))
    return {"alone": alone, "among": among, "before": before, "most": most, "after": after, "seen": seen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    found = measured(options.minutes)
    (alone, alone_failed), (among, among_failed) = found["alone"], found["among"]
    rows = [
        row("The honest client alone, per request", "ms", alone),
        row(f"The honest client during {options.minutes:g} minutes of hostile ones, per request", "ms", among),
    ]
    (memory, files), (most_memory, most_files), (late_memory, late_files) = found["before"], found["most"], found["after"]
    slower = float(np.percentile(among, 95) / np.percentile(alone, 95))
    bars = [
        bar("95th percentile of the honest client, as a multiple of that alone", "≤ 2", slower, 2.0),
        bar("requests of the honest client that were not answered", "0", float((alone_failed + among_failed).total()), 0.0),
        bar("memory of the server afterwards, as a multiple of that before", "≤ 1.1", late_memory / memory, 1.1),
        bar("open files and connections afterwards, more than before", "0", float(max(0, late_files - files)), 0.0),
    ]
    record = {
        "benchmark": "table",
        "title": "The web app among hostile clients",
        **provenance("python benchmarks/hostile.py -o benchmarks/results/app_hostile.json --minutes 10", PACKAGES),
        "columns": [
            ["what", "What", ""],
            ["unit", "Unit", ""],
            ["count", "Values", "d"],
            ["median", "Median", ".1f"],
            ["p95", "95th percentile", ".1f"],
            ["largest", "Largest", ".1f"],
        ],
        "rows": rows,
        "bars": bars,
        "notes": [
            "Hostile clients from eight addresses, at a time: "
            + ", ".join(f"{count * len(ADDRESSES)} {what}" for what, count in PER_ADDRESS.items())
            + f", {len(ADDRESSES)} two lengths, {UPLOADS} uploads at once. All share the machine; "
            "the hostile ones have the lowest priority.",
            f"The server had {memory:.0f} MB and {files} open files before, up to {most_memory:.0f} MB and {most_files} "
            f"during the attack, and {late_memory:.0f} MB and {late_files} afterwards.",
        ],
        "seen": found["seen"],
        "statuses": {str(status): count for status, count in (alone_failed + among_failed).items()},
    }
    write_record(record, options.output)
    for line in (*rows, *bars, found["seen"], record["statuses"]):
        print(line)


if __name__ == "__main__":
    main()
