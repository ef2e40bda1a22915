"""``kernelcup bot``, and a bot beside a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from stage import Stage

from kernelcup.bot.context import BotConfig, is_configured
from kernelcup.cli.operate import bot as command
from kernelcup.config.settings import Config
from kernelcup.errors import ConfigError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """A service whose bot is not connected."""
    await stage.bot.close()
    return stage


def settings(stage: Stage, **environ: str) -> Config:
    """Return a configuration as `kernelcup bot` reads it."""
    given = {
        "KERNELCUP_DISCORD_TOKEN": stage.bot_config.token,
        "KERNELCUP_BOT_TOKEN": stage.bot_config.service_token,
        "KERNELCUP_API_URL": stage.bot_config.api_url,
    }
    return replace(stage.config, environ=given | environ)


def test_a_bot_is_configured_by_two_tokens(tmp_path: Path) -> None:
    assert not is_configured({"KERNELCUP_DISCORD_TOKEN": "x"})
    assert is_configured({"KERNELCUP_DISCORD_TOKEN": "x", "KERNELCUP_BOT_TOKEN": "y"})


async def test_settings_come_from_the_environment(stage: Stage) -> None:
    config = BotConfig.of(settings(stage, KERNELCUP_DISCORD_GUILDS="12, 13"))
    assert config.role_guilds == {12, 13}
    assert config.memory_file == stage.config.data_dir / "bot.db"
    assert stage.bot_config.token not in repr(config)
    assert stage.bot_config.service_token not in repr(config)


async def test_what_is_missing_is_said(stage: Stage) -> None:
    for change, text in [
        ({"KERNELCUP_DISCORD_TOKEN": ""}, "KERNELCUP_DISCORD_TOKEN is not set"),
        ({"KERNELCUP_BOT_TOKEN": " "}, "KERNELCUP_BOT_TOKEN is not set"),
        ({"KERNELCUP_DISCORD_GUILDS": "home"}, "expected guild ids"),
    ]:
        with pytest.raises(ConfigError, match=text):
            command.make_bot(settings(stage, **change))


async def test_a_bot_runs_beside_a_server_until_it_is_stopped(stage: Stage) -> None:
    with stage.discord.patched():
        thread = command.BotThread(settings(stage), "http://nowhere")
        try:
            await stage.discord.until(lambda: stage.discord.connected, "a connection", 10)
            await stage.discord.until(lambda: "ping" in stage.discord.command_names(), "commands", 10)
            ada = stage.guild.add_member("ada")
            asked = await stage.discord.slash(ada, stage.room, "ping")
            await asked.wait_text("pong", 10)
        finally:
            await asyncio.to_thread(thread.stop)
    assert not thread.is_alive


async def test_a_wrong_token_ends_the_bot_with_a_word(stage: Stage) -> None:
    with stage.discord.patched():
        made = command.make_bot(settings(stage, KERNELCUP_DISCORD_TOKEN="wrong"))
        with pytest.raises(ConfigError, match="rejects this token"):
            await asyncio.to_thread(command.run, made, "wrong")


async def test_a_closed_bot_handles_no_events_and_is_closed_once(stage: Stage) -> None:
    with stage.discord.patched():
        made = command.make_bot(settings(stage))
        async with made:
            await made.close()
            made.dispatch("ready")  # as discord.py does where guilds arrive after its loop is gone


async def test_the_doctor_looks_at_discord(stage: Stage) -> None:
    with stage.discord.patched():
        found = await asyncio.to_thread(command.look, settings(stage))
    assert [each.state for each in found] == ["ok", "ok", "ok"]
