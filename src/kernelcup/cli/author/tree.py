"""The commands of ``kernelcup board``."""

from __future__ import annotations

from kernelcup.cli.author import board_sync, board_update, final
from kernelcup.cli.author.board import app
from kernelcup.cli.help import lazy

app.command("update")(board_update.update)
app.command("sync")(board_sync.sync)
app.command("final")(final.final)
WEBHOOK = "Send a leaderboard's news to an https address."
EXPORT = "Export files, results and winners, and list files that are alike."
app.add_typer(lazy("author.webhooks", WEBHOOK), name="webhook")
app.add_typer(lazy("author.exports", EXPORT), name="export")
