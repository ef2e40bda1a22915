"""Commands for operators: submissions, pauses, statistics. The API checks permissions."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Any

import discord
from discord import app_commands

from kernelcup.app import stats as figures
from kernelcup.app.results import rejudge as rejudging
from kernelcup.app.results.rejudge import RejudgePlan
from kernelcup.app.rules import pauses
from kernelcup.app.stats import Stats
from kernelcup.app.submissions.withdrawal import delete_submission as delete
from kernelcup.bot.commands import autocomplete, groups, show
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.bot.messages.dialogs import Confirm
from kernelcup.client.requests import path_of
from kernelcup.domain import PauseScope
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import about, plural, score_value

Json = Mapping[str, Any]


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    admin = groups.admin(tree)
    for add in (_delete_submission, _get_submission, _rejudge, _start):
        add(admin, parts)
    for name in ("pause", "stop"):
        _pause(admin, parts, name)
    for name in ("stats", "show-stats"):
        _stats(admin, parts, name)


# ---- submissions


def _delete_submission(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="delete-submission", description="Delete a submission with its runs permanently")
    @app_commands.describe(submission="Its number")
    async def delete_submission(
        interaction: discord.Interaction, submission: app_commands.Range[int, 1]
    ) -> None:
        await begin(parts, interaction)
        who = replies.who(interaction)
        found = await parts.api.get(path_of("submissions", submission), who)
        code = await parts.api.get(path_of("submissions", submission, "code"), who)

        async def act(interaction: discord.Interaction) -> str:
            await parts.api.call(delete, replies.who(interaction), submission_id=submission)
            return f"🗑️ Submission #{submission} was deleted."

        text = f"Delete this submission with its runs permanently?\n{submission_text(found)}"
        file = show.code_file(code)
        file = texts.Attached(f"{submission}-{file.name}", file.data)
        view = Confirm(interaction, "Delete", act, no="Keep", kept=f"Submission #{submission} stays.")
        await view.ask(text, [file])


def _get_submission(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="get-submission", description="Show any user's submission and its code")
    @app_commands.describe(submission_id="Its number")
    async def get_submission(
        interaction: discord.Interaction, submission_id: app_commands.Range[int, 1]
    ) -> None:
        await begin(parts, interaction)
        await show.get_submission(interaction, parts, submission_id)


def submission_text(found: Json) -> str:
    """Return a submission's description, a few lines."""
    head = (
        f"**#{found['id']}** {texts.code(found['file_name'])} by {texts.plain(found['user'], 64)} "
        f"to {texts.code(found['leaderboard'])}, {found['mode']}, {boards.stamp(found['created_at'])}"
    )
    jobs = [
        f"- {texts.code(job['device'])}: {job['verdict'] or job['state']}"
        + (f", {score_value(job['score_s'], job.get('speedup'))}" if job["score_s"] is not None else "")
        for job in found["jobs"][:20]
    ]
    return "\n".join([head, *jobs])


