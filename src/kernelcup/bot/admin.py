"""Commands of those who run leaderboards and the service. The API refuses what somebody may not do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import discord
from discord import app_commands

from kernelcup.bot import boards_text, groups, looking, replies, texts
from kernelcup.bot.api import at
from kernelcup.bot.creator import begin, managed_completion
from kernelcup.bot.live import duration
from kernelcup.bot.parts import Parts
from kernelcup.bot.questions import Confirm
from kernelcup.errors import InvalidValue

Json = Mapping[str, Any]
Command = app_commands.Command[Any, ..., None]

LARGEST_CODES = 50
"""So many invite codes are shown; more come as a file."""


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    admin = groups.admin(tree)
    admin.add_command(_delete_submission(parts))
    admin.add_command(_get_submission(parts))
    admin.add_command(_rejudge(parts))
    admin.add_command(_ban(parts))
    admin.add_command(_unban(parts))
    for name in ("pause", "stop"):
        admin.add_command(_pause(parts, name))
    admin.add_command(_start(parts))
    for name in ("stats", "show-stats"):
        admin.add_command(_stats(parts, name))
    limits = groups.subgroup(admin, "limits", "How much people may submit")
    for command in (_show_limits(parts), _add_limit(parts), _remove_limit(parts)):
        limits.add_command(command)
    invites = groups.subgroup(admin, "invites", "Codes that open closed leaderboards")
    for command in (_make_invites(parts), _list_invites(parts), _revoke_invite(parts)):
        invites.add_command(command)


# ---- submissions


def _delete_submission(parts: Parts) -> Command:
    @app_commands.command(name="delete-submission", description="Delete a submission with its runs, for good")
    @app_commands.describe(submission="Its number")
    async def delete_submission(
        interaction: discord.Interaction, submission: app_commands.Range[int, 1]
    ) -> None:
        await begin(parts, interaction)
        who = replies.who(interaction)
        found = await parts.api.get(at("submissions", submission), who)
        code = await parts.api.get(at("submissions", submission, "code"), who)

        async def act(interaction: discord.Interaction) -> str:
            await parts.api.send("DELETE", at("submissions", submission), replies.who(interaction))
            return f"🗑️ Submission #{submission} was deleted."

        text = f"Delete this submission with its runs, for good?\n{submission_text(found)}"
        file = texts.Attached(f"{submission}-{texts.file_name(found['file_name'])}", code["code"].encode())
        view = Confirm(interaction, "Delete", act, no="Keep", kept=f"Submission #{submission} stays.")
        await view.ask(text, [file])

    return delete_submission


def _get_submission(parts: Parts) -> Command:
    @app_commands.command(name="get-submission", description="Show anybody's submission and its code")
    @app_commands.describe(submission_id="Its number")
    async def get_submission(
        interaction: discord.Interaction, submission_id: app_commands.Range[int, 1]
    ) -> None:
        await begin(parts, interaction)
        await looking.get_submission(interaction, parts, submission_id)

    return get_submission


def submission_text(found: Json) -> str:
    """Return what a submission is, in a few lines."""
    head = (
        f"**#{found['id']}** {texts.code(found['file_name'])} by {texts.plain(found['user'], 64)} "
        f"to {texts.code(found['leaderboard'])}, {found['mode']}, {boards_text.stamp(found['created_at'])}"
    )
    jobs = [
        f"- {texts.code(job['device'])}: {job['verdict'] or job['state']}"
        + (f", {duration(job['score_s'])}" if job["score_s"] is not None else "")
        for job in found["jobs"][:20]
    ]
    return "\n".join([head, *jobs])


def _rejudge(parts: Parts) -> Command:
    @app_commands.command(name="rejudge", description="Judge again; first it is only shown what that means")
    @app_commands.describe(
        submission="Only this one",
        leaderboard_name="All ranked submissions of this leaderboard",
        gpu="Only on this GPU",
        only_best="Only what stands in the ranking",
    )
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def rejudge(
        interaction: discord.Interaction,
        submission: app_commands.Range[int, 1] | None = None,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
        only_best: bool = False,
    ) -> None:
        await begin(parts, interaction)
        path, body = _rejudged(submission, leaderboard_name, gpu, only_best)
        plan = await parts.api.send("POST", path, replies.who(interaction), json={**body, "dry_run": True})
        if not plan["jobs"]:
            await replies.answer(interaction, plan_text(plan))
            return

        async def act(interaction: discord.Interaction) -> str:
            done = await parts.api.send("POST", path, replies.who(interaction), json=body)
            return plan_text(done)

        view = Confirm(interaction, f"Judge {plan['jobs']} again", act)
        await view.ask(plan_text(plan))

    return rejudge


def _rejudged(
    submission: int | None, board: str | None, gpu: str | None, only_best: bool
) -> tuple[str, dict[str, Any]]:
    if (submission is None) == (board is None):
        raise InvalidValue("Give either a submission or a leaderboard.")
    if board is not None:
        return at("leaderboards", board, "rejudge"), {"device": gpu, "only_best": only_best}
    if gpu is not None or only_best:
        raise InvalidValue("A submission is judged again on all its GPUs.")
    return at("submissions", submission, "rejudge"), {}


def plan_text(plan: Json) -> str:
    """Return what judging again means, or what it meant."""
    verb = "would be" if plan["dry_run"] else "are"
    if not plan["jobs"]:
        lines = ["There is nothing that could be judged again."]
    else:
        lines = [f"**{plan['jobs']} jobs** of {plan['submissions']} submissions {verb} judged again."]
        lines += [f"- {texts.code(device)}: {count}" for device, count in plan["by_device"].items()]
        lines.append(f"{plan['standing']} of them stand in the ranking and may change it.")
        if plan["other_version"]:
            lines.append(f"{plan['other_version']} were judged with another version of the task.")
        if plan["estimated_gpu_s"] is not None:
            lines.append(f"About {replies.waiting(plan['estimated_gpu_s'])} of GPU time.")
    lines += [f"- left out: {count} {texts.plain(reason)}" for reason, count in plan["left_out"].items()]
    return "\n".join(lines)


# ---- people


def _ban(parts: Parts) -> Command:
    @app_commands.command(name="ban", description="Let somebody look only: no submissions any more")
    @app_commands.describe(
        reason="Shown to them", user="Somebody on Discord", name="Or their name on the platform"
    )
    async def ban(
        interaction: discord.Interaction,
        reason: app_commands.Range[str, 1, 500],
        user: discord.User | None = None,
        name: str | None = None,
    ) -> None:
        await begin(parts, interaction)
        found = await _account(parts, user, name)
        who = replies.who(interaction)
        await parts.api.send("POST", at("users", found, "ban"), who, json={"reason": reason})
        await replies.answer(interaction, f"🔒 {texts.code(found)} is banned: {texts.plain(reason, 500)}")

    return ban


def _unban(parts: Parts) -> Command:
    @app_commands.command(name="unban", description="Lift a ban")
    @app_commands.describe(user="Somebody on Discord", name="Or their name on the platform")
    async def unban(
        interaction: discord.Interaction, user: discord.User | None = None, name: str | None = None
    ) -> None:
        await begin(parts, interaction)
        found = await _account(parts, user, name)
        await parts.api.send("DELETE", at("users", found, "ban"), replies.who(interaction))
        await replies.answer(interaction, f"🔓 {texts.code(found)} may submit again.")

    return unban


async def _account(parts: Parts, user: discord.User | None, name: str | None) -> str:
    """Return the platform's name of somebody. Whoever comes for the first time gets an account."""
    if (user is None) == (name is None):
        raise InvalidValue("Say who: either somebody on Discord, or a name on the platform.")
    if user is None:
        return str(name)
    return str((await parts.api.get("/me", replies.person(user)))["name"])


