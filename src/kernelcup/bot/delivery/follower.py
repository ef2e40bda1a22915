"""Follows submissions from the command to the last message about them, across restarts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import discord

from kernelcup.bot.api import Happening, Person
from kernelcup.bot.delivery import announcement
from kernelcup.bot.delivery.destinations import REPLY_LASTS_S, Placing, now
from kernelcup.bot.delivery.progress_message import Live, render
from kernelcup.bot.messages import reports, texts
from kernelcup.bot.messages.replies import explain
from kernelcup.bot.state import Followed, Place
from kernelcup.errors import (
    Conflict,
    KernelCupError,
    NotFound,
    RateLimited,
    ScopeMissing,
    ServerUnavailable,
    SignInNeeded,
    UserError,
)

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot

logger = logging.getLogger(__name__)

AGAIN_S = 30.0
TROUBLE = (SignInNeeded, ScopeMissing, RateLimited, ServerUnavailable, discord.HTTPException)
"""Temporary trouble: of the server, of the bot's own token, of Discord."""
SUBMIT_PATIENCE_S = 3600.0
"""How long sending a submission is retried while the server does not answer."""


BOTS_FAULT = (SignInNeeded, ServerUnavailable)
"""Refusals that are temporary: the same submission will be accepted later."""


class Ticket:
    """What a command waits for: the acceptance of its submission, and the place of its messages."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.placed: asyncio.Future[Place | None] = loop.create_future()

    async def place(self, wait_s: float) -> Place | None:
        """Return the place of the messages, None if it is not known in time."""
        await asyncio.wait({self.placed}, timeout=wait_s)
        return self.placed.result() if self.placed.done() else None

    def accept(self, submission: dict[str, Any]) -> None:
        """Record that the platform accepted the submission."""
        if not self.accepted.done():
            self.accepted.set_result(submission)

    def refuse(self, error: Exception) -> None:
        """Record that the platform refused the submission."""
        if not self.accepted.done():
            self.accepted.set_exception(error)
            self.accepted.exception()  # the waiting command may be gone, so an unread exception is fine

    def put(self, place: Place | None) -> None:
        """Record the place of the messages."""
        if not self.placed.done():
            self.placed.set_result(place)


class Follower:
    """All followed submissions, one asyncio task for each."""

    def __init__(self, bot: KernelCupBot) -> None:
        self._bot = bot
        self._tickets: dict[str, Ticket | None] = {}

    def submit(self, followed: Followed) -> Ticket:
        """Remember a submission, send it, and follow it to its end.

        Returns:
            The ticket that gets the API's answer or raises its refusal. A repeated interaction submits once.
        """
        if (known := self._tickets.get(followed.key)) is not None:
            return known
        ticket = Ticket()
        if self._bot.parts.memory.begin(followed):
            self._start(followed, ticket)
        else:
            ticket.refuse(Conflict("This has already been submitted."))
        return ticket

    def resume(self) -> None:
        """Resume the submissions that were followed when the bot stopped."""
        for followed in self._bot.parts.memory.open_ones():
            if followed.key not in self._tickets:
                self._start(followed, None)

    @property
    def count(self) -> int:
        """Return the number of followed submissions."""
        return len(self._tickets)

    def _start(self, followed: Followed, ticket: Ticket | None) -> None:
        self._tickets[followed.key] = ticket
        task = self._bot.spawn(Following(self._bot, followed, ticket).run())
        task.add_done_callback(lambda _: self._tickets.pop(followed.key, None))


class Following:
    """A submission that is being followed."""

    def __init__(self, bot: KernelCupBot, followed: Followed, ticket: Ticket | None) -> None:
        self._bot = bot
        self._api, self._memory = bot.parts.api, bot.parts.memory
        self._followed = followed
        self._ticket = ticket
        self._person = Person(followed.user_id, followed.user_name)
        self._placing = Placing(bot, followed)
        self._last_event = followed.last_event

    async def run(self) -> None:
        """Follow the submission to its end, through temporary trouble of the server, Discord or the bot's
        token.
        """
        while True:
            try:
                await self._follow()
                return
            except TROUBLE as error:
                logger.error("%s cannot be followed now: %s", self._followed.key, error)
                await asyncio.sleep(AGAIN_S)
            except UserError as error:
                gone = isinstance(error, NotFound)
                text = "This submission was deleted." if gone else explain(error)
                await self._say("gone", text, f"there is news of your submission: <{self.url}>")
                self._memory.end(self._followed.key)
                return
            except Exception as error:
                if self._ticket is not None:
                    self._ticket.refuse(error)
                raise

    async def _follow(self) -> None:
        submission = await self._submitted()
        if submission is None:
            return
        live = Live.of(submission, self._followed.progress)
        await self._watch(submission, live)
        submission = await self._shown()
        live = Live.of(submission, live.progress())
        await self._placing.edit(render(submission, live, self.url))
        self._tell_place()
        await self._placing.rename(f"{live.mark} #{submission['id']} {submission['file_name']}")
        await self._report(submission)
        self._memory.end(self._followed.key)

    @property
    def url(self) -> str:
        """The submission's page."""
        return f"{self._bot.parts.config.public_url}/s/{self._followed.submission}"

    async def _submitted(self) -> dict[str, Any] | None:
        """Return the submission; send it first if it was not accepted yet."""
        followed = self._followed
        if followed.submission is not None:
            return await self._shown()
        try:
            submission: dict[str, Any] = await self._api.post(
                "/submissions",
                self._person,
                json=followed.request,
                key=followed.key,
                patience_s=SUBMIT_PATIENCE_S,
            )
        except KernelCupError as error:
            await self._refused(error)
            return None
        followed.submission = int(submission["id"])
        self._memory.accepted(followed.key, followed.submission)
        if self._ticket is not None:
            self._ticket.accept(submission)
        return submission

    async def _refused(self, error: KernelCupError) -> None:
        """Pass a refusal to the waiting command; after a restart, or too late, send it as a message."""
        if self._ticket is not None:
            self._ticket.refuse(error)
            if now() - self._followed.began_at < REPLY_LASTS_S:
                self._memory.drop(self._followed.key)
                return
        if isinstance(error, BOTS_FAULT):
            raise error
        name = texts.code(self._followed.request.get("file_name", "your file"))
        brief = "your submission was not accepted; submit it again to see why."
        await self._say("refused", f"{name} was not submitted. {explain(error)}", brief)
        self._memory.end(self._followed.key)

    async def _shown(self) -> dict[str, Any]:
        number = self._followed.submission
        shown: dict[str, Any] = await self._api.get(
            f"/submissions/{number}", self._person, patience_s=SUBMIT_PATIENCE_S
        )
        return shown

    async def _watch(self, submission: dict[str, Any], live: Live) -> None:
        """Keep the message up to date until the submission is done."""
        moved = asyncio.Event()
        moved.set()
        reader = asyncio.create_task(self._read(live, moved))
        try:
            shown = ""
            while not reader.done() or moved.is_set():
                waiter = asyncio.create_task(moved.wait())
                await asyncio.wait({waiter, reader}, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
                moved.clear()
                last_event, text = self._last_event, render(submission, live, self.url)
                if reader.done():
                    break
                if text != shown:
                    await self._placing.edit(text)
                    shown = text
                    self._tell_place()
                self._followed.progress = live.progress()
                self._memory.seen(self._followed.key, last_event, self._followed.progress)
                await asyncio.wait({reader}, timeout=self._bot.parts.config.edit_every_s)
            await reader
        finally:
            reader.cancel()

    def _tell_place(self) -> None:
        if self._ticket is not None:
            self._ticket.put(self._placing.place)

    async def _read(self, live: Live, moved: asyncio.Event) -> None:
        number = self._followed.submission
        assert number is not None
        async for each in self._api.follow(number, self._person, after=self._last_event):
            self._take(live, each)
            moved.set()

    def _take(self, live: Live, happening: Happening) -> None:
        live.apply(happening)
        if happening.id is not None:
            self._last_event = max(self._last_event, happening.id)

    async def _report(self, submission: dict[str, Any]) -> None:
        for job in submission["jobs"]:
            for number, each in enumerate(reports.private_report(job, self.url)):
                await self._placing.say(f"report:{job['id']}:{number}", each)
        told = await announcement.public_report(self._bot, self._followed, submission)
        last = f"<@{self._followed.user_id}> done: <{self.url}>"
        if told is not None:
            last += f" · public: <#{told}>"
        brief = f"<@{self._followed.user_id}> Submission #{submission['id']} has ended: <{self.url}>"
        await self._placing.say("last", texts.Outgoing(last), brief=brief)

    async def _say(self, part: str, text: str, brief: str) -> None:
        for number, each in enumerate(texts.pack([text])):
            openly = f"<@{self._followed.user_id}> {brief}" if number == 0 else ""
            await self._placing.say(f"{part}:{number}", each, brief=openly)
