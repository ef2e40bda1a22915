"""The ordered record of all that users do and see."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from .clock import VirtualClock
from .errors import Json
from .state import Channel, Message


@dataclass(frozen=True)
class Record:
    """One thing that happened.

    Attributes:
        at: When, on the virtual clock.
        kind: What: ``command``, ``autocomplete``, ``choices``, ``press``, ``choose``, ``form`` (a modal is
            shown), ``fill``, ``thinking``, ``message``, ``edit``, ``delete``, ``failed`` (the application did
            not respond), ``thread``, ``thread_edit``, ``joined``, ``left``, ``channel``, ``role``, ``roles``,
            ``reaction``, ``pin``.
        who: The name of who did it.
        where: The name of the channel, the thread, or ``DM with NAME``.
        private_to: The only one who sees it, when it is ephemeral or a DM; otherwise None.
        text: The text as the author wrote it, in Discord's markdown.
        embeds: Its embeds.
        components: Its buttons, menus or the inputs of a form.
        files: The names and contents of attached files.
        message_id: Of the message, if it is about one; edits have the id of what they edit.
        detail: What else matters for its kind.
    """

    at: datetime
    kind: str
    who: str
    where: str
    private_to: str | None = None
    text: str = ""
    embeds: tuple[Json, ...] = ()
    components: tuple[Json, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    message_id: int | None = None
    detail: Json = field(default_factory=dict)


class Transcript(list[Record]):
    """All records, the oldest first."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def add(self, kind: str, who: str, channel: Channel, **more: object) -> None:
        """Record that something happened."""
        fields = {key: value for key, value in more.items() if key in Record.__dataclass_fields__}
        detail = {key: value for key, value in more.items() if key not in fields}
        self.append(Record(self._clock.now(), kind, who, place(channel), **fields, detail=detail))  # type: ignore[arg-type]

    def message(self, kind: str, message: Message, **detail: object) -> None:
        """Record a message as it looks now."""
        only = message.ephemeral_to or message.channel.recipient
        self.add(
            kind,
            message.author.name,
            message.channel,
            private_to=only.name if only else None,
            text=message.content,
            embeds=tuple(message.embeds),
            components=tuple(message.components),
            files=tuple(message.files.items()),
            message_id=message.id,
            **detail,
        )

    def seen_by(self, name: str) -> list[Record]:
        """What one user sees of private things, and all that is public."""
        return [record for record in self if record.private_to in (None, name)]


def place(channel: Channel) -> str:
    """The name of a channel for people."""
    return f"DM with {channel.recipient.name}" if channel.recipient else channel.name
