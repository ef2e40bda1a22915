"""What the loopback Discord knows: guilds, people, channels, threads, messages, files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from .errors import Json

TEXT, DM, CATEGORY, FORUM = 0, 1, 4, 15
PUBLIC_THREAD, PRIVATE_THREAD = 11, 12
EPHEMERAL, LOADING, COMPONENTS_V2 = 1 << 6, 1 << 7, 1 << 15
BUTTON, STRING_SELECT, TEXT_INPUT, LABEL = 2, 3, 4, 18
LINK_STYLE = 5


@dataclass(eq=False)
class User:
    """An account."""

    id: int
    name: str
    bot: bool = False
    dms_closed: bool = False
    global_name: str | None = None
    """The name that others see; None if it is ``name``."""

    @property
    def mention(self) -> str:
        """The text that mentions them."""
        return f"<@{self.id}>"


@dataclass(eq=False)
class Role:
    """A role of a guild."""

    id: int
    name: str
    permissions: int = 0
    position: int = 1
    color: int = 0
    hoist: bool = False
    mentionable: bool = False
    managed: bool = False

    @property
    def mention(self) -> str:
        """The text that mentions its members."""
        return f"<@&{self.id}>"


@dataclass(eq=False)
class Member:
    """A user in a guild."""

    user: User
    guild: Guild = field(repr=False)
    joined_at: datetime
    roles: list[Role] = field(default_factory=list)
    nick: str | None = None

    @property
    def id(self) -> int:
        """The id of the user."""
        return self.user.id

    @property
    def name(self) -> str:
        """The name of the user."""
        return self.user.name


@dataclass(eq=False)
class Guild:
    """A server."""

    id: int
    name: str
    owner: User
    created_at: datetime
    roles: dict[int, Role] = field(default_factory=dict, repr=False)
    members: dict[int, Member] = field(default_factory=dict, repr=False)
    channels: dict[int, Channel] = field(default_factory=dict, repr=False)
    threads: dict[int, Channel] = field(default_factory=dict, repr=False)

    @property
    def everyone(self) -> Role:
        """The role that everybody has; its id is the guild's."""
        return self.roles[self.id]


@dataclass(frozen=True)
class Overwrite:
    """What a channel allows and denies to a role (0) or a member (1)."""

    kind: int
    allow: int = 0
    deny: int = 0


@dataclass(eq=False)
class ThreadState:
    """What a thread has beyond a channel."""

    owner_id: int
    changed_at: datetime
    archived: bool = False
    locked: bool = False
    invitable: bool = True
    auto_archive_minutes: int = 1440
    members: dict[int, datetime] = field(default_factory=dict, repr=False)
    last_activity: datetime | None = None


@dataclass(eq=False)
class Channel:
    """A channel, a category, a forum, a thread or a DM."""

    id: int
    kind: int
    name: str
    guild: Guild | None = field(default=None, repr=False)
    parent: Channel | None = field(default=None, repr=False)
    topic: str | None = None
    position: int = 0
    slowmode_s: int = 0
    flags: int = 0
    overwrites: dict[int, Overwrite] = field(default_factory=dict)
    recipient: User | None = None
    thread: ThreadState | None = None
    messages: dict[int, Message] = field(default_factory=dict, repr=False)

    @property
    def private(self) -> bool:
        """Whether it is a thread for those who were added only."""
        return self.kind == PRIVATE_THREAD


@dataclass(eq=False)
class Attachment:
    """A file of a message or of a command."""

    id: int
    channel_id: int
    filename: str
    data: bytes
    content_type: str
    ephemeral: bool = False
    description: str | None = None


@dataclass(eq=False)
class Message:
    """A message and what became of it."""

    id: int
    channel: Channel
    author: User
    created_at: datetime
    content: str = ""
    embeds: list[Json] = field(default_factory=list)
    components: list[Json] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    flags: int = 0
    kind: int = 0
    edited_at: datetime | None = None
    deleted: bool = False
    pinned: bool = False
    webhook: bool = False
    ephemeral_to: User | None = None
    reference: Json | None = None
    thread: Channel | None = None
    pings: set[str] = field(default_factory=set)
    versions: list[str] = field(default_factory=list)
    reactions: dict[str, set[int]] = field(default_factory=dict)
    nonce: str | None = None

    @property
    def ephemeral(self) -> bool:
        """Whether only one person sees it."""
        return self.ephemeral_to is not None

    @property
    def loading(self) -> bool:
        """Whether it still says that the bot is thinking."""
        return bool(self.flags & LOADING)

    @property
    def files(self) -> dict[str, bytes]:
        """The attached files by name."""
        return {attachment.filename: attachment.data for attachment in self.attachments}

    @property
    def text(self) -> str:
        """All that can be read in it: content, embeds and texts of components."""
        parts = [self.content, *(text for embed in self.embeds for text in embed_texts(embed))]
        parts += [part["content"] for part in walk(self.components) if part["type"] == 10]
        return "\n".join(part for part in parts if part)

    @property
    def controls(self) -> list[Json]:
        """Its buttons and menus."""
        return [part for part in walk(self.components) if "custom_id" in part]


def thread_parts(channel: Channel) -> tuple[ThreadState, Guild, Channel]:
    """A thread's own state, its guild and the channel that it belongs to."""
    if channel.thread is None or channel.guild is None or channel.parent is None:
        raise TypeError(f"{channel.name} is no thread")
    return channel.thread, channel.guild, channel.parent


def embed_texts(embed: Json) -> Iterator[str]:
    """Every text of an embed that counts against the limit of 6000."""
    yield from (embed.get("title") or "", embed.get("description") or "")
    yield (embed.get("footer") or {}).get("text") or ""
    yield (embed.get("author") or {}).get("name") or ""
    for row in embed.get("fields") or []:
        yield row.get("name") or ""
        yield row.get("value") or ""


def walk(components: list[Json]) -> Iterator[Json]:
    """All components, those inside others too, in the order in which they are shown."""
    for component in components:
        yield component
        yield from walk(component.get("components") or [])
        for key in ("component", "accessory"):
            if component.get(key):
                yield from walk([component[key]])
