"""A submission's events as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from anyio import to_thread

from kernelcup.http.platform import Platform
from kernelcup.http.results import WaitingOut
from kernelcup.http.schemas import EventOut
from kernelcup.services import events, waiting
from kernelcup.services.submissions import has_ended
from kernelcup.storage.events import Event

PING_S = 15
"""So often a silent stream says that it lives: proxies close those that say nothing."""

WAITING_S = 2.0
WATCHERS_A_SECOND = 10
"""So many places in the queue are looked up each second; with more watchers each is told less often."""

PAGE = 200

Message = dict[str, Any]


async def follow(platform: Platform, submission_id: int, *, after_id: int) -> AsyncIterator[Message]:
    """Yield what happened since an event, then what happens, until the submission is done."""
    sent: set[int] = set()
    last_waiting: Message | None = None
    async with platform.hub.watch(submission_id) as mailbox:
        ended = False
        async for event in _backlog(platform, submission_id, after_id):
            sent.add(event.id)
            ended = _ends(event, ended)
            yield _message(event)
        if not ended and await to_thread.run_sync(_is_over, platform, submission_id):
            # It ended before we looked, or while the backlog was read.
            async for event in _backlog(platform, submission_id, max(sent, default=after_id)):
                yield _message(event)
            return
        told = None if ended else await _waiting(platform, submission_id)
        if told is not None:
            last_waiting = told
            yield told
        while not ended:
            try:
                event = await asyncio.wait_for(mailbox.get(), timeout=_pause(platform))
            except TimeoutError:
                told = await _waiting(platform, submission_id)
                if told is not None and told != last_waiting:
                    last_waiting = told
                    yield told
                continue
            if event.id > after_id and event.id not in sent:
                sent.add(event.id)
                ended = _ends(event, ended)
                yield _message(event)


async def _backlog(platform: Platform, submission_id: int, after_id: int) -> AsyncIterator[Event]:
    last = after_id
    while True:
        page = await to_thread.run_sync(lambda at: events.since(platform.db, submission_id, at, PAGE), last)
        for event in page:
            yield event
        if len(page) < PAGE:
            return
        last = page[-1].id


def _is_over(platform: Platform, submission_id: int) -> bool:
    return has_ended(platform.db, submission_id)


async def _waiting(platform: Platform, submission_id: int) -> Message | None:
    """Return where the jobs of a submission wait, None where none does."""
    now = platform.clock()
    found = await to_thread.run_sync(waiting.waiting_of, platform.db, submission_id, now)
    if not found:
        return None
    jobs = {job_id: WaitingOut.of(each).model_dump() for job_id, each in found.items()}
    return {"event": "waiting", "data": json.dumps({"jobs": jobs})}


def _pause(platform: Platform) -> float:
    return max(WAITING_S, platform.hub.watchers / WATCHERS_A_SECOND)


def _ends(event: Event, ended: bool) -> bool:
    """Tell whether nothing follows: a rejudge opens again what was done."""
    if event.kind == "done":
        return True
    return False if event.kind == "rejudging" else ended


def _message(event: Event) -> Message:
    body = EventOut.of(event).model_dump(mode="json")
    return {"id": str(event.id), "event": event.kind, "data": json.dumps(body)}
