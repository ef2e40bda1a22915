"""Words of ``kernelcup board webhook``: the addresses that get a leaderboard's news."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kernelcup.app.news import webhooks
from kernelcup.cli.operations import Answer, commands_of, echo, listed, say
from kernelcup.domain.answers import Webhook
from kernelcup.reporting.phrases import plural

commands = partial(commands_of, "board webhook", order=("add", "list", "enable", "remove"))


def new_lines(answer: Answer) -> Iterable[str]:
    """Return a new webhook and its secret."""
    made, board = answer.value, answer.given["board"]
    yield f"webhook {made.id} of {board} gets its news: {made.url}"
    yield f"secret, shown only once: {made.secret}"
    yield f"Next: kernelcup board webhook list {board}{answer.option}"


def list_lines(answer: Answer) -> Iterable[str]:
    """Return a line for each webhook."""
    if not answer.value:
        board = answer.given["board"]
        yield f"{board} has no webhook. Next: kernelcup board webhook add {board} URL{answer.option}"
    for webhook in answer.value:
        yield f"{webhook.id}  {webhook.url}  {state_of(webhook)}"


def state_of(webhook: Webhook) -> str:
    """Describe whether a webhook works."""
    waiting = f"; {webhook.waiting} waiting" if webhook.waiting else ""
    if webhook.disabled_at is not None:
        since = f"disabled since {webhook.disabled_at:%Y-%m-%d %H:%M} UTC"
        return f"{since} after {plural(webhook.failures, 'failure')}, the last: {webhook.last_error}{waiting}"
    if webhook.failures:
        return f"fails, {plural(webhook.failures, 'time')} so far, the last: {webhook.last_error}{waiting}"
    if webhook.succeeded_at is None:
        return f"not used yet{waiting}"
    return f"works, last used {webhook.succeeded_at:%Y-%m-%d %H:%M} UTC{waiting}"


say(webhooks.add_webhook, new_lines)
say(webhooks.list_webhooks, list_lines, listed("webhooks"))
say(webhooks.enable_webhook, "webhook {webhook_id} is in use again", echo(enabled="webhook_id"))
say(webhooks.remove_webhook, "webhook {webhook_id} is removed", echo(removed="webhook_id"))
