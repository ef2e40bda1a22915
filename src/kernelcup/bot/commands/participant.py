"""Commands for everyone: submit, view, get the task."""

from __future__ import annotations

from typing import Any

import discord
from discord import app_commands

from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.commands import show as looking
from kernelcup.bot.commands import submit as submitting
from kernelcup.bot.context import Parts
from kernelcup.bot.messages import replies

MODES = {"test": "test", "benchmark": "benchmark", "profile": "profile", "ranked": "leaderboard"}
DESCRIPTIONS = {
    "test": "Check a file's answers",
    "benchmark": "Check a file's answers and time it",
    "profile": "Run a file under the profiler",
    "ranked": "Submit a file to the ranking",
}
MODE_CHOICES = [app_commands.Choice(name=name, value=value) for name, value in MODES.items()]

Number = app_commands.Range[int, 1, 2**53 - 1]


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    _add_submit(groups.leaderboard(tree), parts)
    _add_submit_elsewhere(groups.leaderboard(tree), parts)
    _add_rankings(groups.leaderboard(tree), parts)
    _add_files(groups.leaderboard(tree), parts)
    _add_submissions(groups.leaderboard(tree), parts)
    _add_join(groups.leaderboard(tree), parts)
    _add_small(tree, parts)


def _add_submit(group: app_commands.Group, parts: Parts) -> None:
    submit = groups.subgroup(group, "submit", "Submit a file")
    for name, mode in MODES.items():
        _add_mode(submit, parts, name, mode)

    @submit.command(name="code", description="Submit pasted code")
    @app_commands.describe(
        mode="The mode of the run", leaderboard_name="Which one", gpu="GPUs, separated by commas"
    )
    @app_commands.choices(mode=MODE_CHOICES)
    @app_commands.autocomplete(
        leaderboard_name=autocomplete.open_boards(parts), gpu=autocomplete.devices(parts)
    )
    async def code(
        interaction: discord.Interaction,
        mode: str,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
    ) -> None:
        await submitting.ask_for_code(interaction, parts, mode=mode, board=leaderboard_name, gpu=gpu)


def _add_mode(submit: app_commands.Group, parts: Parts, name: str, mode: str) -> None:
    @submit.command(name=name, description=DESCRIPTIONS[name])
    @app_commands.describe(
        script="The file, or a zip of several",
        leaderboard_name="Which one",
        gpu="GPUs, separated by commas",
        second="Another file that it uses",
        third="Another file",
        fourth="Another file",
    )
    @app_commands.autocomplete(
        leaderboard_name=autocomplete.open_boards(parts), gpu=autocomplete.devices(parts)
    )
    async def submit_file(
        interaction: discord.Interaction,
        script: discord.Attachment,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
        second: discord.Attachment | None = None,
        third: discord.Attachment | None = None,
        fourth: discord.Attachment | None = None,
    ) -> None:
        scripts = [each for each in (script, second, third, fourth) if each is not None]
        await submitting.submit_file(interaction, parts, scripts, mode=mode, board=leaderboard_name, gpu=gpu)


def _add_submit_elsewhere(group: app_commands.Group, parts: Parts) -> None:
    submit = groups.subgroup(group, "submit", "Submit a file")
    for launcher, shown in (("modal", "Modal"), ("github", "GitHub")):
        _add_launcher(submit, parts, launcher, shown)


def _add_launcher(submit: app_commands.Group, parts: Parts, launcher: str, shown: str) -> None:
    @submit.command(name=launcher, description=f"Submit a file to the ranking, on GPUs of {shown}")
    @app_commands.describe(leaderboard_name="Which one", script="The file, or a zip of several")
    @app_commands.autocomplete(leaderboard_name=autocomplete.open_boards(parts))
    async def submit_there(
        interaction: discord.Interaction, leaderboard_name: str, script: discord.Attachment
    ) -> None:
        await submitting.submit_file(
            interaction, parts, [script], mode="leaderboard", board=leaderboard_name, launcher=launcher
        )