# ---- stop and go


def _pause(parts: Parts, name: str) -> Command:
    @app_commands.command(name=name, description="Take no submissions: at all, of a leaderboard or for a GPU")
    @app_commands.describe(
        reason="Shown to those who try", leaderboard_name="Only this leaderboard", gpu="Only this GPU"
    )
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def pause(
        interaction: discord.Interaction,
        reason: app_commands.Range[str, 1, 500],
        leaderboard_name: str | None = None,
        gpu: str | None = None,
    ) -> None:
        await begin(parts, interaction)
        path, what = _paused(leaderboard_name, gpu)
        await parts.api.send("PUT", path, replies.who(interaction), json={"reason": reason})
        await replies.answer(
            interaction, f"⏸️ {what} takes no submissions. What was accepted before is judged."
        )

    return pause


def _start(parts: Parts) -> Command:
    @app_commands.command(name="start", description="End a pause")
    @app_commands.describe(leaderboard_name="Of this leaderboard", gpu="Of this GPU")
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def start(
        interaction: discord.Interaction, leaderboard_name: str | None = None, gpu: str | None = None
    ) -> None:
        await begin(parts, interaction)
        path, what = _paused(leaderboard_name, gpu)
        await parts.api.send("DELETE", path, replies.who(interaction))
        await replies.answer(interaction, f"▶️ {what} takes submissions again.")

    return start


