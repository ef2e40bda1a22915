"""The state of the loopback Discord with what ties its parts together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from . import permissions
from .cdn import Cdn
from .clock import Snowflakes, VirtualClock
from .errors import Json, missing_access, missing_permissions, unknown
from .limits import Sizes
from .payloads import channel_json, message_json
from .permissions import Permission
from .ratelimits import RateLimits
from .state import DM, Attachment, Channel, Guild, Member, Message, Role, User
from .transcript import Transcript

if TYPE_CHECKING:
    from .interaction import Interaction

T = TypeVar("T")
LOOK_AGAIN_S = 0.02
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.loopback.bot-token"


class Gateway(Protocol):
    """Where events go."""

    def emit(self, event: str, data: Json, *, intent: int = 0, channel: Channel | None = None) -> None:
        """Tell every session that asked for such events."""


@dataclass
class Fault:
    """An answer that a test ordered in place of the next matching request's own."""

    status: int
    times: int
    matches: str
    body: Json
    headers: dict[str, str]


@dataclass(frozen=True)
class Request:
    """A request that the bot made, with how it was answered."""

    method: str
    path: str
    status: int


@dataclass
class World:
    """Everything."""

    bot_name: str = "bot"
    clock: VirtualClock = field(default_factory=VirtualClock)
    sizes: Sizes = field(default_factory=Sizes)
    rates: RateLimits = field(default_factory=RateLimits)
    guilds: dict[int, Guild] = field(default_factory=dict)
    users: dict[int, User] = field(default_factory=dict)
    dms: dict[int, Channel] = field(default_factory=dict)
    commands: dict[int | None, list[Json]] = field(default_factory=dict)
    interactions: dict[int, Interaction] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    bugs: list[Exception] = field(default_factory=list)
    allowed_mentions: list[Json | None] = field(default_factory=list)
    """What each text that the bot sent or changed allows; None for everything."""

    def __post_init__(self) -> None:
        self.ids = Snowflakes(self.clock)
        self.transcript = Transcript(self.clock)
        self.cdn = Cdn(self.clock)
        self.gateway: Gateway
        self.gateway_url = ""
        self.bot = self.add_user(self.bot_name, bot=True)
        self.owner = self.add_user("owner")
        self._waiting: deque[asyncio.Event] = deque()

    # ---- waiting

    def changed(self) -> None:
        """Wake those who wait for something."""
        for event in self._waiting:
            event.set()

    async def until(self, look: Callable[[], T | None], what: str = "that", timeout_s: float = 30) -> T:
        """Wait until a look finds something, and return it.

        It looks after every change here, and now and then for what changes in the bot only.

        Raises:
            TimeoutError: Nothing came in real time.
        """
        event = asyncio.Event()
        self._waiting.append(event)
        try:
            async with asyncio.timeout(timeout_s):
                while not (found := look()):
                    event.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(event.wait(), LOOK_AGAIN_S)
                return found
        except TimeoutError:
            raise TimeoutError(f"waited {timeout_s} s in vain for {what}") from None
        finally:
            self._waiting.remove(event)

    # ---- things by id

    def add_user(self, name: str, *, bot: bool = False) -> User:
        """A new account."""
        user = User(self.ids.next(), name, bot)
        self.users[user.id] = user
        return user

    def guild(self, guild_id: int) -> Guild:
        """A guild that the bot is in."""
        if guild_id not in self.guilds:
            raise unknown("Guild")
        return self.guilds[guild_id]

    def find_channel(self, channel_id: int) -> Channel | None:
        """A channel, thread or DM, seen by the bot or not."""
        for guild in self.guilds.values():
            found = guild.channels.get(channel_id) or guild.threads.get(channel_id)
            if found is not None:
                return found
        return next((dm for dm in self.dms.values() if dm.id == channel_id), None)

    def channel(self, channel_id: int, *need: Permission) -> Channel:
        """A channel that the bot sees and where it may do what is needed.

        Raises:
            Refusal: Unknown Channel, Missing Access or Missing Permissions.
        """
        channel = self.find_channel(channel_id)
        if channel is None:
            raise unknown("Channel")
        if not permissions.sees(self.bot, channel):
            raise missing_access()
        self.need(channel, *need)
        return channel

    def need(self, channel: Channel, *need: Permission) -> None:
        """Refuse unless the bot may do that in a channel; in DMs it may."""
        if channel.guild is None:
            return
        allowed = permissions.in_channel(self.me(channel.guild), channel)
        if any(not allowed & permission for permission in need):
            raise missing_permissions()

    def need_in_guild(self, guild: Guild, permission: Permission) -> None:
        """Refuse unless the bot's roles allow it."""
        if not permissions.in_guild(self.me(guild)) & permission:
            raise missing_permissions()

    def can(self, channel: Channel, permission: Permission) -> bool:
        """Whether the bot may do something in a channel."""
        return channel.guild is None or bool(
            permissions.in_channel(self.me(channel.guild), channel) & permission
        )

    def me(self, guild: Guild) -> Member:
        """The bot in a guild."""
        return guild.members[self.bot.id]

    def member(self, guild: Guild, user_id: int) -> Member:
        """A member of a guild."""
        if user_id not in guild.members:
            raise unknown("Member")
        return guild.members[user_id]

    def role(self, guild: Guild, role_id: int) -> Role:
        """A role of a guild."""
        if role_id not in guild.roles:
            raise unknown("Role")
        return guild.roles[role_id]

    def message(self, channel: Channel, message_id: int) -> Message:
        """A message that can be reached through its channel; ephemeral ones cannot."""
        message = channel.messages.get(message_id)
        if message is None or message.ephemeral:
            raise unknown("Message")
        return message

    def dm(self, user: User) -> Channel:
        """The bot's conversation with a user."""
        if user.id not in self.dms:
            self.dms[user.id] = Channel(self.ids.next(), DM, "", recipient=user)
        return self.dms[user.id]

    def attachment(self, channel_id: int, name: str, data: bytes, *, ephemeral: bool = False) -> Attachment:
        """A file, kept by the CDN."""
        kind = "text/plain; charset=utf-8" if _is_text(data) else "application/octet-stream"
        file = Attachment(self.ids.next(), channel_id, name, data, kind, ephemeral)
        self.cdn.keep(file)
        return file

    # ---- telling the bot

    def tell_channel(self, event: str, channel: Channel, **more: object) -> None:
        """An event about a channel or thread."""
        self.gateway.emit(event, channel_json(channel, viewer=self.bot) | more, intent=1, channel=channel)
        self.changed()

    def tell_message(self, event: str, message: Message) -> None:
        """An event about a message."""
        channel = message.channel
        data = message_json(message, self.cdn)
        if channel.guild is not None:
            data["guild_id"] = str(channel.guild.id)
        if not message.ephemeral:
            self.gateway.emit(
                event, data, intent=1 << 12 if channel.guild is None else 1 << 9, channel=channel
            )
        self.changed()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
