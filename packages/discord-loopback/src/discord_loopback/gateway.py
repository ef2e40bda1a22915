"""The gateway: sessions that hear events, fall off and come back."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMessage, WSMsgType, web

from . import permissions
from .compression import Compressor, compressor
from .errors import Json
from .payloads import guild_json, user_json
from .state import Channel
from .world import TOKEN, World

GUILDS, MEMBERS, PRESENCES, CONTENT = 1 << 0, 1 << 1, 1 << 8, 1 << 15
_KNOWN_INTENTS = (1 << 26) - 1
_PRIVILEGED = MEMBERS | PRESENCES | CONTENT
HEARTBEAT_S = 41.25
UNKNOWN_OPCODE, DECODE_ERROR, NOT_AUTHENTICATED, BAD_TOKEN = 4001, 4002, 4003, 4004
ALREADY_AUTHENTICATED, INVALID_SEQ, TIMED_OUT = 4005, 4007, 4009
INVALID_INTENTS, DISALLOWED_INTENTS = 4013, 4014


@dataclass(eq=False)
class Session:
    """What an IDENTIFY began; it outlives its connection."""

    id: str
    intents: int
    sequence: int = 0
    events: list[tuple[int, Json]] = field(default_factory=list)
    link: Link | None = None

    def add(self, event: str, data: Json) -> None:
        """Send an event, or keep it for the next RESUME."""
        self.sequence += 1
        frame = {"op": 0, "t": event, "s": self.sequence, "d": data}
        self.events.append((self.sequence, frame))
        if self.link is not None:
            self.link.send(frame)


class Link:
    """A connection."""

    def __init__(
        self, request: web.Request, socket: web.WebSocketResponse, packer: Compressor | None
    ) -> None:
        self.session: Session | None = None
        self.dropped = False
        self.compression = request.query.get("compress")
        self._request = request
        self._socket = socket
        self._packer = packer
        self._outbox: asyncio.Queue[Json] = asyncio.Queue()
        self._writer = asyncio.create_task(self._write())

    def send(self, frame: Json) -> None:
        """Send something after all that was sent before."""
        self._outbox.put_nowait(frame)

    async def close(self, code: int) -> None:
        """Send what is left, then close with a code."""
        self.dropped = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._outbox.join(), 1)
        await self._socket.close(code=code)

    def cut(self) -> None:
        """End the connection without a word, as a network does."""
        self.dropped = True
        if self._request.transport is not None:
            self._request.transport.abort()

    def ended(self) -> None:
        """Forget the session, which may be resumed."""
        self._writer.cancel()
        if self.session is not None and self.session.link is self:
            self.session.link = None

    async def _write(self) -> None:
        while True:
            frame = await self._outbox.get()
            raw = json.dumps(frame).encode()
            try:
                if self._packer is None:
                    await self._socket.send_str(raw.decode())
                else:
                    await self._socket.send_bytes(self._packer.pack(raw))
            except ConnectionError:
                pass
            finally:
                self._outbox.task_done()


class GatewayServer:
    """Takes connections and passes events on.

    Attributes:
        allowed_intents: The privileged intents that are switched on for the application.
        heartbeat_s: How often a heartbeat is due, in real time; after one and a half of it the connection ends.
        refusing: Whether new connections are turned away.
        resumed: How many sessions were resumed.
        identified: How many sessions were begun.
        heartbeats: How many heartbeats came.
    """

    def __init__(self, world: World) -> None:
        self.allowed_intents = 0
        self.heartbeat_s = HEARTBEAT_S
        self.refusing = False
        self.resumed = 0
        self.identified = 0
        self.heartbeats = 0
        self.sessions: dict[str, Session] = {}
        self.links: set[Link] = set()
        self._world = world

    def emit(self, event: str, data: Json, *, intent: int = 0, channel: Channel | None = None) -> None:
        """Tell every session that asked for such events, if the bot sees the channel."""
        if channel is not None and not permissions.sees(self._world.bot, channel):
            return
        for session in self.sessions.values():
            if not intent or session.intents & intent:
                session.add(event, self._without_content(session, event, data))

    async def drop(self, code: int | None = 4000) -> None:
        """End every connection: with a close code, or without a word."""
        for link in list(self.links):
            if code is None:
                link.cut()
            else:
                await link.close(code)

    def forget_sessions(self) -> None:
        """Let no session be resumed: the next RESUME gets INVALID_SESSION."""
        self.sessions.clear()

    async def connection(self, request: web.Request) -> web.StreamResponse:
        """A connection from HELLO to its end."""
        if self.refusing:
            return web.Response(status=503)
        packer = compressor(request.query.get("compress"))
        socket = web.WebSocketResponse(max_msg_size=0, compress=False)
        await socket.prepare(request)
        link = Link(request, socket, packer)
        self.links.add(link)
        try:
            await self._talk(link, socket)
        finally:
            self.links.discard(link)
            link.ended()
            self._world.changed()
        return socket

    async def _talk(self, link: Link, socket: web.WebSocketResponse) -> None:
        link.send({"op": 10, "s": None, "t": None, "d": {"heartbeat_interval": int(self.heartbeat_s * 1000)}})
        loop = asyncio.get_running_loop()
        while True:
            deadline = loop.time() + self.heartbeat_s * 1.5
            beat = False
            while not beat:
                try:
                    message = await socket.receive(max(deadline - loop.time(), 0.001))
                except TimeoutError:
                    await link.close(TIMED_OUT)
                    return
                if message.type is not WSMsgType.TEXT:
                    self._hear_end(link, message)
                    return
                beat, code = self._hear(link, message.data)
                if code is not None:
                    await link.close(code)
                    return

    def _hear_end(self, link: Link, message: WSMessage) -> None:
        """A client that says goodbye properly ends its session; any other end leaves it to be resumed."""
        said_goodbye = message.type is WSMsgType.CLOSE and message.data in (1000, 1001)
        if said_goodbye and not link.dropped and link.session is not None:
            self.sessions.pop(link.session.id, None)

    def _hear(self, link: Link, raw: str) -> tuple[bool, int | None]:
        """Take a message in: whether it was a heartbeat, and the code to close with, if any."""
        try:
            frame = json.loads(raw)
            op, data = frame["op"], frame.get("d")
        except (ValueError, KeyError, TypeError):
            return False, DECODE_ERROR
        if op == 1:
            self.heartbeats += 1
            link.send({"op": 11, "s": None, "t": None, "d": None})
            self._world.changed()
            return True, None
        if op == 2:
            return False, self._identify(link, data)
        if op == 6:
            return False, self._resume(link, data)
        if link.session is None:
            return False, NOT_AUTHENTICATED
        return False, None if op in (3, 4) else UNKNOWN_OPCODE

    def _identify(self, link: Link, data: Json) -> int | None:
        intents = data.get("intents", 0)
        if link.session is not None:
            return ALREADY_AUTHENTICATED
        if data.get("token") != TOKEN:
            return BAD_TOKEN
        if intents & ~_KNOWN_INTENTS:
            return INVALID_INTENTS
        if intents & _PRIVILEGED & ~self.allowed_intents:
            return DISALLOWED_INTENTS
        session = Session(f"{self._world.ids.next():x}", intents, link=link)
        link.session = self.sessions[session.id] = session
        self.identified += 1
        session.add("READY", self._ready(session))
        if intents & GUILDS:
            for guild in self._world.guilds.values():
                all_members = bool(intents & MEMBERS)
                session.add("GUILD_CREATE", guild_json(guild, self._world.bot, all_members=all_members))
        self._world.changed()
        return None

    def _resume(self, link: Link, data: Json) -> int | None:
        if data.get("token") != TOKEN:
            return BAD_TOKEN
        session = self.sessions.get(data.get("session_id") or "")
        if session is None:
            link.send({"op": 9, "s": None, "t": None, "d": False})
            return None
        seen = data.get("seq") or 0
        if seen > session.sequence:
            return INVALID_SEQ
        link.session = session
        session.link = link
        for sequence, frame in session.events:
            if sequence > seen:
                link.send(frame)
        self.resumed += 1
        session.add("RESUMED", {})
        self._world.changed()
        return None

    def _ready(self, session: Session) -> Json:
        bot = self._world.bot
        return {
            "v": 10,
            "user": user_json(bot),
            "guilds": [{"id": str(guild), "unavailable": True} for guild in self._world.guilds],
            "session_id": session.id,
            "resume_gateway_url": self._world.gateway_url,
            "application": {"id": str(bot.id), "flags": 0},
            "private_channels": [],
            "relationships": [],
            "shard": [0, 1],
        }

    def _without_content(self, session: Session, event: str, data: Json) -> Json:
        """Messages of others without their content, unless the intent for it was asked for."""
        bot = self._world.bot
        if (
            event not in ("MESSAGE_CREATE", "MESSAGE_UPDATE")
            or session.intents & CONTENT
            or "guild_id" not in data
        ):
            return data
        if data["author"]["id"] == str(bot.id) or bot.mention in data["content"]:
            return data
        empty: dict[str, Any] = {"content": "", "embeds": [], "components": [], "attachments": []}
        return data | empty
