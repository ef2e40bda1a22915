"""The rules by which the bot has to answer interactions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from .errors import Json, Refusal, invalid_form, invalid_token, unknown
from .interaction import Interaction
from .limits import check_choices, check_modal
from .messages import rewrite, write
from .state import EPHEMERAL, Channel, Message, User
from .web import Upload
from .world import World

if TYPE_CHECKING:
    from .users import Users

COMMAND, COMPONENT, AUTOCOMPLETE, MODAL = 2, 3, 4, 5
ANSWER_WITHIN_S = 3.0
TOKEN_LIFETIME = timedelta(minutes=15)
MESSAGE, THINKING, DEFER_UPDATE, UPDATE, CHOICES, FORM = 4, 5, 6, 7, 8, 9
_ALLOWED = {
    COMMAND: (MESSAGE, THINKING, FORM),
    COMPONENT: (MESSAGE, THINKING, DEFER_UPDATE, UPDATE, FORM),
    AUTOCOMPLETE: (CHOICES,),
    MODAL: (MESSAGE, THINKING, DEFER_UPDATE, UPDATE),
}
_SILENCE = {
    COMMAND: "The application did not respond",
    COMPONENT: "This interaction failed",
    AUTOCOMPLETE: "Loading options failed",
    MODAL: "Something went wrong. Try again.",
}


def begin(
    users: Users, kind: int, user: User, channel: Channel, source: Message | None = None
) -> Interaction:
    """A new interaction; from now on three seconds run."""
    world = users.world
    exchange = Interaction(users, world.ids.next(), kind, user, channel, world.clock.now(), source)
    exchange.deadline = world.clock.after(ANSWER_WITHIN_S, lambda: _give_up(world, exchange))
    world.interactions[exchange.id] = exchange
    return exchange


def acknowledge(world: World, exchange: Interaction, body: Json, files: list[Upload]) -> None:
    """The first answer.

    Raises:
        Refusal: It comes too late (10062), for the second time (40060), is of the wrong type or breaks a limit.
    """
    if exchange.failed or (world.clock.now() - exchange.created_at).total_seconds() > ANSWER_WITHIN_S:
        raise unknown("interaction")
    if exchange.answer is not None:
        raise Refusal(400, 40060, "Interaction has already been acknowledged.")
    kind = body.get("type")
    if kind not in _ALLOWED[exchange.kind] or (kind in (DEFER_UPDATE, UPDATE) and exchange.source is None):
        message = f"Value must be one of {_ALLOWED[exchange.kind]}."
        raise invalid_form("type", "BASE_TYPE_CHOICES", message)
    _carry_out(world, exchange, int(kind), body.get("data") or {}, files)
    exchange.answer = int(kind)
    if exchange.deadline is not None:
        exchange.deadline.cancel()
    world.changed()


def follow_up(world: World, exchange: Interaction, body: Json, files: list[Upload]) -> Message:
    """A further message; the first after a deferral takes the place of "is thinking"."""
    original = exchange.original
    if original is not None and original.loading:
        return rewrite(world, original, body, files)
    message = _write(world, exchange, body, files)
    exchange.followups.append(message)
    return message


def by_token(world: World, token: str) -> Interaction:
    """The interaction to which a token belongs, for messages after the acknowledgement.

    Raises:
        Refusal: The token is unknown or 15 minutes old (50027), or nothing was acknowledged (10015).
    """
    exchange = next((e for e in world.interactions.values() if e.token == token), None)
    if exchange is None or world.clock.now() - exchange.created_at > TOKEN_LIFETIME:
        raise invalid_token()
    if exchange.answer is None:
        raise unknown("Webhook")
    return exchange


def _carry_out(world: World, exchange: Interaction, kind: int, data: Json, files: list[Upload]) -> None:
    if kind == MESSAGE:
        exchange.original = _write(world, exchange, data, files)
    elif kind == THINKING:
        flags = (data.get("flags") or 0) & EPHEMERAL
        exchange.original = _write(world, exchange, {"flags": flags}, [], loading=True)
    elif kind == FORM:
        check_modal(data)
        exchange.form = data
        parts = tuple(data["components"])
        _record(world, exchange, "form", world.bot.name, text=data["title"], components=parts)
    elif kind == CHOICES:
        check_choices(data.get("choices") or [])
        exchange.choices = data.get("choices") or []
        names = [choice["name"] for choice in exchange.choices]
        _record(world, exchange, "choices", world.bot.name, choices=names)
    else:
        exchange.original = exchange.source
        if kind == UPDATE and exchange.source is not None:
            rewrite(world, exchange.source, data, files)


def _write(
    world: World, exchange: Interaction, body: Json, files: list[Upload], *, loading: bool = False
) -> Message:
    private_to = exchange.user if (body.get("flags") or 0) & EPHEMERAL else None
    where = exchange.channel
    return write(world, where, world.bot, body, files, private_to=private_to, webhook=True, loading=loading)


def _give_up(world: World, exchange: Interaction) -> None:
    exchange.failed = True
    _record(world, exchange, "failed", world.bot.name, text=_SILENCE[exchange.kind])
    world.changed()


def _record(world: World, exchange: Interaction, kind: str, who: str, **more: object) -> None:
    world.transcript.add(kind, who, exchange.channel, private_to=exchange.user.name, **more)