def _paused(board: str | None, gpu: str | None) -> tuple[str, str]:
    if board is not None and gpu is not None:
        raise InvalidValue("Give a leaderboard or a GPU, not both.")
    if board is not None:
        return at("pauses", "leaderboard", board), f"Leaderboard {texts.code(board)}"
    if gpu is not None:
        return at("pauses", "device", gpu), f"GPU {texts.code(gpu)}"
    return "/pauses/service", "The service"


# ---- figures


def _stats(parts: Parts, name: str) -> Command:
    @app_commands.command(name=name, description="How much is submitted and judged")
    @app_commands.describe(last_day_only="Of the last 24 hours", leaderboard_name="Of one leaderboard")
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def stats(
        interaction: discord.Interaction, last_day_only: bool = False, leaderboard_name: str | None = None
    ) -> None:
        await begin(parts, interaction)
        since = (interaction.created_at - timedelta(days=1)).isoformat() if last_day_only else None
        found = await parts.api.get(
            "/stats", replies.who(interaction), leaderboard=leaderboard_name, since=since
        )
        await replies.answer(interaction, texts.split_code(stats_text(found))[0])

    return stats


def stats_text(found: Json) -> str:
    """Return figures, one in a line."""
    lines = [
        f"{key} = {found[key]}" for key in ("submissions", "users", "unique_codes", "waiting", "running")
    ]
    for device in found["devices"]:
        lines.append(f"{device['device']}: {device['runs']} runs, {device['passed']} passed")
        lines.append(f"  {device['run_s']:.0f} s of GPU time, {_delay(device['mean_delay_s'])} mean wait")
    if found["top_users"]:
        lines.append("most GPU time:")
        lines += [
            f"  {texts.shortened(texts.one_line(each['user']), 24):24} {each['run_s']:.0f} s"
            for each in found["top_users"]
        ]
    return "\n".join(lines)


def _delay(seconds: float | None) -> str:
    return "no" if seconds is None else f"{seconds:.1f} s"


# ---- limits


def _show_limits(parts: Parts) -> Command:
    @app_commands.command(name="show", description="Show the limits")
    @app_commands.describe(leaderboard_name="Of one leaderboard")
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def show(interaction: discord.Interaction, leaderboard_name: str | None = None) -> None:
        await begin(parts, interaction)
        found = await parts.api.get("/limits", replies.who(interaction), leaderboard=leaderboard_name)
        lines = [f"**{each['id']}** {limit_text(each)}" for each in found]
        await replies.answer(interaction, texts.bullet_list(lines) or "There are no limits.")

    return show


def _add_limit(parts: Parts) -> Command:
    @app_commands.command(name="add", description="Add a limit")
    @app_commands.describe(
        limit="Such as 10/hour, or 600 gpu-seconds/day",
        leaderboard_name="Of one leaderboard; without it of all",
        gpu="On one GPU",
        together="All people together, not each",
    )
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def add(
        interaction: discord.Interaction,
        limit: str,
        leaderboard_name: str | None = None,
        gpu: str | None = None,
        together: bool = False,
    ) -> None:
        await begin(parts, interaction)
        body = {"text": limit, "leaderboard": leaderboard_name, "device": gpu, "per_user": not together}
        made = await parts.api.send("POST", "/limits", replies.who(interaction), json=body)
        await replies.answer(interaction, f"✅ Limit **{made['id']}**: {limit_text(made)}")

    return add


