"""Rate limits and faults: buckets, 429, 5xx."""

from __future__ import annotations

import asyncio

import discord
import pytest
from discord_loopback import Channel, Limit, LoopbackDiscord, Member
from probe import Probe, Rest

pytestmark = pytest.mark.anyio

POST = "POST /channels/{channel}/messages"


@pytest.fixture
def frozen(loopback: LoopbackDiscord) -> list[float]:
    """Windows that last until the test moves the time of the buckets."""
    now = [1000.0]
    loopback.world.rates.clock = lambda: now[0]
    return now


async def test_a_bucket_tells_of_itself_and_refuses_the_sixth(
    rest: Rest, loopback: LoopbackDiscord, frozen: list[float], channel: Channel
) -> None:
    path = f"/channels/{channel.id}/messages"
    replies = [await rest("POST", path, {"content": str(i)}) for i in range(6)]
    assert [reply.status for reply in replies] == [200] * 5 + [429]
    assert [reply.headers["X-RateLimit-Remaining"] for reply in replies] == ["4", "3", "2", "1", "0", "0"]
    assert replies[0].headers["X-RateLimit-Limit"] == "5"
    assert replies[5].headers.keys() >= {"X-RateLimit-Bucket", "X-RateLimit-Reset", "Retry-After", "Via"}
    assert replies[5].body == {"message": "You are being rate limited.", "retry_after": 5.0, "global": False}
    assert len(channel.messages) == 5
    assert [hit.scope for hit in loopback.world.rates.hits] == ["user"]
    frozen[0] += 5 / loopback.world.rates.pace
    assert (await rest("POST", path, {"content": "again"})).status == 200


async def test_each_channel_has_a_bucket_of_its_own(
    rest: Rest, loopback: LoopbackDiscord, frozen: list[float], channel: Channel, alice: Member
) -> None:
    for place in (channel, loopback.dm(alice)):
        for i in range(5):
            assert (await rest("POST", f"/channels/{place.id}/messages", {"content": str(i)})).status == 200


async def test_the_global_limit(
    rest: Rest, loopback: LoopbackDiscord, frozen: list[float], channel: Channel
) -> None:
    replies = [await rest("GET", f"/channels/{channel.id}") for _ in range(51)]
    assert [reply.status for reply in replies] == [200] * 50 + [429]
    assert replies[50].body["global"] is True
    assert replies[50].headers["X-RateLimit-Global"] == "true"


async def test_a_third_name_in_ten_minutes_is_refused(
    rest: Rest, loopback: LoopbackDiscord, frozen: list[float], channel: Channel
) -> None:
    made = (await rest("POST", f"/channels/{channel.id}/threads", {"name": "run", "type": 11})).body
    path = f"/channels/{made['id']}"
    assert [(await rest("PATCH", path, {"name": f"run {i}"})).status for i in range(3)] == [200, 200, 429]
    assert loopback.world.rates.hits[0].scope == "shared"
    assert (await rest("PATCH", path, {"archived": True})).status == 200


async def test_discord_py_keeps_within_a_bucket(
    loopback: LoopbackDiscord, probe: Probe, channel: Channel
) -> None:
    loopback.world.rates.limits[POST] = Limit(3, 1)
    found = probe.get_channel(channel.id)
    assert isinstance(found, discord.TextChannel)
    await asyncio.gather(*(found.send(str(i)) for i in range(8)))
    assert len(channel.messages) == 8
    # A second of Discord's takes 10 ms here: a client that wakes up 0.1 ms early is told to wait for 10 ms.
    assert [hit for hit in loopback.world.rates.hits if hit.retry_after > 0.05] == []


async def test_discord_py_waits_after_a_429(
    loopback: LoopbackDiscord, probe: Probe, channel: Channel
) -> None:
    found = probe.get_channel(channel.id)
    assert isinstance(found, discord.TextChannel)
    loopback.fail(429, retry_after=2)
    await found.send("after all")
    assert [r.status for r in loopback.requests if r.path.endswith("/messages")] == [429, 200]
    assert len(channel.messages) == 1
    loopback.fail(429, cloudflare=True)
    with pytest.raises(discord.HTTPException):
        await found.send("banned")


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_discord_py_tries_again_after_5xx(
    loopback: LoopbackDiscord, probe: Probe, channel: Channel, status: int
) -> None:
    found = probe.get_channel(channel.id)
    assert isinstance(found, discord.TextChannel)
    loopback.fail(status, 2, matches="POST /api/v10/channels")
    await found.send("after all")
    assert [message.content for message in loopback.messages(channel)] == ["after all"]
    loopback.fail(status, 5, matches="POST /api/v10/channels")
    with pytest.raises(discord.DiscordServerError):
        await found.send("never")


async def test_faults_hit_followups_too(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    async def follow(interaction: discord.Interaction) -> None:
        await interaction.response.defer(thinking=True)
        for i in range(7):
            await interaction.edit_original_response(content=f"step {i}")

    probe.steps["ping"] = follow
    loopback.fail(502, matches="/webhooks/")
    asked = await loopback.slash(alice, channel, "ping")
    await asked.wait_text("step 6")
    assert not loopback.world.rates.hits
