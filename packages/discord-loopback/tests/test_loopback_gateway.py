"""The rules of the gateway: identifying, intents, heartbeats, compression, falling off and coming back."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import discord
import pytest
from discord_loopback import Channel, GuildDriver, LoopbackDiscord, Member
from probe import Probe, Rest

pytestmark = pytest.mark.anyio

PLAIN = discord.Intents.default().value


def _identify(loopback: LoopbackDiscord, **more: Any) -> dict[str, Any]:
    return {"op": 2, "d": {"token": loopback.token, "properties": {}, "intents": PLAIN} | more}


async def _closed_with(socket: Any) -> int | None:
    while not socket.closed:
        await socket.receive(timeout=30)
    code: int | None = socket.close_code
    return code


async def test_a_client_becomes_ready_and_knows_its_guild(
    probe: Probe, guild: GuildDriver, loopback: LoopbackDiscord
) -> None:
    found = probe.get_guild(guild.id)
    assert found is not None
    assert [channel.name for channel in found.text_channels] == ["submissions"]
    assert [role.name for role in found.me.roles] == ["@everyone", "bot"]
    assert loopback.command_names() == {"ping", "board submit test", "board delete", "rule"}


async def test_ids_are_snowflakes_of_the_virtual_time(
    probe: Probe, loopback: LoopbackDiscord, channel: Channel
) -> None:
    assert len(str(channel.id)) in (18, 19)
    found = probe.get_channel(channel.id)
    assert isinstance(found, discord.TextChannel)
    assert found.created_at == loopback.clock.now()


async def test_a_wrong_token_is_refused_at_login(loopback: LoopbackDiscord) -> None:
    with pytest.raises(discord.LoginFailure):
        async with loopback.connect(Probe(), token="wrong"):
            pytest.fail("it connected")


async def test_a_wrong_token_closes_the_gateway(loopback: LoopbackDiscord, rest: Rest) -> None:
    async with rest.gateway() as socket:
        await socket.send_json(_identify(loopback, token="wrong"))
        assert await _closed_with(socket) == 4004


async def test_privileged_intents_are_refused_unless_switched_on(loopback: LoopbackDiscord) -> None:
    intents = discord.Intents(guilds=True, message_content=True)
    with pytest.raises(discord.PrivilegedIntentsRequired):
        async with loopback.connect(Probe(intents)):
            pytest.fail("it connected")
    loopback.gateway.allowed_intents = intents.value
    async with loopback.connect(Probe(intents)) as _:
        assert loopback.connected


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", 4002),
        (json.dumps({"op": 3, "d": {}}), 4003),
        (json.dumps({"op": 2, "d": {"token": "TOKEN", "intents": 1 << 40}}), 4013),
    ],
    ids=["no JSON", "not identified", "unknown intents"],
)
async def test_a_bad_frame_closes_the_connection(
    loopback: LoopbackDiscord, rest: Rest, frame: str, code: int
) -> None:
    async with rest.gateway() as socket:
        await socket.send_str(frame.replace("TOKEN", loopback.token))
        assert await _closed_with(socket) == code


@pytest.mark.parametrize(("frame", "code"), [({"op": 2}, 4005), ({"op": 99}, 4001)], ids=["twice", "unknown"])
async def test_a_bad_frame_after_identifying(
    loopback: LoopbackDiscord, rest: Rest, frame: dict[str, Any], code: int
) -> None:
    async with rest.gateway() as socket:
        await socket.send_json(_identify(loopback))
        await socket.send_json(_identify(loopback) if frame["op"] == 2 else frame)
        assert await _closed_with(socket) == code


async def test_events_come_only_for_the_intents_asked_for(
    loopback: LoopbackDiscord, guild: GuildDriver, alice: Member, channel: Channel
) -> None:
    deaf, hears = (
        Probe(discord.Intents(guilds=True)),
        Probe(discord.Intents(guilds=True, guild_messages=True)),
    )
    async with loopback.connect(hears), loopback.connect(deaf):
        loopback.say(alice, channel, f"hello {loopback.bot.mention}")
        await loopback.until(lambda: hears.heard, "a message")
        guild.add_text("later")
        await loopback.until(lambda: len(list(deaf.get_all_channels())) == 2, "a channel")
        assert deaf.heard == []


async def test_content_is_hidden_without_its_intent(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    loopback.say(alice, channel, "hello")
    loopback.say(alice, channel, f"hello {loopback.bot.mention}")
    loopback.say(alice, loopback.dm(alice), "psst")
    await loopback.until(lambda: len(probe.heard) == 3, "three messages")
    assert probe.heard == ["", f"hello {loopback.bot.mention}", "psst"]


async def test_members_are_listed_only_with_their_intent(
    loopback: LoopbackDiscord, guild: GuildDriver, alice: Member
) -> None:
    async with loopback.connect(blind := Probe()):
        seen = blind.get_guild(guild.id)
        assert seen is not None
        assert [member.name for member in seen.members] == ["bot"]
    intents = discord.Intents(guilds=True, members=True)
    loopback.gateway.allowed_intents = intents.value
    async with loopback.connect(sees := Probe(intents)):
        seen = sees.get_guild(guild.id)
        assert seen is not None
        guild.add_member("bob")
        await loopback.until(lambda: len(seen.members) == 4, "a member")


async def test_heartbeats_are_acknowledged(loopback: LoopbackDiscord, guild: GuildDriver) -> None:
    loopback.gateway.heartbeat_s = 0.05
    async with loopback.connect(bot := Probe()):
        await loopback.until(lambda: loopback.gateway.heartbeats > 4, "heartbeats")
        assert loopback.gateway.identified == 1
        assert bot.latency < 5


async def test_a_missing_heartbeat_closes_the_connection(loopback: LoopbackDiscord, rest: Rest) -> None:
    loopback.gateway.heartbeat_s = 0.05
    async with rest.gateway() as socket:
        await socket.send_json(_identify(loopback))
        assert await _closed_with(socket) == 4009


async def test_zlib_is_one_stream_for_the_whole_connection(loopback: LoopbackDiscord, rest: Rest) -> None:
    stream = zlib.decompressobj()
    async with rest.gateway("&compress=zlib-stream") as socket:
        await socket.send_json(_identify(loopback))
        first, second = await socket.receive_bytes(), await socket.receive_bytes()
        assert first.endswith(b"\x00\x00\xff\xff")
        assert json.loads(stream.decompress(first))["op"] == 10
        assert json.loads(stream.decompress(second))["t"] == "READY"
        with pytest.raises(zlib.error):
            zlib.decompressobj().decompress(second)


async def test_zstd_is_spoken_with_discord_py(loopback: LoopbackDiscord, guild: GuildDriver) -> None:
    pytest.importorskip("zstandard")
    async with loopback.connect(Probe()):
        assert [link.compression for link in loopback.gateway.links] == ["zstd-stream"]


async def test_zlib_is_spoken_with_discord_py(
    loopback: LoopbackDiscord, guild: GuildDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord.utils, "_ActiveDecompressionContext", _Zlib)
    async with loopback.connect(Probe()):
        assert [link.compression for link in loopback.gateway.links] == ["zlib-stream"]


class _Zlib:
    """What discord.py has when zstandard is missing."""

    COMPRESSION_TYPE = "zlib-stream"

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()

    def decompress(self, data: bytes) -> str:
        """The next message."""
        return self._stream.decompress(data).decode()


@pytest.mark.parametrize("code", [4000, 1000, None], ids=["4000", "1000", "cut"])
async def test_a_dropped_client_resumes(loopback: LoopbackDiscord, probe: Probe, code: int | None) -> None:
    await loopback.drop(code)
    await loopback.until(lambda: probe.resumed or loopback.gateway.identified > 1, "a resume")
    assert (loopback.gateway.resumed, loopback.gateway.identified) == (1, 1)


async def test_events_that_were_missed_come_after_the_resume(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.send_message("pong")
    me = loopback.bot.mention
    with loopback.offline():
        await loopback.drop()
        for word in ("one", "two"):
            loopback.say(alice, channel, f"{word} {me}")
        asked = await loopback.slash(alice, channel, "ping")
    await asked.wait_response()
    assert probe.heard[:2] == [f"one {me}", f"two {me}"]
    assert probe.heard[2:] in ([], ["pong"])
    assert loopback.gateway.resumed == 1


async def test_a_lost_session_begins_anew(loopback: LoopbackDiscord, probe: Probe) -> None:
    loopback.gateway.forget_sessions()
    await loopback.drop()
    await loopback.until(lambda: loopback.gateway.identified == 2 and loopback.connected, "a new session")
    assert loopback.gateway.resumed == 0


async def test_a_resume_with_a_number_of_the_future_is_refused(loopback: LoopbackDiscord, rest: Rest) -> None:
    async with rest.gateway() as socket:
        await socket.send_json(_identify(loopback))
        await socket.receive_json()
        session = (await socket.receive_json())["d"]["session_id"]
        async with rest.gateway() as second:
            data = {"token": loopback.token, "session_id": session, "seq": 999}
            await second.send_json({"op": 6, "d": data})
            assert await _closed_with(second) == 4007


async def test_changes_of_the_guild_reach_the_client(
    loopback: LoopbackDiscord, probe: Probe, guild: GuildDriver
) -> None:
    seen = probe.get_guild(guild.id)
    assert seen is not None
    role = guild.add_role("Leaderboard Admin")
    forum = guild.add_forum("central")
    await loopback.until(lambda: seen.get_role(role.id) and seen.get_channel(forum.id), "both")
    guild.delete_channel(forum)
    await loopback.until(lambda: seen.get_channel(forum.id) is None, "a deletion")
    other = loopback.add_guild("Second")
    await loopback.until(lambda: probe.get_guild(other.id), "a guild")
    loopback.remove_guild(other)
    await loopback.until(lambda: probe.get_guild(other.id) is None, "its end")


async def test_what_nobody_answers_is_a_timeout(loopback: LoopbackDiscord) -> None:
    with pytest.raises(TimeoutError, match="in vain for Godot"):
        await loopback.until(lambda: None, "Godot", timeout_s=0.01)


async def test_a_client_that_ends_early_is_an_error(
    loopback: LoopbackDiscord, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Probe) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(Probe, "setup_hook", broken)
    with pytest.raises(ValueError, match="broken"):
        async with asyncio.timeout(30), loopback.connect(Probe()):
            pytest.fail("it connected")


@pytest.mark.parametrize(("code", "left"), [(1000, 0), (4000, 1)])
async def test_a_client_that_says_goodbye_ends_its_session(
    loopback: LoopbackDiscord, rest: Rest, code: int, left: int
) -> None:
    async with rest.gateway() as socket:
        await socket.send_json(_identify(loopback))
        await loopback.until(lambda: loopback.connected, "a session")
        await socket.close(code=code)
    await loopback.until(lambda: not loopback.gateway.links, "the end")
    assert len(loopback.gateway.sessions) == left