def _rejudge(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="rejudge", description="Judge results again, after a preview")
    @app_commands.describe(
        submission="Only this submission",
        leaderboard_name="All ranked submissions of this leaderboard",
        gpu="Only on this GPU",
        only_best="Only current entries of the standings",
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def rejudge(
        interaction: discord.Interaction,
        submission: app_commands.Range[int, 1] | None = None,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
        only_best: bool = False,
    ) -> None:
        await begin(parts, interaction)
        if (submission is None) == (leaderboard_name is None):
            raise InvalidValue("Give either a submission or a leaderboard.")
        if submission is not None and (gpu is not None or only_best):
            raise InvalidValue("A submission is judged again on all its GPUs.")

        def work(interaction: discord.Interaction, *, dry_run: bool) -> Awaitable[RejudgePlan]:
            who = replies.who(interaction)
            if submission is not None:
                return parts.api.call(
                    rejudging.rejudge_submission, who, submission_id=submission, dry_run=dry_run
                )
            return parts.api.call(
                rejudging.rejudge_board,
                who,
                board=leaderboard_name,
                device=gpu,
                only_best=only_best,
                dry_run=dry_run,
            )

        plan = await work(interaction, dry_run=True)
        if not plan.jobs:
            await replies.answer(interaction, plan_text(plan))
            return

        async def act(interaction: discord.Interaction) -> str:
            return plan_text(await work(interaction, dry_run=False))

        view = Confirm(interaction, f"Judge {plan.jobs} again", act)
        await view.ask(plan_text(plan))


def plan_text(plan: RejudgePlan) -> str:
    """Return the consequences of judging again, before or after."""
    verb = "would be" if plan.dry_run else "is" if plan.jobs == 1 else "are"
    if not plan.jobs:
        lines = ["There is nothing to judge again."]
    else:
        lines = [
            f"**{plural(plan.jobs, 'job')}** of {plural(plan.submissions, 'submission')} {verb} judged again."
        ]
        lines += [f"- {texts.code(device)}: {count}" for device, count in plan.by_device.items()]
        lines.append(f"{plan.standing} of them are in the standings and may change them.")
        if plan.other_version:
            lines.append(f"{plan.other_version} were judged with another version of the task.")
        if plan.estimated_gpu_s is not None:
            lines.append(f"About {about(plan.estimated_gpu_s)} of GPU time.")
    lines += [f"- left out: {count} {texts.plain(reason)}" for reason, count in plan.left_out.items()]
    return "\n".join(lines)


# ---- stop and go


def _pause(group: app_commands.Group, parts: Parts, name: str) -> None:
    @group.command(name=name, description="Stop accepting submissions: all, for a leaderboard or for a GPU")
    @app_commands.describe(
        reason="Reason, shown to everyone who submits",
        leaderboard_name="Only this leaderboard",
        gpu="Only this GPU",
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def pause(
        interaction: discord.Interaction,
        reason: app_commands.Range[str, 1, 500],
        leaderboard_name: str | None = None,
        gpu: str | None = None,
    ) -> None:
        await begin(parts, interaction)
        what, where = _paused(leaderboard_name, gpu)
        operation = pauses.pause if where else pauses.pause_service
        await parts.api.call(operation, replies.who(interaction), **where, reason=reason)
        await replies.answer(
            interaction, f"⏸️ {what} accepts no submissions. Earlier submissions are still judged."
        )


def _start(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="start", description="End a pause")
    @app_commands.describe(leaderboard_name="Resume this leaderboard", gpu="Resume this GPU")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def start(
        interaction: discord.Interaction, leaderboard_name: str | None = None, gpu: str | None = None
    ) -> None:
        await begin(parts, interaction)
        what, where = _paused(leaderboard_name, gpu)
        operation = pauses.unpause if where else pauses.start_service
        await parts.api.call(operation, replies.who(interaction), **where)
        await replies.answer(interaction, f"▶️ {what} accepts submissions again.")


def _paused(board: str | None, gpu: str | None) -> tuple[str, dict[str, Any]]:
    """Return what is paused, at the beginning of a sentence, and where; empty for the whole service."""
    if board is not None and gpu is not None:
        raise InvalidValue("Give a leaderboard or a GPU, not both.")
    if board is not None:
        return f"Leaderboard {texts.code(board)}", {"scope": PauseScope.LEADERBOARD, "key": board}
    if gpu is not None:
        return f"GPU {texts.code(gpu)}", {"scope": PauseScope.DEVICE, "key": gpu}
    return "The service", {}


# ---- figures


def _stats(group: app_commands.Group, parts: Parts, name: str) -> None:
    @group.command(name=name, description="Statistics of submissions and judging")
    @app_commands.describe(
        last_day_only="Only for the last 24 hours", leaderboard_name="Only for this leaderboard"
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def stats(
        interaction: discord.Interaction, last_day_only: bool = False, leaderboard_name: str | None = None
    ) -> None:
        await begin(parts, interaction)
        since = interaction.created_at - timedelta(days=1) if last_day_only else None
        who = replies.who(interaction)
        found = await parts.api.call(figures.stats, who, board=leaderboard_name, since=since)
        for each in texts.split_code(stats_text(found)):
            await replies.answer(interaction, each)


def stats_text(found: Stats) -> str:
    """Return the statistics, one on each line."""
    lines = [
        f"{key} = {getattr(found, key)}"
        for key in ("submissions", "users", "unique_codes", "waiting", "running")
    ]
    for device in found.devices:
        lines.append(f"{device.device}: {plural(device.runs, 'run')}, {device.passed} passed")
        lines.append(f"  {device.run_s:.0f} s of GPU time, {_delay(device.mean_delay_s)} mean wait")
    if found.top_users:
        lines.append("most GPU time:")
        lines += [
            f"  {texts.shortened(texts.one_line(each.user), 24):24} {each.run_s:.0f} s"
            for each in found.top_users
        ]
    return "\n".join(lines)


def _delay(seconds: float | None) -> str:
    return "no" if seconds is None else f"{seconds:.1f} s"