def _add_rankings(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="list", description="Show the leaderboards")
    async def list_boards(interaction: discord.Interaction) -> None:
        await looking.list_boards(interaction, parts)

    @group.command(name="show", description="Show a ranking")
    @app_commands.describe(leaderboard_name="Which one", gpu="Its GPU", image="As a picture")
    @app_commands.autocomplete(leaderboard_name=autocomplete.boards(parts), gpu=autocomplete.devices(parts))
    async def show(
        interaction: discord.Interaction,
        leaderboard_name: str,
        gpu: str | None = None,
        image: bool = False,
    ) -> None:
        await looking.show(interaction, parts, leaderboard_name, gpu=gpu, image=image)

    @group.command(name="show-personal", description="Show your own submissions and places")
    @app_commands.describe(leaderboard_name="Which one")
    @app_commands.autocomplete(leaderboard_name=autocomplete.boards(parts))
    async def show_personal(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await looking.show_personal(interaction, parts, leaderboard_name)


def _add_files(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="task", description="Get the files of a task")
    @app_commands.describe(leaderboard_name="Which one")
    @app_commands.autocomplete(leaderboard_name=autocomplete.boards(parts))
    async def task(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await looking.task(interaction, parts, leaderboard_name)

    @group.command(name="reference-code", description="Get the reference of a task")
    @app_commands.describe(leaderboard_name="Which one")
    @app_commands.autocomplete(leaderboard_name=autocomplete.boards(parts))
    async def reference_code(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await looking.reference_code(interaction, parts, leaderboard_name)

    @group.command(name="eval-code", description="Get the judging code")
    @app_commands.describe(
        language="Language of the submissions", leaderboard_name="Needed to see a leaderboard's own harness"
    )
    @app_commands.choices(
        language=[app_commands.Choice(name=name, value=name) for name in ("python", "cuda")]
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.boards(parts))
    async def eval_code(
        interaction: discord.Interaction, language: str, leaderboard_name: str | None = None
    ) -> None:
        await looking.eval_code(interaction, parts, language, leaderboard_name)

    @group.command(name="template", description="Get a template to start from")
    @app_commands.describe(leaderboard_name="Which one", lang="Language")
    @app_commands.autocomplete(
        leaderboard_name=autocomplete.boards(parts), lang=autocomplete.templates(parts)
    )
    async def template(
        interaction: discord.Interaction, leaderboard_name: str, lang: str | None = None
    ) -> None:
        await looking.template(interaction, parts, leaderboard_name, lang)


def _add_submissions(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="get-submission", description="Show a submission and its code")
    @app_commands.describe(submission_id="Its number")
    @app_commands.autocomplete(submission_id=autocomplete.own_submissions(parts))
    async def get_submission(interaction: discord.Interaction, submission_id: Number) -> None:
        await looking.get_submission(interaction, parts, submission_id)

    @group.command(name="cancel", description="Cancel the unfinished jobs of a submission")
    @app_commands.describe(submission_id="Its number")
    @app_commands.autocomplete(submission_id=autocomplete.own_submissions(parts, running=True))
    async def cancel(interaction: discord.Interaction, submission_id: Number) -> None:
        await looking.cancel(interaction, parts, submission_id)

    @group.command(name="help", description="Show the commands")
    async def show_help(interaction: discord.Interaction) -> None:
        await replies.answer(interaction, looking.help_text(interaction, parts))


def _add_join(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="join", description="Join members-only leaderboards with an invite code")
    @app_commands.describe(code="The code; only you see it")
    async def join(interaction: discord.Interaction, code: app_commands.Range[str, 1, 200]) -> None:
        await looking.join(interaction, parts, code)


def _add_small(tree: groups.Tree, parts: Parts) -> None:
    @tree.command(name="ping", description="Check that the bot and the server answer")
    async def ping(interaction: discord.Interaction[Any]) -> None:
        await replies.think(interaction)
        await parts.api.get("/queue", None, patience_s=2)
        await replies.answer(interaction, "pong")
