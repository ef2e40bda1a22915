"""The context of the bot's commands: settings, API and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelcup.errors import ConfigError

if TYPE_CHECKING:
    from kernelcup.bot.api import Api
    from kernelcup.bot.delivery.follower import Follower
    from kernelcup.bot.guild_setup import Guilds
    from kernelcup.bot.state import Memory
    from kernelcup.config.settings import Config

TOKEN_VARIABLE = "KERNELCUP_DISCORD_TOKEN"
SERVICE_VARIABLE = "KERNELCUP_BOT_TOKEN"
API_VARIABLE = "KERNELCUP_API_URL"
GUILDS_VARIABLE = "KERNELCUP_DISCORD_GUILDS"
ROLE_VARIABLE = "KERNELCUP_DISCORD_NEWS_ROLE"


@dataclass(frozen=True, kw_only=True)
class BotConfig:
    """The bot's settings for Discord and the platform."""

    token: str = field(repr=False)
    """Discord's token of the application."""
    service_token: str = field(repr=False)
    """The platform's token, with the scope ``act``; with ``admin`` too, guild roles map to platform roles."""
    api_url: str
    public_url: str
    """Address of the web pages."""
    data_dir: Path
    role_guilds: frozenset[int] = frozenset()
    """Guilds whose roles make creators and admins; if none is named, the bot's only guild."""
    news_role: str = ""
    """The name of the guild role that is mentioned for each new leaderboard; empty for none."""
    edit_every_s: float = 1.5
    """The least time between two edits of one message."""

    @property
    def memory_file(self) -> Path:
        """The file with the bot's persistent state."""
        return self.data_dir / "bot.db"

    @classmethod
    def of(cls, config: Config) -> BotConfig:
        """Read the bot's settings. Raise ``ConfigError`` if a token is missing or a guild is not a number."""
        environ = config.environ
        return cls(
            token=_needed(environ, TOKEN_VARIABLE, "the token of your Discord application's bot"),
            service_token=_needed(
                environ, SERVICE_VARIABLE, "a token of an admin: kernelcup admin token create --scope act ..."
            ),
            api_url=environ.get(API_VARIABLE) or config.server.public_url,
            public_url=config.server.public_url,
            data_dir=config.data_dir,
            role_guilds=_numbers(environ.get(GUILDS_VARIABLE, "")),
            news_role=environ.get(ROLE_VARIABLE, ""),
        )


@dataclass(kw_only=True)
class Parts:
    """The parts of one running bot that its commands use."""

    config: BotConfig
    api: Api
    memory: Memory
    follower: Follower
    guilds: Guilds
    boards_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after a leaderboard was created, changed or deleted, to update the forum at once."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Return whether a bot can be started from this environment."""
    return bool(environ.get(TOKEN_VARIABLE) and environ.get(SERVICE_VARIABLE))


def _needed(environ: Mapping[str, str], name: str, what: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"{name} is not set: {what}")
    return value


def _numbers(text: str) -> frozenset[int]:
    words = text.replace(",", " ").split()
    if any(not word.isdecimal() for word in words):
        raise ConfigError(f"{GUILDS_VARIABLE}={text}: expected guild ids, separated by commas")
    return frozenset(int(word) for word in words)
