"""REST: what is there, who may do what, and what is refused."""

from __future__ import annotations

import io
from typing import Any

import discord
import pytest
from discord_loopback import (
    ALL,
    EVERYONE,
    CannotDo,
    Channel,
    GuildDriver,
    LoopbackDiscord,
    Member,
    Permission,
)
from probe import Probe, Rest

pytestmark = pytest.mark.anyio

P = Permission


def _without(guild: GuildDriver, *taken: Permission) -> None:
    """Take permissions from the bot and from all."""
    for role in ("@everyone", "bot"):
        allowed = guild.role(role).permissions
        for permission in taken:
            allowed &= ~permission
        guild.set_permissions(role, allowed)


async def _thread(rest: Rest, channel: Channel, kind: int = 11, **more: Any) -> str:
    reply = await rest("POST", f"/channels/{channel.id}/threads", {"name": "run", "type": kind} | more)
    assert reply.status == 200
    thread: str = reply.body["id"]
    return thread


async def test_unknown_ids(rest: Rest, guild: GuildDriver, channel: Channel) -> None:
    for path, code in [
        ("/channels/100000000000000000", 10003),
        ("/channels/CHANNEL/messages/100000000000000000", 10008),
        ("/guilds/100000000000000000", 10004),
        ("/guilds/GUILD/members/100000000000000000", 10007),
        ("/users/100000000000000000", 10013),
    ]:
        path = path.replace("CHANNEL", str(channel.id)).replace("GUILD", str(guild.id))
        assert (await rest("GET", path)).refused == (404, code), path


async def test_a_request_without_the_token_is_refused(rest: Rest, channel: Channel) -> None:
    reply = await rest("GET", f"/channels/{channel.id}", headers={"Authorization": "Bot no"})
    assert reply.status == 401


async def test_a_body_must_be_declared_as_json(rest: Rest, channel: Channel) -> None:
    path = f"/channels/{channel.id}/messages"
    text = {"data": b'{"content": "x"}'}
    assert (await rest("POST", path, **text, headers={"Content-Type": "text/plain"})).refused == (400, 50035)
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert (await rest("POST", path, **text, headers=charset)).refused == (400, 50035)
    json_type = {"Content-Type": "application/json"}
    assert (await rest("POST", path, data=b"{", headers=json_type)).refused == (400, 50109)
    assert (await rest("POST", path, {"content": "x"})).headers["Content-Type"] == "application/json"


async def test_a_channel_that_the_bot_does_not_see_is_missing_access(
    rest: Rest, guild: GuildDriver, channel: Channel
) -> None:
    guild.set_overwrite(channel, guild.guild.everyone, deny=P.VIEW_CHANNEL)
    assert (await rest("GET", f"/channels/{channel.id}")).refused == (403, 50001)
    guild.set_overwrite(channel, guild.bot, allow=P.VIEW_CHANNEL)
    assert (await rest("GET", f"/channels/{channel.id}")).status == 200


MESSAGES, THREADS = "/channels/CHANNEL/messages", "/channels/CHANNEL/threads"
NEEDS = {
    "send": (P.SEND_MESSAGES, "POST", MESSAGES, {"content": "x"}),
    "embeds": (P.EMBED_LINKS, "POST", MESSAGES, {"embeds": [{"title": "t"}]}),
    "public thread": (P.CREATE_PUBLIC_THREADS, "POST", THREADS, {"name": "t", "type": 11}),
    "private thread": (P.CREATE_PRIVATE_THREADS, "POST", THREADS, {"name": "t", "type": 12}),
    "create role": (P.MANAGE_ROLES, "POST", "/guilds/GUILD/roles", {"name": "r"}),
    "create channel": (P.MANAGE_CHANNELS, "POST", "/guilds/GUILD/channels", {"name": "c", "type": 0}),
    "edit channel": (P.MANAGE_CHANNELS, "PATCH", "/channels/CHANNEL", {"topic": "t"}),
    "nickname": (P.CHANGE_NICKNAME, "PATCH", "/guilds/GUILD/members/@me", {"nick": "n"}),
    "delete channel": (P.MANAGE_CHANNELS, "DELETE", "/channels/CHANNEL", None),
}


