"""The refusals of Discord's API, with the codes and texts that real bots meet."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Refusal(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    def body(self) -> Json:
        """The JSON that goes with it."""
        return {"message": self.message, "code": self.code} | ({"errors": self.errors} if self.errors else {})


class CannotDo(AssertionError):
    """A user of the loopback Discord tried what the real client does not offer."""


class NoAnswer(AssertionError):
    """A test waits for the answer to an interaction that failed."""


_UNKNOWN = {
    "Account": 10001,
    "Application": 10002,
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "Role": 10011,
    "User": 10013,
    "Webhook": 10015,
    "interaction": 10062,
    "application command": 10063,
}


def unknown(what: str) -> Refusal:
    """Something that an id names is not there."""
    return Refusal(404, _UNKNOWN[what], f"Unknown {what}")


def missing_access() -> Refusal:
    """The bot cannot see the place."""
    return Refusal(403, 50001, "Missing Access")


def missing_permissions() -> Refusal:
    """The bot sees the place and may not do that there."""
    return Refusal(403, 50013, "Missing Permissions")


def invalid_token() -> Refusal:
    """The token of an interaction is wrong or older than 15 minutes."""
    return Refusal(401, 50027, "Invalid Webhook Token")


def invalid_form(path: str, code: str, message: str) -> Refusal:
    """A field breaks a limit; ``path`` is the way to it with dots.

    Args:
        path: Names and indices, such as ``embeds.0.title``.
        code: Discord's name for the broken rule.
        message: What is allowed.
    """
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return Refusal(400, 50035, "Invalid Form Body", errors)
