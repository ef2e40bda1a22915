"""An interaction: what a user did, all that the bot answered, and how a test waits for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from .clock import Timer
from .errors import Json, NoAnswer
from .state import Channel, Member, Message, User

if TYPE_CHECKING:
    from .users import Users

T = TypeVar("T")
Person = User | Member


@dataclass(eq=False)
class Interaction:
    """A command, a press, a choice or a filled form, with the answers to it.

    Attributes:
        kind: COMMAND, COMPONENT, AUTOCOMPLETE or MODAL of ``interactions``.
        source: The message whose button or menu was used; for a form, the one that led to it.
        answer: The type of the first answer: 4 message, 5 thinking, 6 and 7 update, 8 choices, 9 form.
        original: The first message of the answer; for an update, the message that is updated.
        followups: The messages after the first.
        form: The modal that was shown.
        choices: What autocomplete offers.
        failed: Whether three seconds passed in silence, and the user was told so.
    """

    users: Users = field(repr=False)
    id: int
    kind: int
    user: User
    channel: Channel
    created_at: datetime
    source: Message | None = None
    answer: int | None = None
    original: Message | None = None
    followups: list[Message] = field(default_factory=list)
    form: Json | None = None
    choices: list[Json] | None = None
    failed: bool = False
    deadline: Timer | None = None

    @property
    def token(self) -> str:
        """The token with which the bot answers."""
        return f"aW50ZXJhY3Rpb246{self.id}"

    @property
    def acknowledged(self) -> bool:
        """Whether the bot answered at all."""
        return self.answer is not None

    @property
    def messages(self) -> list[Message]:
        """The messages of the answer that are still there."""
        own = [self.original] if self.original else []
        return [message for message in [*own, *self.followups] if not message.deleted]

    @property
    def ephemeral(self) -> bool:
        """Whether the first message is for the user only."""
        return self.original is not None and self.original.ephemeral

    async def wait_acknowledged(self, timeout_s: float = 30) -> None:
        """Wait for any first answer."""
        await self._wait(lambda: self.acknowledged, "an acknowledgement", timeout_s)

    async def wait_response(self, timeout_s: float = 30) -> Message:
        """Wait until the first message is there and no longer says that the bot is thinking."""

        def look() -> Message | None:
            message = self.original
            return message if self.acknowledged and message is not None and not message.loading else None

        return await self._wait(look, "a response", timeout_s)

    async def wait_text(self, text: str, timeout_s: float = 30) -> Message:
        """Wait until one of the messages says something, and return that message."""

        def look() -> Message | None:
            return next((message for message in self.messages if text in message.text), None)

        return await self._wait(look, f"a message with {text!r}", timeout_s)

    async def wait_followup(self, number: int = 1, timeout_s: float = 30) -> Message:
        """Wait for the so-many-th message after the first."""

        def look() -> Message | None:
            found = self.followups
            return found[number - 1] if len(found) >= number else None

        return await self._wait(look, f"followup {number}", timeout_s)

    async def wait_form(self, timeout_s: float = 30) -> Json:
        """Wait for a modal."""
        return await self._wait(lambda: self.form, "a form", timeout_s)

    async def choose(self, menu: str, values: Sequence[str], *, by: Person | None = None) -> Interaction:
        """Choose in a menu of the newest message that has it: by its custom_id or its placeholder."""
        message = await self._with_control(menu)
        return await self.users.choose(by or self.user, message, menu, values)

    async def press(self, button: str, *, by: Person | None = None) -> Interaction:
        """Press a button of the newest message that has it: by its custom_id or its label."""
        message = await self._with_control(button)
        return await self.users.press(by or self.user, message, button)

    async def fill(self, values: Mapping[str, str | Sequence[str]]) -> Interaction:
        """Fill in the modal and send it; inputs are named by custom_id or label."""
        await self.wait_form()
        return await self.users.fill(self, values)

    async def _wait(self, look: Callable[[], T | None], what: str, timeout_s: float = 30) -> T:
        def look_on() -> T | None:
            if self.failed:
                raise NoAnswer(f"waited for {what}, but the bot did not respond in time")
            return look()

        return await self.users.world.until(look_on, what, timeout_s)

    async def _with_control(self, name: str) -> Message:
        def look() -> Message | None:
            found = [m for m in self.messages if any(name in names_of(part) for part in m.controls)]
            return found[-1] if found else None

        return await self._wait(look, f"a message with {name!r} to use")


def names_of(part: Json) -> set[str]:
    """The names by which a test may call a button, a menu or an input."""
    names = (part.get("custom_id"), part.get("label"), part.get("placeholder"))
    return {name for name in names if name}