async def test_without_the_permission_it_is_refused(rest: Rest, guild: GuildDriver, channel: Channel) -> None:
    for what, (need, method, path, body) in NEEDS.items():
        path = path.replace("CHANNEL", str(channel.id)).replace("GUILD", str(guild.id))
        before = {role: guild.role(role).permissions for role in ("@everyone", "bot")}
        _without(guild, need)
        assert (await rest(method, path, body)).refused == (403, 50013), what
        for role, allowed in before.items():
            guild.set_permissions(role, allowed)
        assert (await rest(method, path, body)).status in (200, 204), what


async def test_files_need_their_permission(rest: Rest, guild: GuildDriver, channel: Channel) -> None:
    _without(guild, P.ATTACH_FILES)
    assert (await rest.upload(f"/channels/{channel.id}/messages", "{}", {"a": b"x"})).refused == (403, 50013)


async def test_an_enforced_nonce_makes_no_second_message(
    rest: Rest, channel: Channel, loopback: LoopbackDiscord
) -> None:
    path, body = (
        f"/channels/{channel.id}/messages",
        {"content": "x", "nonce": "n" * 25, "enforce_nonce": True},
    )
    first, again = await rest("POST", path, body), await rest("POST", path, body | {"content": "y"})
    assert first.body["id"] == again.body["id"]
    assert [message.content for message in loopback.messages(channel)] == ["x"]
    assert (await rest("POST", path, body | {"enforce_nonce": False})).body["id"] != first.body["id"]
    loopback.advance(600)
    assert (await rest("POST", path, body)).body["id"] != first.body["id"]
    assert (await rest("POST", path, body | {"nonce": "n" * 26})).refused == (400, 50035)


async def test_messages_of_others(
    rest: Rest, guild: GuildDriver, loopback: LoopbackDiscord, alice: Member
) -> None:
    channel = guild.channel("submissions")
    path = f"/channels/{channel.id}/messages/{loopback.say(alice, channel, 'hi').id}"
    assert (await rest("PATCH", path, {"content": "ho"})).refused == (403, 50005)
    _without(guild, P.MANAGE_MESSAGES)
    assert (await rest("DELETE", path)).refused == (403, 50013)
    guild.set_permissions("bot", P.MANAGE_MESSAGES)
    assert (await rest("DELETE", path)).status == 204
    assert (await rest("DELETE", path)).refused == (404, 10008)


async def test_threads_have_their_own_right_to_send(rest: Rest, guild: GuildDriver, channel: Channel) -> None:
    thread = await _thread(rest, channel)
    _without(guild, P.SEND_MESSAGES)
    assert (await rest("POST", f"/channels/{thread}/messages", {"content": "x"})).status == 200
    _without(guild, P.SEND_MESSAGES_IN_THREADS)
    assert (await rest("POST", f"/channels/{thread}/messages", {"content": "x"})).refused == (403, 50013)


