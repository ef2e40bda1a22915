"""A whole service with its bot: the platform behind a socket, a loopback Discord with one guild, a judge.

The platform's clock is the loopback's, which stands still until a test moves it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discord_loopback import Channel, GuildDriver, LoopbackDiscord, Member, Message

from builders import make_actor, make_board
from kernelcup.app.access import HERE
from kernelcup.app.people.accounts import sign_in
from kernelcup.app.people.queries import users
from kernelcup.app.people.tokens import create_token
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.bot.app import KernelCupBot
from kernelcup.bot.context import BotConfig
from kernelcup.bot.delivery import forum
from kernelcup.config.settings import Config
from kernelcup.domain import Device, Leaderboard, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.http.server import WebServer, listen, url_of
from kernelcup.http.state import Platform
from kernelcup.launchers.base import Launcher

SECRET = "a-secret-that-signs-the-cookies-of-tests"
SCOPES = frozenset({Scope.READ, Scope.SUBMIT, Scope.ACT, Scope.ADMIN})
PUBLIC_URL = "https://cup.example.org"
WAIT_S = 15.0

NO_MENTIONS = {"parse": []}


@dataclass(kw_only=True)
class Stage:
    """What a test acts on."""

    discord: LoopbackDiscord
    guild: GuildDriver
    platform: Platform
    db: Database
    config: Config
    bot_config: BotConfig
    bot: KernelCupBot

    @property
    def room(self) -> Channel:
        """The channel in which people submit."""
        return self.guild.channel("submissions")

    @property
    def forum(self) -> Channel:
        """The forum."""
        return self.guild.channel("central")

    def creator(self, name: str = "grace") -> Member:
        """Somebody whose role lets them make leaderboards."""
        return self.guild.add_member(name, ["Leaderboard Creator"])

    def admin(self, name: str = "root") -> Member:
        """Somebody whose role lets them do everything."""
        return self.guild.add_member(name, ["Leaderboard Admin"])

    def account(self, member: Member) -> str:
        """The name of somebody on the platform, who has an account from now on."""
        now = self.discord.clock.now()
        shown = member.user.global_name or ""
        user_id = sign_in(
            self.db,
            provider="discord",
            subject=str(member.id),
            login=member.name,
            display_name=shown,
            now=now,
        )
        with self.db.read() as session:
            user = users.get(session, user_id)
        assert user is not None
        return user.name

    def board(self, name: str, **overrides: Any) -> Leaderboard:
        """Store a leaderboard."""
        return make_board(self.db, **({"name": name, "now": self.discord.clock.now()} | overrides))

    def posts(self) -> Mapping[str, Channel]:
        """The forum's threads by name."""
        return {thread.name: thread for thread in self.discord.threads(self.forum)}

    async def post(self, name: str) -> Channel:
        """Wait for a forum thread."""
        return await self.discord.until(lambda: self.posts().get(name), f"a thread for {name}", WAIT_S)

    def top(self, name: str) -> Message:
        """The first message of a forum thread."""
        return self.discord.messages(self.posts()[name])[0]

    async def look_at_forum(self) -> None:
        """Let the bot compare the forum with the leaderboards, once."""
        await forum.look(self.bot, self.bot.parts, self.discord.clock.now())


@asynccontextmanager
async def staged(
    discord: LoopbackDiscord,
    template: Path,
    folder: Path,
    devices: tuple[Device, ...],
    *,
    with_forum: bool = False,
) -> AsyncIterator[Stage]:
    """Start everything but a judge; at the end it is stopped. No text of the bot may have been free to mention anybody.

    Args:
        with_forum: Let the bot look at the forum by itself; else a test says when.
    """
    path = folder / "cup.db"
    shutil.copy(template, path)
    config = Config(
        file=None,
        data_dir=folder / "data",
        runtime_dir=folder / "run",
        database_url=f"sqlite:///{path}",
        configured_devices=devices,
        environ=os.environ,
        sandbox_required=False,
        sandbox_environment=(),
    )
    with Database.open(config.database_url) as db:
        platform = Platform(db=db, config=config, clock=discord.clock.now, secret=SECRET)
        with served(platform) as url:
            service = make_actor(db, "kernelcup-bot", role=Role.ADMIN)
            token = create_token(
                db, service, name="bot", scopes=SCOPES, entry=HERE, now=discord.clock.now()
            ).secret
            bot_config = BotConfig(
                token=discord.token,
                service_token=token,
                api_url=url,
                public_url=PUBLIC_URL,
                data_dir=folder / "bot",
                edit_every_s=0.02,
            )
            guild = discord.add_guild()
            async with connected(discord, guild, bot_config, with_forum=with_forum) as bot:
                yield Stage(
                    discord=discord,
                    guild=guild,
                    platform=platform,
                    db=db,
                    config=config,
                    bot_config=bot_config,
                    bot=bot,
                )
            assert [each for each in discord.world.allowed_mentions if each != NO_MENTIONS] == []


@asynccontextmanager
async def connected(
    discord: LoopbackDiscord, guild: GuildDriver, config: BotConfig, *, with_forum: bool = False
) -> AsyncIterator[KernelCupBot]:
    """Run a bot that has set its guild up and registered its commands."""
    bot = KernelCupBot(config, background=[forum] if with_forum else [])
    async with discord.connect(bot):
        await discord.until(lambda: "central" in guild.channels, "the forum", WAIT_S)
        await discord.until(lambda: "admin rejudge" in discord.command_names(), "commands", WAIT_S)
        yield bot


@contextmanager
def served(platform: Platform) -> Iterator[str]:
    """Serve a platform on a free port."""
    sock = listen("127.0.0.1", 0)
    server = WebServer(platform, sock)
    server.wait_until_ready()
    try:
        yield url_of(sock)
    finally:
        server.stop()
        sock.close()


@asynccontextmanager
async def judging(stage: Stage, launchers: Mapping[str, Launcher]) -> AsyncIterator[None]:
    """Work off the queue until the block ends."""
    dispatcher = Dispatcher(
        stage.db,
        devices=stage.config.devices,
        launchers=launchers,
        clock=stage.discord.clock.now,
        tick_s=0.02,
        heartbeat_s=0.2,
    )
    stop = threading.Event()
    thread = threading.Thread(target=dispatcher.run_forever, args=[stop], name="judge", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, 30)