def _remove_limit(parts: Parts) -> Command:
    @app_commands.command(name="remove", description="Remove a limit")
    @app_commands.describe(number="Its number, as /admin limits show tells it")
    async def remove(interaction: discord.Interaction, number: app_commands.Range[int, 1]) -> None:
        await begin(parts, interaction)
        await parts.api.send("DELETE", at("limits", number), replies.who(interaction))
        await replies.answer(interaction, f"✅ Limit {number} is gone.")

    return remove


def limit_text(limit: Json) -> str:
    """Return a limit in words."""
    what = "GPU-seconds" if "gpu" in limit["quantity"] else "submissions"
    group = f"{limit['mode_group']} " if limit["mode_group"] else ""
    words = [f"{limit['amount']:g} {group}{what} in {replies.waiting(limit['window_s'])}"]
    if limit["board"]:
        words.append(f"to {texts.code(limit['board'])}")
    if limit["device"]:
        words.append(f"on {texts.code(limit['device'])}")
    whose = f"for {texts.code(limit['user'])}" if limit["user"] else None
    words.append(whose or ("for each user" if limit["per_user"] else "for all together"))
    return " ".join(words)


# ---- invites


def _make_invites(parts: Parts) -> Command:
    @app_commands.command(name="make", description="Make codes, each of which lets one person in")
    @app_commands.describe(leaderboard_name="Which leaderboard", count="How many", label="Whom they are for")
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def make(
        interaction: discord.Interaction,
        leaderboard_name: str,
        count: app_commands.Range[int, 1, 1000] = 1,
        label: str = "",
    ) -> None:
        await begin(parts, interaction)
        body = {"leaderboards": [leaderboard_name], "count": count, "label": label}
        made = await parts.api.send("POST", "/invites", replies.who(interaction), json=body)
        codes = "\n".join(made["codes"])
        text = f"{count} codes for {texts.code(leaderboard_name)}; each lets one person in:"
        if count > LARGEST_CODES:
            file = texts.Attached(f"invites-{texts.file_name(leaderboard_name)}.txt", codes.encode())
            await replies.answer(interaction, text, files=[file])
        else:
            await replies.answer(interaction, f"{text}\n{texts.block(codes)}")

    return make


def _list_invites(parts: Parts) -> Command:
    @app_commands.command(name="list", description="List the codes of a leaderboard")
    @app_commands.describe(leaderboard_name="Which leaderboard")
    @app_commands.autocomplete(leaderboard_name=managed_completion(parts))
    async def list_codes(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await begin(parts, interaction)
        path = at("leaderboards", leaderboard_name, "invites")
        found = await _every(parts, path, replies.who(interaction))
        lines = [
            f"{each['code']}  {texts.one_line(each['label'])[:40]}  "
            f"{'used by ' + texts.one_line(each['claimed_by']) if each['claimed_by'] else 'unused'}"
            for each in found
        ]
        name = f"invites-{texts.file_name(leaderboard_name)}.txt"
        logs = texts.pack([texts.Log(name, "\n".join(lines))] if lines else ["There are no codes."])
        for message in logs:
            await replies.answer(interaction, message.text, files=message.files)

    return list_codes


async def _every(parts: Parts, path: str, who: Any) -> list[Json]:
    """Return all of a list, which may come in pages."""
    found: list[Json] = []
    after: Any = None
    while True:
        page = await parts.api.get(path, who, after=after)
        if isinstance(page, list):
            return page
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


def _revoke_invite(parts: Parts) -> Command:
    @app_commands.command(name="revoke", description="Make a code worthless")
    @app_commands.describe(code="The code")
    async def revoke(interaction: discord.Interaction, code: str) -> None:
        await begin(parts, interaction)
        done = await parts.api.send("DELETE", at("invites", code), replies.who(interaction))
        used = "; who joined with it stays a member" if done["was_claimed"] else ""
        await replies.answer(interaction, f"✅ {texts.code(done['code'])} opens nothing any more{used}.")

    return revoke