async def test_private_threads_are_for_those_who_were_added(
    rest: Rest, loopback: LoopbackDiscord, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    thread = await _thread(rest, channel, 12)
    assert loopback.threads(channel, seen_by=alice) == []
    assert (await rest("PUT", f"/channels/{thread}/thread-members/{alice.id}")).status == 204
    assert [t.name for t in loopback.threads(channel, seen_by=alice)] == ["run"]
    assert loopback.threads(channel, seen_by=guild.add_member("bob")) == []
    boss = guild.add_member("boss", [guild.add_role("Boss", P.MANAGE_THREADS)])
    assert [t.name for t in loopback.threads(channel, seen_by=boss)] == ["run"]
    assert (await rest("DELETE", f"/channels/{thread}/thread-members/{alice.id}")).status == 204
    assert loopback.threads(channel, seen_by=alice) == []


async def test_the_bot_does_not_see_private_threads_of_others(
    rest: Rest, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    thread = guild.open_thread(channel, "secret", alice, private=True)
    assert (await rest("GET", f"/channels/{thread.id}")).status == 200
    _without(guild, P.MANAGE_THREADS)
    assert (await rest("GET", f"/channels/{thread.id}")).refused == (403, 50001)


async def test_who_is_mentioned_in_a_thread_joins_it(
    rest: Rest, loopback: LoopbackDiscord, channel: Channel, alice: Member
) -> None:
    thread = await _thread(rest, channel, 12)
    await rest("POST", f"/channels/{thread}/messages", {"content": f"<@{alice.id}> look"})
    assert [t.name for t in loopback.threads(channel, seen_by=alice)] == ["run"]


async def test_managing_threads_of_others_needs_the_permission(
    rest: Rest, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    mine = await _thread(rest, channel)
    other = guild.open_thread(channel, "hers", alice)
    _without(guild, P.MANAGE_THREADS)
    assert (await rest("PATCH", f"/channels/{mine}", {"name": "done", "archived": True})).status == 200
    assert (await rest("PATCH", f"/channels/{other.id}", {"archived": True})).refused == (403, 50013)
    assert (await rest("PATCH", f"/channels/{mine}", {"locked": True})).refused == (403, 50013)
    assert (await rest("DELETE", f"/channels/{mine}")).refused == (403, 50013)


async def test_an_archived_thread(
    rest: Rest, loopback: LoopbackDiscord, guild: GuildDriver, channel: Channel
) -> None:
    thread = await _thread(rest, channel)
    path = f"/channels/{thread}"
    sent = (await rest("POST", f"{path}/messages", {"content": "x"})).body["id"]
    await rest("PATCH", path, {"archived": True})
    assert (await rest("PATCH", path, {"name": "other"})).refused == (400, 50083)
    assert (await rest("PATCH", f"{path}/messages/{sent}", {"content": "y"})).refused == (400, 50083)
    assert (await rest("POST", f"{path}/messages", {"content": "opens"})).status == 200
    assert loopback.threads(channel, archived=False)
    await rest("PATCH", path, {"archived": True, "locked": True})
    _without(guild, P.MANAGE_THREADS)
    assert (await rest("POST", f"{path}/messages", {"content": "locked"})).refused == (400, 50083)


async def test_an_idle_thread_is_archived_by_itself(
    rest: Rest, loopback: LoopbackDiscord, channel: Channel
) -> None:
    thread = await _thread(rest, channel, auto_archive_duration=60)
    loopback.advance(3000)
    await rest("POST", f"/channels/{thread}/messages", {"content": "x"})
    loopback.advance(3000)
    assert loopback.threads(channel, archived=False)
    loopback.advance(700)
    assert loopback.threads(channel, archived=True)


async def test_active_threads_are_limited(rest: Rest, loopback: LoopbackDiscord, channel: Channel) -> None:
    loopback.world.sizes.active_threads = 2
    first, _ = await _thread(rest, channel), await _thread(rest, channel, 12)
    body = {"name": "third", "type": 11}
    path = f"/channels/{channel.id}/threads"
    assert (await rest("POST", path, body)).refused == (400, 160006)
    await rest("PATCH", f"/channels/{first}", {"archived": True})
    assert (await rest("POST", path, body)).status == 200
    assert (await rest("PATCH", f"/channels/{first}", {"archived": False})).refused == (400, 160006)


async def test_a_message_has_one_thread(rest: Rest, channel: Channel) -> None:
    sent = (await rest("POST", f"/channels/{channel.id}/messages", {"content": "x"})).body["id"]
    path = f"/channels/{channel.id}/messages/{sent}/threads"
    assert (await rest("POST", path, {"name": "t"})).body["id"] == sent
    assert (await rest("POST", path, {"name": "t"})).refused == (400, 160004)


async def test_what_a_channel_is_not_for(rest: Rest, guild: GuildDriver) -> None:
    category, forum = guild.add_category("Leaderboards"), guild.add_forum("central")
    for place in (category, forum):
        assert (await rest("POST", f"/channels/{place.id}/messages", {"content": "x"})).refused == (
            400,
            50008,
        )
    body = {"name": "t", "type": 11}
    assert (await rest("POST", f"/channels/{category.id}/threads", body)).refused == (400, 50024)
    text = guild.channel("submissions")
    odd = body | {"auto_archive_duration": 61}
    assert (await rest("POST", f"/channels/{text.id}/threads", odd)).refused == (400, 50035)


async def test_a_forum_post_has_a_first_message(
    rest: Rest, loopback: LoopbackDiscord, guild: GuildDriver
) -> None:
    forum = guild.add_forum("central")
    path = f"/channels/{forum.id}/threads"
    assert (await rest("POST", path, {"name": "matmul"})).refused == (400, 50035)
    empty = {"name": "matmul", "message": {"content": ""}}
    assert (await rest("POST", path, empty)).refused == (400, 50006)
    tagged = {"name": "matmul", "message": {"content": "x"}, "applied_tags": ["1"]}
    assert (await rest("POST", path, tagged)).refused == (400, 50035)
    assert loopback.threads(forum) == []
    made = await rest("POST", path, {"name": "matmul", "message": {"content": "the task"}})
    assert made.body["message"]["content"] == "the task"
    assert [m.content for m in loopback.messages(loopback.threads(forum)[0])] == ["the task"]


async def test_closed_dms(rest: Rest, loopback: LoopbackDiscord, alice: Member) -> None:
    loopback.close_dms(alice)
    opened = await rest("POST", "/users/@me/channels", {"recipient_id": str(alice.id)})
    path = f"/channels/{opened.body['id']}/messages"
    assert (await rest("POST", path, {"content": "x"})).refused == (403, 50007)
    loopback.close_dms(alice, closed=False)
    assert (await rest("POST", path, {"content": "x"})).status == 200
    assert [message.content for message in loopback.messages(loopback.dm(alice))] == ["x"]


async def test_roles_are_managed_from_above_only(rest: Rest, guild: GuildDriver, alice: Member) -> None:
    path = f"/guilds/{guild.id}"
    made = (await rest("POST", f"{path}/roles", {"name": "Leaderboard Admin"})).body["id"]
    give = f"{path}/members/{alice.id}/roles/{made}"
    assert (await rest("PUT", give)).status == 204
    assert guild.role("Leaderboard Admin") in alice.roles
    assert (await rest("DELETE", give)).status == 204
    assert alice.roles == []
    renamed = {"name": "Leaderboard Admin", "permissions": "1024"}
    assert (await rest("PATCH", f"{path}/roles/{made}", renamed)).body["permissions"] == "1024"
    guild.move_role("Leaderboard Admin", 99)
    assert (await rest("DELETE", give)).refused == (403, 50013)
    own = guild.role("bot").id
    assert (await rest("PATCH", f"{path}/roles/{own}", {"name": "x"})).refused == (403, 50013)
    strong = {"name": "x", "permissions": str(int(P.ADMINISTRATOR))}
    assert (await rest("POST", f"{path}/roles", strong)).refused == (403, 50013)
    unknown = f"{path}/members/{alice.id}/roles/100000000000000000"
    assert (await rest("PUT", unknown)).refused == (404, 10011)


async def test_overwrites_give_no_more_than_one_has(rest: Rest, guild: GuildDriver) -> None:
    rule = {"id": str(guild.id), "type": 0, "allow": str(int(P.MENTION_EVERYONE)), "deny": "0"}
    body = {"name": "c", "type": 0, "permission_overwrites": [rule]}
    assert (await rest("POST", f"/guilds/{guild.id}/channels", body)).refused == (403, 50013)
    guild.set_permissions("bot", ALL)
    assert (await rest("POST", f"/guilds/{guild.id}/channels", body)).status == 200


async def test_mentions_ping_only_as_allowed(
    rest: Rest, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    one, other = guild.add_role("Pingable", mentionable=True), guild.add_role("Quiet")
    content = f"<@{alice.id}> {one.mention} {other.mention} @everyone @here"
    for allowed, pinged in [
        (None, {"alice", "Pingable"}),
        ({"parse": []}, set()),
        ({"parse": ["roles"]}, {"Pingable"}),
        ({"parse": ["users"]}, {"alice"}),
        ({"parse": ["everyone"]}, set()),
    ]:
        body = {"content": content} | ({"allowed_mentions": allowed} if allowed is not None else {})
        await rest("POST", f"/channels/{channel.id}/messages", body)
        assert list(channel.messages.values())[-1].pings == pinged


async def test_with_the_permission_everyone_is_pinged(
    rest: Rest, guild: GuildDriver, channel: Channel
) -> None:
    guild.set_permissions("bot", P.MENTION_EVERYONE)
    path = f"/channels/{channel.id}/messages"
    await rest("POST", path, {"content": "@everyone", "allowed_mentions": {"parse": []}})
    await rest("POST", path, {"content": "@everyone"})
    assert [message.pings for message in channel.messages.values()] == [set(), {"everyone"}]


async def test_discord_py_sets_a_guild_up(
    probe: Probe, loopback: LoopbackDiscord, guild: GuildDriver
) -> None:
    seen = probe.get_guild(guild.id)
    assert seen is not None
    await seen.create_role(name="Leaderboard Admin", colour=discord.Colour.purple())
    category = await seen.create_category("Leaderboards")
    text = await seen.create_text_channel("Some Room", category=category)
    forum = await seen.create_forum("central", category=category)
    post = await forum.create_thread(
        name="matmul", content="the task", file=discord.File(io.BytesIO(b"x"), "t.py")
    )
    await post.thread.edit(name="matmul (ended)", archived=True, locked=True)
    thread = await text.create_thread(name="run", type=discord.ChannelType.private_thread)
    message = await thread.send("queued", embed=discord.Embed(title="Run"))
    await message.edit(content="done")
    await message.pin()
    await message.add_reaction("✅")
    assert guild.channels.keys() == {"submissions", "Leaderboards", "some-room", "central"}
    assert [t.name for t in loopback.threads(guild.channel("central"), archived=True)] == ["matmul (ended)"]
    kept = loopback.messages(loopback.threads(guild.channel("some-room"))[0])[0]
    assert (kept.content, kept.versions, kept.text, kept.pinned) == ("done", ["queued"], "done\nRun", True)
    assert [m.content async for m in thread.history()] == ["done"]
    await message.delete()
    assert (await seen.fetch_channel(text.id)).name == "some-room"
    assert [t.name for t in await seen.active_threads()] == ["run"]


async def test_users_see_and_say_only_what_they_may(
    loopback: LoopbackDiscord, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    guild.set_overwrite(channel, alice, deny=P.SEND_MESSAGES)
    with pytest.raises(CannotDo):
        loopback.say(alice, channel, "hi")
    loopback.say(guild.add_member("bob"), channel, "ho")
    assert [message.content for message in loopback.messages(channel, seen_by=alice)] == ["ho"]
    guild.set_overwrite(channel, alice, deny=P.VIEW_CHANNEL)
    assert loopback.messages(channel, seen_by=alice) == []


async def test_commands_are_offered_by_permission(
    loopback: LoopbackDiscord, guild: GuildDriver, probe: Probe, channel: Channel, alice: Member
) -> None:
    role = guild.add_role("Boss", P.MANAGE_GUILD)
    options = {"who": alice, "role": role}
    with pytest.raises(CannotDo, match="not offered to alice"):
        await loopback.slash(alice, channel, "rule", options)

    async def answer(it: discord.Interaction) -> None:
        await it.response.send_message(f"{it.extras['who'].name} {it.extras['role'].name}")

    probe.steps["rule"] = answer
    guild.give(alice, role)
    assert (
        await (await loopback.slash(alice, channel, "rule", options)).wait_response()
    ).content == "alice Boss"
    for command, bad, text in (
        ("nothing", {}, "no command /nothing"),
        ("board nothing", {}, "no command /board nothing"),
        ("board", {}, "is a group"),
        ("board delete", {}, "needs number"),
        ("board delete", {"number": 10}, "between 1 and 9"),
        ("board delete", {"number": "1"}, "does not take"),
        ("board delete", {"number": 1, "how": "hard"}, "one of"),
        ("board delete", {"number": 1, "why": "x"}, "no option why"),
    ):
        with pytest.raises(CannotDo, match=text):
            await loopback.slash(alice, channel, command, bad)
    with pytest.raises(CannotDo, match="offers nothing"):
        await loopback.autocomplete(alice, channel, "board delete", "number", "1")
    guild.set_permissions("@everyone", EVERYONE & ~P.USE_APPLICATION_COMMANDS)
    with pytest.raises(CannotDo, match="may not use commands"):
        await loopback.slash(alice, channel, "ping")


async def test_the_transcript_tells_in_order_what_users_saw(
    loopback: LoopbackDiscord, guild: GuildDriver, probe: Probe, channel: Channel, alice: Member
) -> None:
    async def work(interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        assert isinstance(interaction.channel, discord.TextChannel)
        thread = await interaction.channel.create_thread(name="run")
        await thread.add_user(interaction.user)
        await thread.send("report", file=discord.File(io.BytesIO(b"log"), "run.log"))
        await interaction.edit_original_response(content=f"see {thread.mention}")
        await interaction.user.send("done")

    probe.steps["ping"] = work
    del loopback.transcript[:]
    await loopback.slash(alice, channel, "ping")
    await loopback.until(lambda: loopback.messages(loopback.dm(alice)), "a DM")
    told = [(r.kind, r.who, r.where, r.private_to) for r in loopback.transcript]
    assert told == [
        ("command", "alice", "submissions", "alice"),
        ("thinking", "bot", "submissions", "alice"),
        ("thread", "bot", "run", None),
        ("joined", "alice", "run", None),
        ("message", "bot", "run", None),
        ("message", "bot", "submissions", "alice"),
        ("message", "bot", "DM with alice", "alice"),
    ]
    assert loopback.transcript[4].files == (("run.log", b"log"),)
    assert [record.kind for record in loopback.transcript.seen_by("bob")] == ["thread", "joined", "message"]


async def test_a_user_writes_in_a_thread(
    loopback: LoopbackDiscord, rest: Rest, guild: GuildDriver, channel: Channel, alice: Member
) -> None:
    thread_id = await _thread(rest, channel)
    thread = loopback.threads(channel)[0]
    await rest("PATCH", f"/channels/{thread_id}", {"archived": True})
    loopback.say(alice, thread, "thanks")
    assert loopback.threads(channel, archived=False) == [thread]
    members = (await rest("GET", f"/channels/{thread_id}/thread-members")).body
    assert str(alice.id) in [member["user_id"] for member in members]
    await rest("PATCH", f"/channels/{thread_id}", {"archived": True, "locked": True})
    with pytest.raises(CannotDo, match="locked"):
        loopback.say(alice, thread, "more")


async def test_commands_of_one_guild(
    loopback: LoopbackDiscord, guild: GuildDriver, probe: Probe, channel: Channel, alice: Member
) -> None:
    probe.steps["ping"] = lambda it: it.response.send_message("pong")
    probe.tree.copy_global_to(guild=discord.Object(guild.id))
    probe.tree.clear_commands(guild=None)
    await probe.tree.sync()
    await probe.tree.sync(guild=discord.Object(guild.id))
    assert loopback.command_names() == set()
    assert "board submit test" in loopback.command_names(guild)
    assert (await (await loopback.slash(alice, channel, "ping")).wait_response()).content == "pong"
    with pytest.raises(CannotDo, match="no command /ping"):
        await loopback.slash(alice, loopback.dm(alice), "ping")


async def test_a_command_in_a_dm(loopback: LoopbackDiscord, probe: Probe, alice: Member) -> None:
    async def answer(it: discord.Interaction) -> None:
        await it.response.send_message(f"{type(it.user).__name__} {it.guild}")

    probe.steps["ping"] = answer
    asked = await loopback.slash(alice, loopback.dm(alice), "ping")
    assert (await asked.wait_response()).content == "User None"


async def test_what_the_loopback_lacks_fails_the_test(loopback: LoopbackDiscord, rest: Rest) -> None:
    assert (await rest("GET", "/stage-instances/1")).status == 500
    with pytest.raises(ExceptionGroup, match="could not answer"):
        loopback.check()
    loopback.world.bugs.clear()
