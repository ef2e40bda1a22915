"""What the tests of the loopback Discord use: a plain REST client, and a bot of discord.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import discord
from discord import app_commands
from discord_loopback import LoopbackDiscord

Step = Callable[[discord.Interaction], Awaitable[object]]


@dataclass(frozen=True)
class Reply:
    """The answer to a plain request."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def refused(self) -> tuple[int, int]:
        """The status and Discord's code."""
        return self.status, self.body["code"]


class Rest:
    """Plain requests, without discord.py's own checks in the way."""

    def __init__(self, loopback: LoopbackDiscord) -> None:
        self._loopback = loopback

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def __call__(self, method: str, path: str, json: object = None, **more: Any) -> Reply:
        """Send a request."""
        headers = {"Authorization": f"Bot {self._loopback.token}"} | more.pop("headers", {})
        url = f"{self._loopback.url}/api/v10{path}"
        async with self._session.request(method, url, json=json, headers=headers, **more) as response:
            body = (
                await response.json()
                if response.content_type == "application/json"
                else await response.read()
            )
            return Reply(response.status, body, dict(response.headers))

    async def upload(self, path: str, payload: str, files: dict[str, bytes]) -> Reply:
        """Send a message with files."""
        form = aiohttp.FormData(quote_fields=False)
        form.add_field("payload_json", payload)
        for i, (name, data) in enumerate(files.items()):
            form.add_field(f"files[{i}]", data, filename=name)
        return await self("POST", path, data=form)

    async def download(self, url: str) -> Reply:
        """Fetch a file from the CDN."""
        async with self._session.get(url) as response:
            return Reply(response.status, await response.read(), {})

    def gateway(self, query: str = "") -> Any:
        """Open a plain connection to the gateway."""
        return self._session.ws_connect(f"{self._loopback.gateway_url}?v=10&encoding=json{query}")


class Probe(discord.Client):
    """A bot with a few commands; a test says what each does.

    Attributes:
        steps: What to do, by command: ``"ping"``, ``"board submit test"``, ``"board delete"``.
        offered: What autocomplete of ``board`` offers.
        refusals: Discord's codes of the requests that failed in a step.
        heard: The texts of messages that the bot heard.
    """

    def __init__(self, intents: discord.Intents | None = None) -> None:
        super().__init__(intents=intents or discord.Intents.default())
        self.tree = app_commands.CommandTree(self)
        self.steps: dict[str, Step] = {}
        self.offered: list[str] = []
        self.refusals: list[int] = []
        self.heard: list[str] = []
        self.resumed = 0
        _add_commands(self)

    async def setup_hook(self) -> None:
        """Register the commands."""
        await self.tree.sync()

    async def on_message(self, message: discord.Message) -> None:
        """Remember what was said."""
        self.heard.append(message.content)

    async def on_resumed(self) -> None:
        """Count."""
        self.resumed += 1

    async def take_step(self, command: str, interaction: discord.Interaction) -> None:
        """Do what the test said."""
        try:
            await self.steps[command](interaction)
        except discord.HTTPException as error:
            self.refusals.append(error.code)


def _add_commands(bot: Probe) -> None:
    board = app_commands.Group(name="board", description="Boards")
    submit = app_commands.Group(name="submit", description="Submit", parent=board)
    bot.tree.add_command(board)

    @bot.tree.command(name="ping", description="Answer")
    async def ping(interaction: discord.Interaction) -> None:
        await bot.take_step("ping", interaction)

    @submit.command(name="test", description="Test a file")
    async def test(
        interaction: discord.Interaction, script: discord.Attachment, board: str | None = None
    ) -> None:
        interaction.extras |= {"script": script, "board": board}
        await bot.take_step("board submit test", interaction)

    @test.autocomplete("board")
    async def offer(interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
        return [app_commands.Choice(name=name, value=name) for name in bot.offered if typed in name]

    @board.command(name="delete", description="Delete a board")
    @app_commands.choices(how=[app_commands.Choice(name="Softly", value="soft")])
    async def delete(
        interaction: discord.Interaction, number: app_commands.Range[int, 1, 9], how: str = ""
    ) -> None:
        await bot.take_step("board delete", interaction)

    @bot.tree.command(name="rule", description="For those who manage the guild")
    @app_commands.default_permissions(manage_guild=True)
    async def rule(interaction: discord.Interaction, who: discord.Member, role: discord.Role) -> None:
        interaction.extras |= {"who": who, "role": role}
        await bot.take_step("rule", interaction)
