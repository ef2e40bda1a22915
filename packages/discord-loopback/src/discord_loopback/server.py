"""The loopback Discord: everything that a test needs in one object."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from aiohttp import web

from . import routes_application, routes_guilds, routes_interactions, routes_messages, routes_threads
from .errors import Json, Refusal
from .gateway import GatewayServer
from .guilds import GuildDriver
from .interaction import Person
from .permissions import BOT, EVERYONE, sees
from .state import Channel, Message, User
from .transcript import Transcript
from .users import Users, account, visible
from .web import MAX_BODY, add_routes, json_response
from .world import TOKEN, Fault, Request, World

if TYPE_CHECKING:
    import discord

T = TypeVar("T")
ROUTE_MODULES = (routes_application, routes_guilds, routes_interactions, routes_messages, routes_threads)


class LoopbackDiscord(Users):
    """A Discord of its own on 127.0.0.1, with what its users do (``slash``, ``press``, ``choose``, ``say``).

    Attributes:
        token: The bot token that is accepted.
        url: The address of the HTTP side.
        gateway_url: The address of the gateway.
        world: The whole state, for tests that look closer.
        gateway: Sessions and connections.
        clock: The virtual clock.
        transcript: All that users did and saw, in order.
    """

    token = TOKEN

    def __init__(self, pace: float = 100, bot_name: str = "bot") -> None:
        super().__init__(World(bot_name))
        self.world.rates.pace = pace
        self.gateway = self.world.gateway = GatewayServer(self.world)
        self.clock = self.world.clock
        self.transcript: Transcript = self.world.transcript
        self.url = ""
        self._runner: web.AppRunner | None = None

    # ---- life

    @classmethod
    async def start(cls, *, pace: float = 100, bot_name: str = "bot") -> Self:
        """Start on a free port.

        Args:
            bot_name: The name of the bot's account.
            pace: How many times faster than in reality rate-limit windows, retries and reconnects pass.
        """
        loopback = cls(pace, bot_name)
        app = web.Application(client_max_size=MAX_BODY)
        add_routes(app, loopback.world)
        app.router.add_get("/gateway/", loopback.gateway.connection)
        app.router.add_get("/{folder:(ephemeral-)?attachments}/{channel}/{id}/{name}", loopback._download)
        loopback._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await loopback._runner.setup()
        await web.TCPSite(loopback._runner, "127.0.0.1", 0).start()
        port = loopback._runner.addresses[0][1]
        loopback.url = loopback.world.cdn.base = f"http://127.0.0.1:{port}"
        loopback.world.gateway_url = f"ws://127.0.0.1:{port}/gateway/"
        return loopback

    async def stop(self) -> None:
        """End every connection and give the port back."""
        await self.gateway.drop(1001)
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
        self.check()

    def check(self) -> None:
        """Fail if the bot asked for something that this Discord cannot do; the end of a block does so too."""
        if self.world.bugs:
            raise ExceptionGroup("the loopback Discord could not answer", self.world.bugs)

    @property
    def gateway_url(self) -> str:
        """The address of the gateway."""
        return self.world.gateway_url

    def patched(self) -> AbstractContextManager[None]:
        """Every discord.py client that is made and started within talks to this Discord."""
        from .patching import patched

        return patched(self.url, self.gateway_url, self.clock, self.world.rates.pace)

    @asynccontextmanager
    async def connect(
        self, client: discord.Client, *, token: str = TOKEN, timeout_s: float = 30
    ) -> AsyncIterator[None]:
        """Run a client until the block ends; the block begins when the client is ready."""
        from .patching import first_of, hurry

        with self.patched():
            hurry(client)
            task = asyncio.create_task(client.start(token))
            try:
                await first_of(_ready(client, task), task, timeout_s)
                if client.intents.guilds:
                    await self.until(lambda: self._all_guilds_known(client), "guilds", timeout_s)
                yield
            finally:
                await client.close()
                await asyncio.gather(task, return_exceptions=True)

    # ---- guilds and people

    def add_guild(
        self, name: str = "GPU people", *, everyone: int = EVERYONE, bot_permissions: int = BOT
    ) -> GuildDriver:
        """A guild with its owner and the bot in it."""
        return GuildDriver(self.world, name, everyone, bot_permissions)

    def remove_guild(self, guild: GuildDriver) -> None:
        """The bot is thrown out."""
        guild.leave()

    def close_dms(self, person: Person, *, closed: bool = True) -> None:
        """Somebody lets nobody write to them."""
        account(person).dms_closed = closed

    def dm(self, person: Person) -> Channel:
        """The conversation between somebody and the bot."""
        return self.world.dm(account(person))

    @property
    def bot(self) -> User:
        """The bot's account."""
        return self.world.bot

    # ---- what is there

    def messages(self, channel: Channel, *, seen_by: Person | None = None) -> list[Message]:
        """The messages of a channel, a thread or a DM, the oldest first; of all, or those that somebody sees."""
        found = list(channel.messages.values())
        return found if seen_by is None else [m for m in found if visible(account(seen_by), m)]

    def threads(
        self, channel: Channel, *, seen_by: Person | None = None, archived: bool | None = None
    ) -> list[Channel]:
        """The threads or posts of a channel, the oldest first."""
        assert channel.guild is not None
        found = [t for t in channel.guild.threads.values() if t.parent is channel and t.thread]
        if archived is not None:
            found = [t for t in found if t.thread and t.thread.archived == archived]
        return found if seen_by is None else [t for t in found if sees(account(seen_by), t)]

    def command_names(self, guild: GuildDriver | None = None) -> set[str]:
        """The full names of all registered commands: ``leaderboard submit test``."""
        registered = self.world.commands.get(guild.id if guild else None, [])
        return {name for command in registered for name in _names(command, "")}

    @property
    def requests(self) -> list[Request]:
        """All requests of the bot with the answers' status."""
        return self.world.requests

    # ---- time and trouble

    def advance(self, seconds: float) -> None:
        """Let time pass: deadlines of interactions, tokens, addresses of files, idle threads."""
        self.clock.advance(seconds)
        routes_threads.archive_idle(self.world)
        self.world.changed()

    async def until(self, look: Callable[[], T | None], what: str = "that", timeout_s: float = 30) -> T:
        """Wait until a look finds something; it looks again after every change."""
        return await self.world.until(look, what, timeout_s)

    def fail(
        self,
        status: int,
        times: int = 1,
        *,
        matches: str = "",
        retry_after: float = 1.0,
        cloudflare: bool = False,
        body: Json | None = None,
    ) -> None:
        """Answer the next requests with an error.

        Args:
            status: 429, 500, 502, 503 and so on.
            times: How many requests.
            matches: Only those whose method and path contain this: ``"POST /api/v10/channels"``.
            retry_after: For a 429.
            cloudflare: Make a 429 without ``Via``, which means a ban.
            body: The JSON of the answer.
        """
        headers: dict[str, str] = {}
        if status == 429 and not cloudflare:
            headers = {
                "Via": "1.1 google",
                "Retry-After": f"{retry_after:.3f}",
                "X-RateLimit-Scope": "shared",
            }
            body = body or {
                "message": "You are being rate limited.",
                "retry_after": retry_after,
                "global": False,
            }
        self.world.faults.append(
            Fault(status, times, matches, body or {"message": "error", "code": 0}, headers)
        )

    async def drop(self, code: int | None = 4000) -> None:
        """End the connections to the gateway: with a close code, or (None) without a word."""
        await self.gateway.drop(code)

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Turn new connections to the gateway away; events are kept for those who resume."""
        self.gateway.refusing = True
        try:
            yield
        finally:
            self.gateway.refusing = False

    @property
    def connected(self) -> bool:
        """Whether a session has a connection now."""
        return any(session.link is not None for session in self.gateway.sessions.values())

    def _all_guilds_known(self, client: discord.Client) -> bool:
        found = [client.get_guild(guild) for guild in self.world.guilds]
        return all(guild is not None and not guild.unavailable for guild in found)

    async def _download(self, request: web.Request) -> web.Response:
        query = request.query
        try:
            file = self.world.cdn.read(
                int(request.match_info["id"]), query.get("ex", ""), query.get("hm", "")
            )
        except Refusal as error:
            return json_response(error.body(), error.status)
        return web.Response(body=file.data, headers={"Content-Type": file.content_type})


def _names(command: Json, before: str) -> Iterator[str]:
    name = f"{before}{command['name']}"
    below = [option for option in command.get("options") or [] if option["type"] in (1, 2)]
    if not below:
        yield name
    for option in below:
        yield from _names(option, f"{name} ")


async def _ready(client: discord.Client, task: asyncio.Task[None]) -> None:
    """Wait until a client is ready; before its login there is nothing to wait for."""
    while not task.done():
        try:
            await client.wait_until_ready()
        except RuntimeError:
            await asyncio.sleep(0)
        else:
            return
