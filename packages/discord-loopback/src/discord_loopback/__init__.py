"""A loopback Discord for tests of a real discord.py client. See README.md beside this file."""

from __future__ import annotations

from .clock import VirtualClock
from .errors import CannotDo, NoAnswer, Refusal
from .guilds import GuildDriver
from .interaction import Interaction
from .permissions import ALL, BOT, EVERYONE, Permission
from .ratelimits import Limit
from .server import LoopbackDiscord
from .state import Attachment, Channel, Guild, Member, Message, Role, User
from .transcript import Record, Transcript
from .world import TOKEN

__all__ = [
    "ALL",
    "BOT",
    "EVERYONE",
    "TOKEN",
    "Attachment",
    "CannotDo",
    "Channel",
    "Guild",
    "GuildDriver",
    "Interaction",
    "Limit",
    "LoopbackDiscord",
    "Member",
    "Message",
    "NoAnswer",
    "Permission",
    "Record",
    "Refusal",
    "Role",
    "Transcript",
    "User",
    "VirtualClock",
]
