"""``kernelcup bot``: the Discord bot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.options import ConfigOption
from kernelcup.errors import ConfigError, InvalidValue

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot
    from kernelcup.config.settings import Config
    from kernelcup.domain.answers import CheckResult

logger = logging.getLogger(__name__)

EXTRA = "the Discord bot needs discord.py: pip install '.[discord]' in a copy of the project"


def bot(
    config: ConfigOption = None,
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
) -> None:
    """Run the Discord bot until it is stopped.

    It needs KERNELCUP_DISCORD_TOKEN (of your Discord application) and KERNELCUP_BOT_TOKEN (a token of an
    admin with the scopes act and admin). The server's address is KERNELCUP_API_URL, or else the
    configuration's.
    """
    from kernelcup.bot.context import BotConfig
    from kernelcup.http import logs

    if log_format not in ("text", "json"):
        raise InvalidValue(f"--log-format {log_format}: expected text or json")
    settings = wiring.load_config(config)
    bot_config = BotConfig.of(settings)
    logs.set_up(as_json=log_format == "json")
    made = make_bot(settings)
    typer.echo(f"the bot uses {bot_config.api_url}")
    run(made, bot_config.token)


def make_bot(settings: Config, *, api_url: str | None = None) -> KernelCupBot:
    """Return the bot, not started. Raise ``ConfigError`` where something is missing."""
    from kernelcup.bot.context import BotConfig

    config = BotConfig.of(settings)
    if api_url is not None:
        config = replace(config, api_url=api_url)
    with discord_imported():
        from kernelcup.bot.app import KernelCupBot
    return KernelCupBot(config)


def look(settings: Config) -> list[CheckResult]:
    """Return whether the bot could work. Raise ``ConfigError`` where something is missing."""
    from kernelcup.bot.context import BotConfig

    config = BotConfig.of(settings)
    with discord_imported():
        from kernelcup.bot import self_check

    async def all_of_it() -> list[CheckResult]:
        return [each async for each in self_check.look(config)]

    return asyncio.run(all_of_it())


@contextlib.contextmanager
def discord_imported() -> Iterator[None]:
    """Import discord.py without its warning. Raise ``ConfigError`` where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
            yield
    except ImportError as error:
        raise ConfigError(f"{EXTRA} ({error})") from error


def run(made: KernelCupBot, token: str) -> None:
    """Run a bot until it is stopped by Ctrl-C or SIGTERM. Raise ``ConfigError`` where Discord refuses it."""

    async def main() -> None:
        async with made:
            running = asyncio.ensure_future(made.start(token))
            # Signal handlers need the main thread, and not every system has them.
            with contextlib.suppress(NotImplementedError, RuntimeError):
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
            await running

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError), discord_errors():
        asyncio.run(main())


@contextlib.contextmanager
def discord_errors() -> Iterator[None]:
    """Turn refusals by Discord that only the operator can fix into ``ConfigError``."""
    import discord

    try:
        yield
    except discord.LoginFailure as error:
        raise ConfigError("KERNELCUP_DISCORD_TOKEN: Discord rejects this token") from error
    except discord.PrivilegedIntentsRequired as error:
        raise ConfigError(f"Discord requires intents to be enabled: {error}") from error


class BotThread:
    """A bot that runs in its own thread beside a server."""

    def __init__(self, settings: Config, api_url: str) -> None:
        from kernelcup.bot.context import API_VARIABLE

        self._loop: asyncio.AbstractEventLoop | None = None
        self._bot = make_bot(settings, api_url=settings.environ.get(API_VARIABLE) or api_url)
        self._thread = threading.Thread(target=self._run, name="bot", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the bot is running."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop the bot. The submissions that it follows are picked up again at the next start."""
        loop = self._loop
        if loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(self._bot.close(), loop)
        self._thread.join(10)

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            async with self._bot:
                await self._bot.start(self._bot.parts.config.token)

        try:
            with discord_errors():
                asyncio.run(main())
        except Exception:
            logger.exception("the Discord bot stopped; the server keeps running without it")
