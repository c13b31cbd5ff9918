"""Workers: what nobody waits for is not computed, and no address computes at the expense of the others."""

import asyncio
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from running import in_a_loop, png, request, running, sentence, upload

from pixtree.app import sessions, workers
from pixtree.app.limits import Limits, RefusedError
from pixtree.app.sessions import Sessions, grown
from pixtree.app.workers import Workers
from pixtree.runtime.stopping import StoppedError, check_wanted, while_wanted
from pixtree.tasks.vectorize import vectorize

NOISE = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)


class Client:
    """A request from an address, whose connection ends when the test says so."""

    def __init__(self, host):
        self.client, self.gone = SimpleNamespace(host=host), asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}


def together(scene, threads=1, **limits):
    """Run a scene with workers of its own."""

    async def played():
        team = Workers(Limits(**limits), threads)
        try:
            return await scene(team)
        finally:
            team.close()

    return in_a_loop(played())


async def soon(condition):
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def test_what_waits_for_a_client_that_left_is_never_started():
    async def scene(team):
        release, ran = threading.Event(), []
        first = asyncio.create_task(team.run(Client("a"), release.wait))
        client = Client("a")
        second = asyncio.create_task(team.run(client, ran.append, 1))
        await asyncio.sleep(0.05)
        client.gone.set()
        with pytest.raises(RefusedError, match="connection ended"):
            await second
        release.set()
        await first
        await team.run(Client("a"), ran.append, 2)
        return ran

    assert together(scene) == [2]


def steps(began, ended):
    """A computation of a minute that can be stopped between its steps."""
    began.set()
    try:
        for _ in range(6000):
            check_wanted()
            time.sleep(0.01)
    finally:
        ended.set()


@pytest.mark.parametrize("reason", ["the client leaves", "time is over"])
def test_a_running_computation_that_nobody_waits_for_ends_at_its_next_step(reason):
    async def scene(team):
        began, ended, client = threading.Event(), threading.Event(), Client("a")
        running = asyncio.create_task(team.run(client, steps, began, ended, seconds=60 if "client" in reason else 0.2))
        await soon(began.is_set)
        if "client" in reason:
            client.gone.set()
        with pytest.raises(RefusedError, match=r"connection ended|may take 0\.2 seconds"):
            await running
        await soon(ended.is_set)
        return await team.run(Client("a"), lambda: "free")

    assert together(scene) == "free"


@pytest.mark.parametrize("options", [{"points": 5000}, {"paths": 50}, {"bytes": 5000, "preset": "icon"}], ids=str)
def test_a_drawing_can_be_stopped(options):
    asked = []

    def is_wanted():
        asked.append(1)
        return len(asked) < 3

    with while_wanted(is_wanted), pytest.raises(StoppedError):
        vectorize(NOISE, **options)
    assert len(asked) == 3
    check_wanted()  # outside of the block nothing is stopped


def test_the_address_that_has_computed_least_comes_first():
    async def scene(team):
        release, order = threading.Event(), []
        jobs = [asyncio.create_task(team.run(Client("greedy"), release.wait))]
        await asyncio.sleep(0.05)
        jobs += [asyncio.create_task(team.run(Client("greedy"), order.append, "greedy")) for _ in range(5)]
        await asyncio.sleep(0.05)
        jobs.append(asyncio.create_task(team.run(Client("modest"), order.append, "modest")))
        await asyncio.sleep(0.05)
        release.set()
        await asyncio.gather(*jobs)
        return order

    assert together(scene) == ["modest"] + ["greedy"] * 5


def test_one_thread_is_kept_from_those_who_have_computed_much(monkeypatch):
    monkeypatch.setattr(workers, "LITTLE", 0.05)

    async def scene(team):
        release = threading.Event()
        await asyncio.gather(*(team.run(Client("greedy"), time.sleep, 0.1) for _ in range(4)))
        alone = [asyncio.create_task(team.run(Client("greedy"), threading.Event().wait, 0.2)) for _ in range(2)]
        start = time.monotonic()
        await asyncio.gather(*alone)
        assert time.monotonic() - start < 0.35  # both threads, while nobody else is there
        await team.run(Client("modest"), int)
        long = [asyncio.create_task(team.run(Client("greedy"), release.wait)) for _ in range(4)]
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await team.run(Client("modest"), int)
        waited = time.monotonic() - start
        release.set()
        await asyncio.gather(*long)
        return waited

    assert together(scene, threads=2) < 1


def test_a_full_queue_refuses_the_address_that_has_most_in_it():
    async def scene(team):
        release = threading.Event()
        greedy = [asyncio.create_task(team.run(Client("greedy"), release.wait)) for _ in range(4)]
        await asyncio.sleep(0.05)
        with pytest.raises(RefusedError, match="too much to do"):
            await team.run(Client("greedy"), int)
        modest = asyncio.create_task(team.run(Client("modest"), int))
        await asyncio.sleep(0.05)
        release.set()
        assert await modest == 0
        return [type(one) for one in await asyncio.gather(*greedy, return_exceptions=True)]

    assert together(scene, waiting=4) == [bool, bool, bool, RefusedError]


def test_closing_ends_what_waits_and_what_runs():
    async def scene(team):
        began, ended = threading.Event(), threading.Event()
        jobs = [asyncio.create_task(team.run(Client("a"), steps, began, ended, seconds=1)) for _ in range(2)]
        await soon(began.is_set)
        team.close()
        await soon(ended.is_set)
        return [type(one) for one in await asyncio.gather(*jobs, return_exceptions=True)]

    assert together(scene) == [RefusedError, RefusedError]


def test_drawings_are_limited_in_points_bytes_and_time():
    with running(Limits(drawing_seconds=0.001, regions=50)) as port:
        _, name, _ = upload(port, png(NOISE))
        for query in ("points=200000", "bytes=2000000", "paths=6000"):
            assert request(port, "GET", f"/api/trees/{name}/drawing?{query}")[0] == 422
        status, _, body = request(port, "GET", f"/api/trees/{name}/drawing?points=5000")
    assert (status, "may take 0.001 seconds" in sentence(body)) == (503, True)


def test_an_address_that_sends_many_images_drops_its_own_trees_and_not_those_of_others():
    one = grown(png(NOISE), Limits(regions=50))[0]
    kept = Sessions(4 * one.bytes)
    modest = kept.add(one, "modest")
    greedy = [kept.add(one, "greedy") for _ in range(9)]
    assert kept.get(modest) is one
    assert [name in kept._kept for name in greedy] == [False] * 6 + [True] * 3
    others = [kept.add(one, f"other {number}") for number in range(3)]  # four addresses with one each, from here on
    assert kept.get(modest) is one
    assert all(kept.get(name) is one for name in others)


def test_many_addresses_that_send_one_image_after_the_other_leave_others_time_to_use_theirs(monkeypatch):
    one, now = grown(png(NOISE), Limits(regions=50))[0], [0.0]
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now[0]))
    kept = Sessions(6 * one.bytes)
    for turn in range(20):
        if turn % 4 == 3:
            modest = kept.add(one, "modest")
        for number in range(24):
            now[0] += 1 / 24
            kept.add(one, f"greedy {number % 8}")
    assert kept.get(modest) is one


def test_among_addresses_that_send_little_the_tree_that_was_used_least_recently_goes():
    one = grown(png(NOISE), Limits(regions=50))[0]
    kept = Sessions(4 * one.bytes)
    names = [kept.add(one, f"user {number}") for number in range(4)]
    kept.get(names[0])
    kept.add(one, "user 4")
    assert [name in kept._kept for name in names] == [True, False, True, True]
