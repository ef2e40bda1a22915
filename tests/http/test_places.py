"""Places for requests: an address waits for itself, and those that used less of the processor come first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from builders import make_board
from kernelcup.errors import Overloaded, RateLimited
from kernelcup.http import capacity
from kernelcup.http.capacity import PLACE, Gate, Place, Usage, metered

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def served(
    order: list[str], *, places: int, most_of_one: int = 1, used: dict[str, float] | None = None
) -> list[str]:
    """Have requests of these addresses come at once; return the addresses in the order in which they are served."""
    usage, came = Usage(), []
    for address, seconds in (used or {}).items():
        usage.add(address, seconds)
    gate = Gate(places, most_of_one, usage)

    async def request(address: str) -> None:
        place = Place(address)
        await place.take(gate, is_first="health" in address)
        came.append(address)
        await asyncio.sleep(0)
        place.leave()

    async def crowd() -> None:
        await asyncio.gather(*map(request, order))

    asyncio.run(crowd())
    return came


def test_an_address_waits_for_itself_and_the_others_do_not() -> None:
    assert served([A, A, A, B, C], places=3) == [A, B, C, A, A]


def test_of_those_that_wait_the_address_comes_first_that_used_least() -> None:
    assert served([A, A, A, B, C], places=1, used={A: 5.0, B: 9.0, C: 2.0}) == [A, C, A, A, B]


def test_what_an_address_used_counts_less_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    usage = Usage()
    usage.add(A, 8.0)
    now += 2 * capacity.HALF_S
    assert usage.of(A) == 2.0
    usage.add(A, 1.0)
    assert (usage.of(A), usage.of(B)) == (3.0, 0.0)


def test_few_addresses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MOST_ADDRESSES", 2)
    usage = Usage()
    for address in (A, B, A, C):
        usage.add(address, 1.0)
    assert [round(usage.of(each)) for each in (A, B, C)] == [2, 0, 1]


def during(gate: Gate, act: Callable[[], Coroutine[Any, Any, None]], holder: str = A) -> None:
    """Act while a request holds a place."""

    async def crowd() -> None:
        await gate.enter(holder)
        await act()
        gate.leave(holder)
        await gate.enter(C)  # no place was lost

    asyncio.run(crowd())


def test_who_waits_too_long_for_its_own_address_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "PATIENCE_S", 0.01)
    gate = Gate(2, 1, Usage())

    async def wait() -> None:
        with pytest.raises(RateLimited, match="Your address"):
            await gate.enter(A)
        await gate.enter(B)
        with pytest.raises(Overloaded):
            await gate.enter(C)
        gate.leave(B)

    during(gate, wait)


def test_a_client_that_hangs_up_while_it_waits_takes_no_place() -> None:
    gate = Gate(1, 1, Usage())

    async def hang_up() -> None:
        late = asyncio.create_task(gate.enter(B))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late

    during(gate, hang_up)


def test_a_client_that_hangs_up_as_its_turn_comes_gives_the_place_back() -> None:
    gate = Gate(1, 1, Usage())

    async def hang_up() -> None:
        late = asyncio.create_task(gate.enter(B))
        await asyncio.sleep(0)
        gate.leave(A)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        await gate.enter(A)

    during(gate, hang_up)


def test_a_health_check_comes_before_other_requests_of_its_address(
    app, client, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    async def take(self: Place, gate: Gate, *, is_first: bool = False) -> None:
        taken.append(is_first)

    monkeypatch.setattr(Place, "take", take)
    for path in ("/livez", "/readyz", "/"):
        client.get(path)
    assert taken == [True, True, False]
    order: list[str] = []

    async def request(name: str, gate: Gate) -> None:
        await gate.enter(A, is_first=name == "health")
        order.append(name)
        gate.leave(A)

    async def crowd() -> None:
        gate = Gate(1, 1, Usage())
        await gate.enter(A)
        waiting = [asyncio.create_task(request(name, gate)) for name in ("page", "page", "health")]
        await asyncio.sleep(0)
        gate.leave(A)
        await asyncio.gather(*waiting)

    asyncio.run(crowd())
    assert order == ["health", "page", "page"]


def test_the_loop_looks_at_its_sockets_between_requests_of_an_address() -> None:
    turns: list[int] = []

    async def crowd() -> None:
        gate, turn = Gate(9, 2, Usage()), 0

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


def test_an_address_is_charged_with_the_processor_time_of_its_pages(client, db, platform) -> None:
    make_board(db)
    assert platform.room.readers.usage.of("testclient") == 0.0
    client.get("/b/double")
    first = platform.room.readers.usage.of("testclient")
    assert first > 0.0
    client.get("/b/double")
    assert platform.room.readers.usage.of("testclient") > first * 0.99


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

    async def noted(self: Place, gate: Gate, *, is_first: bool = False) -> None:
        gates.append(gate)
        await take(self, gate, is_first=is_first)

    monkeypatch.setattr(Place, "take", noted)
    make_board(db)
    room = platform.room
    client.get("/b/double")
    assert gates == [room.readers]
    monkeypatch.setattr("kernelcup.http.route.SLOW_S", 1e-9)  # so the page before took long
    client.get("/b/double")
    assert gates[1:] == [room.readers, room.slow_readers]
