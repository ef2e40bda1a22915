"""Results that wait for a review: shown and decided with buttons that survive a restart."""

from __future__ import annotations

import re
from typing import Any, Self

import discord
from discord import app_commands, ui

from kernelcup.app.results import reviews as operations
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.delivery.progress_message import duration
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.domain.answers import Review
from kernelcup.reporting.columns import evidence_lines
from kernelcup.reporting.phrases import same_code_text

AT_ONCE = 5
"""Number of reviews shown at a time, each with its buttons."""

LABELS = {"released": "Release", "rejected": "Reject"}
STYLES = {"released": discord.ButtonStyle.success, "rejected": discord.ButtonStyle.danger}


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the command, and handle the buttons of messages from before a restart."""

    tree.client.add_dynamic_items(DecideButton)

    @app_commands.command(name="reviews", description="Show results that wait for a decision")
    @app_commands.describe(leaderboard_name="Only for this leaderboard")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def reviews(interaction: discord.Interaction, leaderboard_name: str | None = None) -> None:
        await begin(parts, interaction)
        who = replies.who(interaction)
        found = await parts.api.call(operations.open_reviews, who, board=leaderboard_name, limit=AT_ONCE + 1)
        if not found:
            await replies.answer(interaction, "No result waits for a decision.")
            return
        for review in found[:AT_ONCE]:
            view = ui.View(timeout=None)
            for decision in LABELS:
                view.add_item(DecideButton(review.id, decision))
            await replies.answer(interaction, review_text(review), view=view)
        if len(found) > AT_ONCE:
            await replies.answer(
                interaction, "More results wait: run the command again after deciding these."
            )

    groups.admin(tree).add_command(reviews)


class DecideButton(
    ui.DynamicItem[ui.Button[Any]], template=r"kc:review:(?P<id>\d{1,18}):(?P<decision>released|rejected)"
):
    """Asks for a note, then decides."""

    def __init__(self, review: int, decision: str) -> None:
        self._review = review
        self._decision = decision
        button: ui.Button[Any] = ui.Button(
            label=LABELS[decision], style=STYLES[decision], custom_id=f"kc:review:{review}:{decision}"
        )
        super().__init__(button)

    @classmethod
    async def from_custom_id(cls, _: discord.Interaction, __: ui.Item[Any], match: re.Match[str], /) -> Self:
        """Return the button that was pressed."""
        return cls(int(match["id"]), match["decision"])

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        """Ask for the note; the API checks permissions."""
        parts: Parts = interaction.client.parts
        await interaction.response.send_modal(_Note(parts, self._review, self._decision))


class _Note(replies.Form):
    """The form for the reason of a decision."""

    def __init__(self, parts: Parts, review: int, decision: str) -> None:
        super().__init__(title=f"{LABELS[decision]} the result of review {review}")
        self._parts = parts
        self._review = review
        self._decision = decision
        self._note: ui.TextInput[Any] = ui.TextInput(
            label="Why", custom_id="note", style=discord.TextStyle.paragraph, max_length=2000
        )
        self.add_item(self._note)

    async def on_submit(self, interaction: discord.Interaction) -> None:
        """Decide, and remove the buttons."""
        await interaction.response.defer()
        done = await self._parts.api.call(
            operations.decide,
            replies.who(interaction),
            review_id=self._review,
            decision=self._decision,
            note=self._note.value,
        )
        await interaction.edit_original_response(content=review_text(done), view=None)


def review_text(review: Review) -> str:
    """Return the description of a result in review, or after it."""
    score = "" if review.score_s is None else f", {duration(review.score_s)}"
    user, opener = texts.plain(review.user, 64), texts.plain(review.opened_by, 64)
    where = f"{texts.code(review.leaderboard)} on {texts.code(review.device)}"
    since = boards.stamp(review.opened_at, "R")
    lines = [
        f"🔎 **Review {review.id}**: submission #{review.submission_id} by {user} to {where}{score}",
        f"Held back by {opener} {since}: {texts.plain(review.reason, 400)}",
    ]
    if review.evidence:
        shown = texts.shortened("\n".join(evidence_lines(review.evidence)), 700)
        lines.append(texts.block(shown))
    if review.decision:
        by = texts.plain(review.decided_by or "", 64)
        lines.append(f"**{review.decision.capitalize()}** by {by}: {texts.plain(review.note, 300)}")
    return "\n".join(lines) + same_code_text(review, "\n")
