"""The rules of interactions: three seconds, once, fifteen minutes."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import discord
import pytest
from discord_loopback import CannotDo, Channel, GuildDriver, LoopbackDiscord, Member, NoAnswer
from probe import Probe, Rest

pytestmark = pytest.mark.anyio


async def test_a_message_answers_a_command(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.send_message("pong")
    asked = await loopback.slash(alice, channel, "ping")
    message = await asked.wait_response()
    assert (message.content, asked.ephemeral, asked.answer) == ("pong", False, 4)
    assert loopback.messages(channel) == [message]


async def test_an_ephemeral_answer_is_seen_by_one_person(
    loopback: LoopbackDiscord, guild: GuildDriver, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.send_message("for you", ephemeral=True)
    message = await (await loopback.slash(alice, channel, "ping")).wait_response()
    assert message.ephemeral
    assert loopback.messages(channel, seen_by=alice) == [message]
    assert loopback.messages(channel, seen_by=guild.add_member("bob")) == []
    found = probe.get_channel(channel.id)
    assert isinstance(found, discord.TextChannel)
    with pytest.raises(discord.NotFound, match="Unknown Message"):
        await found.fetch_message(message.id)


async def test_an_answer_after_three_seconds_is_refused(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    go_on, waits = asyncio.Event(), asyncio.Event()

    async def late(interaction: discord.Interaction) -> None:
        waits.set()
        await go_on.wait()
        await interaction.response.send_message("too late")

    probe.steps["ping"] = late
    asked = await loopback.slash(alice, channel, "ping")
    await waits.wait()
    loopback.advance(3.1)
    go_on.set()
    await loopback.until(lambda: probe.refusals, "a refusal")
    assert probe.refusals == [10062]
    assert asked.failed
    with pytest.raises(NoAnswer, match="did not respond"):
        await asked.wait_response()
    assert loopback.transcript[-1].text == "The application did not respond"


async def test_an_answer_within_three_seconds_is_taken(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    go_on, waits = asyncio.Event(), asyncio.Event()

    async def slow(interaction: discord.Interaction) -> None:
        waits.set()
        await go_on.wait()
        await interaction.response.send_message("in time")

    probe.steps["ping"] = slow
    asked = await loopback.slash(alice, channel, "ping")
    await waits.wait()
    loopback.advance(2.9)
    go_on.set()
    await asked.wait_response()
    loopback.advance(10)
    assert not asked.failed


async def test_a_second_acknowledgement_is_refused(
    loopback: LoopbackDiscord, probe: Probe, rest: Rest, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.defer()
    asked = await loopback.slash(alice, channel, "ping")
    await asked.wait_acknowledged()
    path = f"/interactions/{asked.id}/{asked.token}/callback"
    assert (await rest("POST", path, {"type": 4, "data": {"content": "again"}})).refused == (400, 40060)


async def test_a_refused_answer_does_not_count_as_acknowledgement(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    async def retry(interaction: discord.Interaction) -> None:
        with pytest.raises(discord.HTTPException, match="2000 or fewer"):
            await interaction.response.send_message("x" * 2001)
        await interaction.response.send_message("short")

    probe.steps["ping"] = retry
    assert (await (await loopback.slash(alice, channel, "ping")).wait_response()).content == "short"


async def test_the_wrong_token_is_an_unknown_interaction(
    loopback: LoopbackDiscord, probe: Probe, rest: Rest, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.defer()
    asked = await loopback.slash(alice, channel, "ping")
    path = f"/interactions/{asked.id}/guessed/callback"
    assert (await rest("POST", path, {"type": 5})).refused == (404, 10062)


async def test_a_type_that_does_not_fit_is_refused(
    loopback: LoopbackDiscord, probe: Probe, rest: Rest, alice: Member, channel: Channel
) -> None:
    done = asyncio.Event()
    probe.steps["ping"] = lambda it: done.wait()
    asked = await loopback.slash(alice, channel, "ping")
    path = f"/interactions/{asked.id}/{asked.token}/callback"
    for kind in (1, 6, 7, 8):
        assert (await rest("POST", path, {"type": kind, "data": {}})).refused == (400, 50035)
    done.set()


async def test_a_token_lives_fifteen_minutes(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    kept: list[discord.Interaction] = []

    async def defer(interaction: discord.Interaction) -> None:
        await interaction.response.defer(thinking=True)
        kept.append(interaction)

    probe.steps["ping"] = defer
    await loopback.slash(alice, channel, "ping")
    await loopback.until(lambda: kept, "a deferral")
    loopback.advance(15 * 60 - 1)
    await kept[0].edit_original_response(content="still good")
    assert not kept[0].is_expired()
    loopback.advance(2)
    assert kept[0].is_expired()
    for late in (
        kept[0].edit_original_response(content="late"),
        kept[0].followup.send("late"),
        kept[0].delete_original_response(),
    ):
        with pytest.raises(discord.HTTPException) as refused:
            await late
        assert (refused.value.status, refused.value.code) == (401, 50027)


async def test_a_followup_before_the_acknowledgement_is_refused(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.followup.send("first")
    await loopback.slash(alice, channel, "ping")
    await loopback.until(lambda: probe.refusals, "a refusal")
    assert probe.refusals == [10015]


async def test_the_first_followup_takes_the_place_of_a_deferral(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    async def follow(interaction: discord.Interaction) -> None:
        await interaction.response.defer(thinking=True, ephemeral=True)
        await interaction.followup.send("one")
        await interaction.followup.send("two")
        await interaction.edit_original_response(content="one, edited")

    probe.steps["ping"] = follow
    asked = await loopback.slash(alice, channel, "ping")
    await asked.wait_text("one, edited")
    assert [(m.content, m.ephemeral) for m in asked.messages] == [("one, edited", True), ("two", False)]
    assert [r.kind for r in loopback.transcript.seen_by("alice")][-4:] == [
        "thinking",
        "message",
        "message",
        "edit",
    ]


async def test_original_and_followups_can_be_fetched_edited_and_deleted(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    async def work(interaction: discord.Interaction) -> None:
        await interaction.response.send_message("first")
        more = await interaction.followup.send("second", wait=True)
        file = discord.File(io.BytesIO(b"log"), "run.log")
        await more.edit(content="second, edited", attachments=[file])
        assert (await interaction.original_response()).content == "first"
        assert (await interaction.followup.fetch_message(more.id)).attachments[0].filename == "run.log"
        await interaction.delete_original_response()

    probe.steps["ping"] = work
    asked = await loopback.slash(alice, channel, "ping")
    await loopback.until(lambda: asked.original and asked.original.deleted, "a deletion")
    assert [(m.content, m.files) for m in asked.messages] == [("second, edited", {"run.log": b"log"})]


async def test_autocomplete_offers_what_fits(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.offered = ["matmul", "vectoradd", "matadd"]
    assert await loopback.autocomplete(alice, channel, "board submit test", "board", "mat") == [
        "matmul",
        "matadd",
    ]


async def test_more_than_25_choices_are_refused(
    loopback: LoopbackDiscord, probe: Probe, rest: Rest, alice: Member, channel: Channel
) -> None:
    probe.offered = [f"board-{i}" for i in range(26)]
    typing = asyncio.create_task(loopback.autocomplete(alice, channel, "board submit test", "board"))
    await loopback.until(lambda: any(r.status == 400 for r in loopback.requests), "a refusal")
    loopback.advance(4)
    with pytest.raises(CannotDo, match="Loading options failed"):
        await typing


async def test_a_file_is_read_from_its_address(
    loopback: LoopbackDiscord, probe: Probe, alice: Member, channel: Channel
) -> None:
    async def read(interaction: discord.Interaction) -> None:
        data = await interaction.extras["script"].read()
        await interaction.response.send_message(f"{interaction.extras['board']}: {data.decode()}")

    probe.steps["board submit test"] = read
    asked = await loopback.slash(
        alice, channel, "board submit test", {"board": "matmul"}, attachment=("k.py", b"import torch")
    )
    assert (await asked.wait_response()).content == "matmul: import torch"


class _Menu(discord.ui.View):
    """A menu of two devices and a button."""

    @discord.ui.select(
        custom_id="gpus", max_values=2, options=[discord.SelectOption(label=g) for g in ("H100", "A100")]
    )
    async def choose(self, interaction: discord.Interaction, select: Any) -> None:
        await interaction.response.edit_message(content=f"chosen: {', '.join(select.values)}", view=None)

    @discord.ui.button(label="Delete", custom_id="delete")
    async def delete(self, interaction: discord.Interaction, button: Any) -> None:
        await interaction.response.send_modal(_Form())

    @discord.ui.button(label="Later", custom_id="later", disabled=True)
    async def later(self, interaction: discord.Interaction, button: Any) -> None:
        """Cannot be pressed."""

    @discord.ui.button(label="Quiet", custom_id="quiet")
    async def quiet(self, interaction: discord.Interaction, button: Any) -> None:
        await interaction.response.defer()
        await interaction.edit_original_response(content="deferred and edited")


class _Form(discord.ui.Modal, title="Really?"):
    """A form with a text and a menu."""

    name = discord.ui.TextInput[Any](label="Name of the board", custom_id="name", min_length=3, max_length=10)
    why: Any = discord.ui.Label(
        text="Reason",
        component=discord.ui.Select(
            custom_id="why", options=[discord.SelectOption(label="Old", value="old")]
        ),
    )

    async def on_submit(self, interaction: discord.Interaction) -> None:
        await interaction.response.send_message(f"deleted {self.name.value}: {self.why.component.values}")


@pytest.fixture
def shows_menu(probe: Probe) -> Probe:
    """A bot whose ping shows the menu."""
    probe.steps["ping"] = lambda it: it.response.send_message("which?", view=_Menu())
    return probe


async def test_a_choice_updates_the_message(
    loopback: LoopbackDiscord, shows_menu: Probe, alice: Member, channel: Channel
) -> None:
    asked = await loopback.slash(alice, channel, "ping")
    chosen = await asked.choose("gpus", ["H100", "A100"])
    await asked.wait_text("chosen: H100, A100")
    await chosen.wait_acknowledged()
    assert chosen.answer == 7
    assert asked.messages[0].controls == []
    with pytest.raises(CannotDo):
        await loopback.press(alice, asked.messages[0], "Delete")


async def test_a_deferred_update_edits_the_message(
    loopback: LoopbackDiscord, shows_menu: Probe, alice: Member, channel: Channel
) -> None:
    asked = await loopback.slash(alice, channel, "ping")
    pressed = await asked.press("Quiet")
    await asked.wait_text("deferred and edited")
    assert pressed.answer == 6
    assert pressed.original is asked.original


async def test_a_button_opens_a_form_that_is_answered(
    loopback: LoopbackDiscord, shows_menu: Probe, alice: Member, channel: Channel
) -> None:
    asked = await loopback.slash(alice, channel, "ping")
    pressed = await asked.press("Delete")
    filled = await pressed.fill({"Name of the board": "matmul", "Reason": "Old"})
    assert (await filled.wait_response()).content == "deleted matmul: ['old']"
    kinds = [record.kind for record in loopback.transcript if record.who != "owner"]
    assert kinds == ["command", "message", "press", "form", "fill", "message"]


async def test_users_do_only_what_the_client_offers(
    loopback: LoopbackDiscord, guild: GuildDriver, shows_menu: Probe, alice: Member, channel: Channel
) -> None:
    asked = await loopback.slash(alice, channel, "ping")
    message = await asked.wait_response()
    with pytest.raises(CannotDo, match="greyed out"):
        await asked.press("Later")
    with pytest.raises(CannotDo, match="the menu offers"):
        await asked.choose("gpus", ["T4"])
    with pytest.raises(CannotDo, match="takes 1 to 2"):
        await asked.choose("gpus", [])
    with pytest.raises(CannotDo, match="has no 'nothing'"):
        await loopback.press(alice, message, "nothing")
    pressed = await asked.press("Delete")
    await pressed.wait_form()
    with pytest.raises(CannotDo, match="at least 3"):
        await pressed.fill({"name": "ab", "why": ["old"]})
    with pytest.raises(CannotDo, match="at most 10"):
        await pressed.fill({"name": "x" * 11, "why": ["old"]})
    with pytest.raises(CannotDo, match="the form has no colour"):
        await pressed.fill({"name": "abc", "why": ["old"], "colour": "red"})


async def test_nobody_presses_what_only_another_sees(
    loopback: LoopbackDiscord, guild: GuildDriver, probe: Probe, alice: Member, channel: Channel
) -> None:
    probe.steps["ping"] = lambda it: it.response.send_message("?", view=_Menu(), ephemeral=True)
    asked = await loopback.slash(alice, channel, "ping")
    await asked.wait_response()
    with pytest.raises(CannotDo, match="bob does not see"):
        await asked.press("Delete", by=guild.add_member("bob"))


async def test_a_command_while_no_bot_is_connected_fails(
    loopback: LoopbackDiscord, guild: GuildDriver, alice: Member, channel: Channel
) -> None:
    async with loopback.connect(Probe()):
        """It registers its commands and goes."""
    loopback.gateway.forget_sessions()
    asked = await loopback.slash(alice, channel, "ping")
    loopback.advance(3)
    assert asked.failed


async def test_buttons_work_after_a_restart_of_the_bot(
    loopback: LoopbackDiscord, guild: GuildDriver, alice: Member, channel: Channel
) -> None:
    first, second = Probe(), Probe()
    async with loopback.connect(first):
        first.steps["ping"] = lambda it: it.response.send_message("which?", view=_Menu(timeout=None))
        asked = await loopback.slash(alice, channel, "ping")
        message = await asked.wait_response()
    async with loopback.connect(second):
        second.add_view(_Menu(timeout=None))
        pressed = await loopback.press(alice, message, "Quiet")
        await pressed.wait_acknowledged()
        await asked.wait_text("deferred and edited")
