"""REST: acknowledging interactions, and the messages that follow."""

from __future__ import annotations

from .errors import Json, unknown
from .interaction import Interaction
from .interactions import THINKING, acknowledge, by_token, follow_up
from .messages import rewrite, tell_deleted
from .payloads import message_json
from .state import Message
from .web import Answer, Call, route

_MESSAGES = "/webhooks/{application}/{token}/messages/{message}"


@route("POST", "/interactions/{interaction}/{token}/callback")
async def callback(call: Call) -> Answer:
    """The first answer to an interaction."""
    exchange = call.world.interactions.get(call.id("interaction"))
    if exchange is None or exchange.token != call.path["token"]:
        raise unknown("interaction")
    acknowledge(call.world, exchange, call.body, call.files)
    if call.query.get("with_response", "").lower() not in ("1", "true"):
        return None
    return _callback_json(call, exchange)


@route("POST", "/webhooks/{application}/{token}")
async def followup(call: Call) -> Answer:
    """A further message."""
    exchange = _exchange(call)
    return message_json(follow_up(call.world, exchange, call.body, call.files), call.world.cdn)


@route("GET", _MESSAGES)
async def get_followup(call: Call) -> Answer:
    """The first or a further message."""
    return message_json(_message(call), call.world.cdn)


@route("PATCH", _MESSAGES)
async def edit_followup(call: Call) -> Answer:
    """Change the first or a further message."""
    message = _message(call)
    return message_json(rewrite(call.world, message, call.body, call.files), call.world.cdn)


@route("DELETE", _MESSAGES)
async def delete_followup(call: Call) -> Answer:
    """Delete the first or a further message."""
    message = _message(call)
    message.channel.messages.pop(message.id, None)
    message.deleted = True
    call.world.transcript.message("delete", message)
    tell_deleted(call.world, message)
    return None


def _exchange(call: Call) -> Interaction:
    if call.id("application") != call.world.bot.id:
        raise unknown("Webhook")
    return by_token(call.world, call.path["token"])


def _message(call: Call) -> Message:
    exchange = _exchange(call)
    name = call.path["message"]
    own = [*([exchange.original] if exchange.original else []), *exchange.followups]
    if name == "@original":
        found = exchange.original
    else:
        found = next((message for message in own if str(message.id) == name), None)
    if found is None or found.deleted:
        raise unknown("Message")
    return found


def _callback_json(call: Call, exchange: Interaction) -> Json:
    assert exchange.answer is not None
    about: Json = {"id": str(exchange.id), "type": exchange.kind}
    answer: Json = {"interaction": about}
    if exchange.original is not None:
        about |= {
            "response_message_id": str(exchange.original.id),
            "response_message_loading": exchange.answer == THINKING,
            "response_message_ephemeral": exchange.original.ephemeral,
        }
        answer["resource"] = {
            "type": exchange.answer,
            "message": message_json(exchange.original, call.world.cdn),
        }
    return answer
