"""A submission's events as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any

from anyio import to_thread

from kernelcup.app.queue import estimates
from kernelcup.app.submissions import events
from kernelcup.app.submissions.queries.events import Event
from kernelcup.app.submissions.submissions import has_ended
from kernelcup.errors import UserError
from kernelcup.http.api.forms import EventOut
from kernelcup.http.state import Platform

PING_S = 15
"""Interval of keep-alive messages: proxies close silent streams."""

WAITING_S = 2.0
WATCHERS_A_SECOND = 10
"""Number of queue places looked up each second; with more watchers, each gets fewer updates."""

PAGE = 200

Message = dict[str, Any]


async def follow(
    platform: Platform, submission_id: int, *, after_id: int, watcher: str, check: Callable[[], None]
) -> AsyncIterator[Message]:
    """Yield past events after a given one, then new ones, until the submission is done or deleted.

    It also ends once the reader may not follow it any more.

    Args:
        platform: The process's parts.
        submission_id: The submission.
        after_id: The last known event.
        watcher: The reader, whose number of streams is limited.
        check: Authenticates the reader again; raises ``UserError`` unless they may follow the submission.
    """
    sent: set[int] = set()
    ended = False
    if not platform.hub.has_room(watcher):
        return  # the reader's other streams began at the same moment; a retry gets the reason
    async with platform.hub.watch(submission_id, watcher) as mailbox:
        async for event in _backlog(platform, submission_id, after_id):
            sent.add(event.id)
            ended = _ends(event, ended)
            yield _message(event)
        if ended:
            return
        try:
            async with aclosing(_news(platform, submission_id, mailbox, check)) as news:
                async for each in news:
                    if not isinstance(each, Event):
                        yield each
                    elif each.id > after_id and each.id not in sent:
                        sent.add(each.id)
                        yield _message(each)
                        if _ends(each, False):
                            return
        except UserError:
            return
        # It ended before this look, or it was deleted together with its events.
        async for event in _backlog(platform, submission_id, max(sent, default=after_id)):
            yield _message(event)


async def _news(
    platform: Platform, submission_id: int, mailbox: asyncio.Queue[Event], check: Callable[[], None]
) -> AsyncGenerator[Event | Message, None]:
    """Yield events as they come, and at intervals the places of waiting jobs, until no job waits or runs."""
    last: Message | None = None
    while True:
        await to_thread.run_sync(check)
        told = await _waiting(platform, submission_id)
        if told is None and await to_thread.run_sync(has_ended, platform.db, submission_id):
            return
        if told is not None and told != last:
            last = told
            yield told
        with suppress(TimeoutError):
            until = asyncio.get_running_loop().time() + _pause(platform)
            while True:
                async with asyncio.timeout_at(until):
                    event = await mailbox.get()
                yield event


async def _backlog(platform: Platform, submission_id: int, after_id: int) -> AsyncIterator[Event]:
    last = after_id
    while True:
        page = await to_thread.run_sync(lambda at: events.since(platform.db, submission_id, at, PAGE), last)
        for event in page:
            yield event
        if len(page) < PAGE:
            return
        last = page[-1].id


async def _waiting(platform: Platform, submission_id: int) -> Message | None:
    """Return the queue places of a submission's jobs, None if no job waits."""
    now = platform.clock()
    found = await to_thread.run_sync(estimates.waiting_of, platform.db, submission_id, now)
    if not found:
        return None
    jobs = {job_id: asdict(each) for job_id, each in found.items()}
    return {"event": "waiting", "data": json.dumps({"jobs": jobs})}


def _pause(platform: Platform) -> float:
    return max(WAITING_S, platform.hub.watchers / WATCHERS_A_SECOND)


def _ends(event: Event, ended: bool) -> bool:
    """Return whether no events follow: a rejudge reopens a finished submission."""
    if event.kind == "done":
        return True
    return False if event.kind == "rejudging" else ended


def _message(event: Event) -> Message:
    body = EventOut.of(event).model_dump(mode="json")
    return {"id": str(event.id), "event": event.kind, "data": json.dumps(body)}
