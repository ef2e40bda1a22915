"""Places for requests: addresses that wait for one take turns, whatever each has read before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from builders import make_board
from kernelcup.errors import Overloaded, RateLimited
from kernelcup.http import capacity
from kernelcup.http.capacity import PLACE, Gate, Place, metered, network_of

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def served(order: list[str], *, places: int, most_of_one: int = 1) -> list[str]:
    """Have requests come at once; return them in the order in which they are served. `A 2` is the second of A."""
    gate, came = Gate(places, most_of_one), []

    async def request(name: str) -> None:
        place = Place(name.split()[0])
        await place.take(gate)
        came.append(name)
        await asyncio.sleep(0)
        place.leave()

    async def crowd() -> None:
        await asyncio.gather(*map(request, order))

    asyncio.run(crowd())
    return came


async def enter(gate: Gate, address: str) -> None:
    """Wait for a place."""
    await gate.enter(address, asyncio.get_running_loop().create_future())


def test_an_address_waits_for_itself_and_the_others_do_not() -> None:
    assert served([A, A, A, B, C], places=3) == [A, B, C, A, A]


def test_addresses_that_wait_take_turns_and_one_serves_its_first_request_first() -> None:
    order = ["A 1", "A 2", "A 3", "A 4", "B 1", "B 2", "C 1"]
    assert served(order, places=1) == ["A 1", "A 2", "B 1", "C 1", "A 3", "B 2", "A 4"]


@pytest.mark.parametrize("read_before", [0, 50])
def test_a_visitor_waits_for_one_request_of_each_address(read_before: int) -> None:
    others, waits = [f"192.0.2.{number}" for number in range(30)], []
    gate, came = Gate(1, 1), 0

    async def read(address: str, times: int) -> None:
        nonlocal came
        for _ in range(times):
            place, before = Place(address), came
            await place.take(gate)
            if address == "visitor":
                waits.append(came - before)
            came += 1
            await asyncio.sleep(0)
            place.leave()

    async def crowd() -> None:
        await read("visitor", read_before)
        waits.clear()
        await asyncio.gather(*(read(each, 20) for each in others for _ in range(3)), read("visitor", 5))

    asyncio.run(crowd())
    assert len(waits) == 5
    assert max(waits) <= len(others) + 1


def test_nothing_is_kept_of_addresses_that_came() -> None:
    gate = Gate(2, 1)

    async def request(number: int) -> None:
        await enter(gate, f"192.0.2.{number % 100}")
        gate.leave(f"192.0.2.{number % 100}")

    async def crowd() -> None:
        await asyncio.gather(*map(request, range(300)))

    asyncio.run(crowd())
    assert (gate.held, gate._lines) == ({}, {})


def during(gate: Gate, act: Callable[[], Coroutine[Any, Any, None]], holder: str = A) -> None:
    """Act while a request holds a place."""

    async def crowd() -> None:
        await enter(gate, holder)
        await act()
        gate.leave(holder)
        await enter(gate, C)  # no place was lost
        assert gate._lines == {}

    asyncio.run(asyncio.wait_for(crowd(), 5))


def test_who_waits_too_long_for_its_own_address_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "STANDSTILL_S", 0.01)
    gate = Gate(2, 1)

    async def wait() -> None:
        with pytest.raises(RateLimited, match="Your address"):
            await enter(gate, A)
        await enter(gate, B)
        with pytest.raises(Overloaded):
            await enter(gate, C)
        gate.leave(B)

    during(gate, wait)


def test_a_request_waits_for_processor_time_of_the_server_and_not_for_that_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, used_s = Gate(1, 1), 0.0
    monkeypatch.setattr(time, "process_time", lambda: used_s)
    monkeypatch.setattr(capacity, "PATIENCE_S", 0.01)

    async def wait() -> None:
        nonlocal used_s
        late = asyncio.create_task(enter(gate, B))
        await asyncio.sleep(0.1)
        assert not late.done()
        used_s += 0.01
        with pytest.raises(Overloaded):
            await late

    during(gate, wait)


def test_a_request_that_is_cancelled_while_it_waits_takes_no_place() -> None:
    gate = Gate(1, 1)

    async def cancel() -> None:
        late = asyncio.create_task(enter(gate, B))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late

    during(gate, cancel)


def test_a_request_that_is_cancelled_as_its_turn_comes_gives_the_place_back() -> None:
    gate = Gate(1, 1)

    async def cancel() -> None:
        late = asyncio.create_task(enter(gate, B))
        await asyncio.sleep(0)
        gate.leave(A)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        await enter(gate, A)

    during(gate, cancel)


def test_a_client_that_hangs_up_while_it_waits_leaves_the_line() -> None:
    gate = Gate(1, 1)

    async def hang_up() -> None:
        place = Place(B)
        late = asyncio.create_task(place.take(gate))
        await asyncio.sleep(0)
        assert place.turn is not None
        place.turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert gate._lines == {}

    during(gate, hang_up)


def test_each_health_check_takes_no_place_of_other_requests(
    client, platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Gate] = []

    async def take(self: Place, gate: Gate) -> None:
        taken.append(gate)

    monkeypatch.setattr(Place, "take", take)
    room = platform.room
    for path in ("/livez", "/healthz", "/readyz", "/"):
        client.get(path)
    assert len(set(taken)) == 4  # nor of each other
    assert taken[3] is room.readers


def test_the_loop_looks_at_its_sockets_between_requests_of_an_address() -> None:
    turns: list[int] = []

    async def crowd() -> None:
        gate, turn = Gate(9, 2), 0

        async def request() -> None:
            place = Place(A)
            await place.take(gate)
            turns.append(turn)
            place.leave()

        requests = [asyncio.create_task(request()) for _ in range(6)]
        while not all(each.done() for each in requests):
            await asyncio.sleep(0)
            turn += 1

    asyncio.run(crowd())
    assert max(turns.count(each) for each in turns) == 2


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::2", "2001:db8:0:1::"),
        ("2001:db8:0:1:9::", "2001:db8:0:1::"),
        ("testclient", "testclient"),
    ],
)
def test_an_address_stands_for_its_network(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_function_s_processor_time_is_its_request_s() -> None:
    @metered
    def work() -> None:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    work()  # outside of a request
    place = Place(A)
    token = PLACE.set(place)
    work()
    PLACE.reset(token)
    assert 0.01 <= place.used_s < 0.1


def test_a_kind_of_page_that_takes_long_gets_the_places_of_slow_ones(
    client, db, platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates: list[Gate] = []
    take = Place.take

    async def noted(self: Place, gate: Gate) -> None:
        gates.append(gate)
        await take(self, gate)

    monkeypatch.setattr(Place, "take", noted)
    make_board(db)
    room = platform.room
    client.get("/b/double")
    assert gates == [room.readers]
    monkeypatch.setattr("kernelcup.http.route.SLOW_S", 1e-9)  # so the page before took long
    client.get("/b/double")
    assert gates[1:] == [room.readers, room.slow_readers]
