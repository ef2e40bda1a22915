"""``kernelcup board webhook``: the addresses that get a leaderboard's news."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelcup.cli.backend.base import Backend
from kernelcup.cli.backend.opening import with_backend
from kernelcup.cli.options import BoardArgument, JsonOption
from kernelcup.cli.show.json_object import json_object
from kernelcup.cli.show.plain_text import plain
from kernelcup.client.requests import path_of, reader
from kernelcup.domain import OPERATOR

if TYPE_CHECKING:
    from kernelcup.app.news.queries.webhooks import Webhook

app = typer.Typer(help="Send a leaderboard's news to an https address.", no_args_is_help=True)

NumberArgument = Annotated[
    int, typer.Argument(min=1, max=2**63 - 1, metavar="ID", help="As `list` shows it.")
]


@app.command()
@with_backend
def add(
    backend: Backend,
    board: BoardArgument,
    url: Annotated[str, typer.Argument(metavar="URL", help="An https address of the public internet.")],
    as_json: JsonOption = False,
) -> None:
    """Register a webhook. The secret that verifies its messages is shown only once."""
    from kernelcup.app.news import webhooks

    name = backend.board(board).name

    def here(db: Any) -> dict[str, Any]:
        networks = backend.config.webhook_networks
        made = webhooks.add_webhook(db, OPERATOR, name, url, now=_now(), own_networks=networks)
        return {**webhook_object(made.webhook), "secret": made.secret}

    made = backend.ask(
        here,
        lambda api: api.ask(
            reader(dict[str, Any]), "POST", path_of("leaderboards", name, "webhooks"), json={"url": url}
        ),
    )
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(plain(f"webhook {made['id']} of {name} gets its news: {url}"))
    typer.echo(plain(f"secret, shown only once: {made['secret']}"))
    typer.echo(f"Next: kernelcup board webhook list {name}{backend.option}")


@app.command("list")
@with_backend
def list_all(backend: Backend, board: BoardArgument, as_json: JsonOption = False) -> None:
    """List the webhooks of a leaderboard, and whether they work."""
    from kernelcup.app.news import webhooks
    from kernelcup.app.news.queries.webhooks import Webhook

    name = backend.board(board).name
    found = backend.ask(
        lambda db: webhooks.list_webhooks(db, OPERATOR, name),
        lambda api: api.ask(
            lambda body: reader(list[Webhook])(body["items"]),
            "GET",
            path_of("leaderboards", name, "webhooks"),
        ),
    )
    if as_json:
        typer.echo(json.dumps({"webhooks": [webhook_object(each) for each in found]}))
        return
    if not found:
        typer.echo(f"{name} has no webhook. Next: kernelcup board webhook add {name} URL{backend.option}")
    for each in found:
        typer.echo(plain(f"{each.id}  {each.url}  {state_of(each)}"))


@app.command()
@with_backend
def enable(
    backend: Backend, board: BoardArgument, number: NumberArgument, as_json: JsonOption = False
) -> None:
    """Enable a disabled webhook again. Its waiting messages are sent."""
    from kernelcup.app.news import webhooks

    name = backend.board(board).name
    backend.ask(
        lambda db: webhooks.enable_webhook(db, OPERATOR, name, number, now=_now()),
        lambda api: api.tell("POST", path_of("leaderboards", name, "webhooks", number, "enable")),
    )
    typer.echo(json.dumps({"enabled": number}) if as_json else f"webhook {number} is in use again")


@app.command()
@with_backend
def remove(
    backend: Backend, board: BoardArgument, number: NumberArgument, as_json: JsonOption = False
) -> None:
    """Remove a webhook and its waiting messages."""
    from kernelcup.app.news import webhooks

    name = backend.board(board).name
    backend.ask(
        lambda db: webhooks.remove_webhook(db, OPERATOR, name, number, now=_now()),
        lambda api: api.tell("DELETE", path_of("leaderboards", name, "webhooks", number)),
    )
    typer.echo(json.dumps({"removed": number}) if as_json else f"webhook {number} is removed")


def state_of(webhook: Webhook) -> str:
    """Describe whether a webhook works."""
    waiting = f"; {webhook.waiting} waiting" if webhook.waiting else ""
    if webhook.disabled_at is not None:
        since = f"disabled since {webhook.disabled_at:%Y-%m-%d %H:%M} UTC"
        return f"{since} after {webhook.failures} failures, the last: {webhook.last_error}{waiting}"
    if webhook.failures:
        return f"fails, {webhook.failures} times so far, the last: {webhook.last_error}{waiting}"
    if webhook.succeeded_at is None:
        return f"not used yet{waiting}"
    return f"works, last used {webhook.succeeded_at:%Y-%m-%d %H:%M} UTC{waiting}"


def webhook_object(webhook: Webhook) -> dict[str, Any]:
    """Return a webhook as ``--json`` prints it."""
    return json_object(
        webhook,
        "id",
        "leaderboard",
        "url",
        "created_by",
        "created_at",
        "failures",
        "last_error",
        "succeeded_at",
        "disabled_at",
        "waiting",
    )


def _now() -> datetime:
    return datetime.now(UTC)
