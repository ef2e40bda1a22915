"""The limits of messages, forms, menus, files and commands, each broken once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from discord_loopback import Channel, GuildDriver, Limit, LoopbackDiscord
from discord_loopback.errors import Refusal
from discord_loopback.limits import check_choices, check_modal
from probe import Rest

pytestmark = pytest.mark.anyio


def _row(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": 1, "components": list(parts)}


def _button(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "Go", "custom_id": f"b{number}"} | more


def _menu(count: int = 1, **more: Any) -> dict[str, Any]:
    options = [{"label": f"o{i}", "value": str(i)} for i in range(count)]
    return {"type": 3, "custom_id": "menu", "options": options} | more


def _option(**more: Any) -> dict[str, Any]:
    return _menu(options=[{"label": "a", "value": "a"} | more])


_FIELD = {"name": "n", "value": "v"}
TOO_MUCH = {
    "content": {"content": "x" * 2001},
    "embeds": {"embeds": [{"title": "t"}] * 11},
    "title": {"embeds": [{"title": "x" * 257}]},
    "description": {"embeds": [{"description": "x" * 4097}]},
    "fields": {"embeds": [{"fields": [_FIELD] * 26}]},
    "field name": {"embeds": [{"fields": [_FIELD | {"name": "x" * 257}]}]},
    "field value": {"embeds": [{"fields": [_FIELD | {"value": "x" * 1025}]}]},
    "empty field": {"embeds": [{"fields": [_FIELD | {"value": ""}]}]},
    "footer": {"embeds": [{"footer": {"text": "x" * 2049}}]},
    "author": {"embeds": [{"author": {"name": "x" * 257}}]},
    "6000 in all": {"embeds": [{"description": "x" * 3001}] * 2},
    "rows": {"content": "x", "components": [_row(_button(i)) for i in range(6)]},
    "buttons": {"content": "x", "components": [_row(*(_button(i) for i in range(6)))]},
    "empty row": {"content": "x", "components": [_row()]},
    "bare button": {"content": "x", "components": [_button()]},
    "button label": {"content": "x", "components": [_row(_button(label="x" * 81))]},
    "button without label": {"content": "x", "components": [_row(_button(label=""))]},
    "custom_id": {"content": "x", "components": [_row(_button(custom_id="x" * 101))]},
    "custom_id twice": {"content": "x", "components": [_row(_button(1)), _row(_button(1))]},
    "two menus in a row": {"content": "x", "components": [_row(_menu(), _menu(custom_id="other"))]},
    "options": {"content": "x", "components": [_row(_menu(26))]},
    "no options": {"content": "x", "components": [_row(_menu(0))]},
    "option label": {"content": "x", "components": [_row(_option(label="x" * 101))]},
    "option value": {"content": "x", "components": [_row(_option(value="x" * 101))]},
    "option description": {"content": "x", "components": [_row(_option(description="x" * 101))]},
    "option twice": {"content": "x", "components": [_row(_menu(options=[{"label": "a", "value": "a"}] * 2))]},
    "max_values": {"content": "x", "components": [_row(_menu(2, max_values=3))]},
    "placeholder": {"content": "x", "components": [_row(_menu(placeholder="x" * 151))]},
    "content with new components": {
        "content": "x",
        "flags": 1 << 15,
        "components": [{"type": 10, "content": "x"}],
    },
    "new components": {"flags": 1 << 15, "components": [{"type": 10, "content": "x"}] * 41},
    "menu custom_id": {"content": "x", "components": [_row(_menu(custom_id="x" * 101))]},
    "link": {"content": "x", "components": [_row({"type": 2, "style": 5, "label": "Go", "url": "h" * 513})]},
    "text of new components": {"flags": 1 << 15, "components": [{"type": 10, "content": "x" * 4001}]},
    "unknown reply": {"content": "x", "message_reference": {"message_id": "100000000000000000"}},
}


async def test_a_message_over_a_limit_is_refused(
    rest: Rest, loopback: LoopbackDiscord, channel: Channel
) -> None:
    loopback.world.rates.limits["POST /channels/{channel}/messages"] = Limit(len(TOO_MUCH), 1)
    for what, body in TOO_MUCH.items():
        assert (await rest("POST", f"/channels/{channel.id}/messages", body)).refused == (400, 50035), what
        assert not channel.messages, what


async def test_a_message_at_the_limits_is_taken(rest: Rest, channel: Channel) -> None:
    fields = [{"name": "n" * 20, "value": "v" * 50}] * 25
    rows = [_row(*(_button(i * 5 + j) for j in range(5))) for i in range(4)]
    body = {
        "content": "x" * 2000,
        "embeds": [{"title": "t" * 256, "description": "d" * 3994, "fields": fields}],
        "components": [*rows, _row(_menu(25, max_values=25))],
    }
    sent = await rest("POST", f"/channels/{channel.id}/messages", body)
    assert sent.status == 200
    path = f"/channels/{channel.id}/messages/{sent.body['id']}"
    assert (await rest("PATCH", path, {"content": "x" * 2001})).refused == (400, 50035)
    assert (await rest("PATCH", path, {"content": "", "embeds": [], "components": []})).refused == (
        400,
        50006,
    )


async def test_an_empty_message_is_refused(rest: Rest, channel: Channel) -> None:
    assert (await rest("POST", f"/channels/{channel.id}/messages", {"content": ""})).refused == (400, 50006)


async def test_files_have_a_size_and_a_number(
    rest: Rest, loopback: LoopbackDiscord, channel: Channel
) -> None:
    path = f"/channels/{channel.id}/messages"
    loopback.world.sizes.file_bytes = 1000
    assert (await rest.upload(path, "{}", {"big.log": b"x" * 1001})).refused == (413, 40005)
    many = {f"{i}.log": b"x" for i in range(11)}
    assert (await rest.upload(path, "{}", many)).refused == (400, 50035)
    sent = await rest.upload(path, json.dumps({"content": "log"}), {"a.log": b"x" * 1000})
    assert sent.status == 200
    assert (await rest.download(sent.body["attachments"][0]["url"])).body == b"x" * 1000


async def test_addresses_of_files_are_signed_and_expire(
    rest: Rest, loopback: LoopbackDiscord, channel: Channel
) -> None:
    path = f"/channels/{channel.id}/messages"
    sent = (await rest.upload(path, "{}", {"a.log": b"x"})).body
    url = sent["attachments"][0]["url"]
    assert (await rest.download(url)).status == 200
    assert (await rest.download(url.split("?")[0])).status == 404
    loopback.advance(24 * 3600 + 1)
    assert (await rest.download(url)).status == 404
    again = (await rest("GET", f"{path}/{sent['id']}")).body
    assert (await rest.download(again["attachments"][0]["url"])).status == 200


async def test_attachments_are_kept_or_dropped_by_an_edit(rest: Rest, channel: Channel) -> None:
    path = f"/channels/{channel.id}/messages"
    sent = (await rest.upload(path, "{}", {"a.log": b"a", "b.log": b"b"})).body
    kept = (await rest("PATCH", f"{path}/{sent['id']}", {"content": "x"})).body
    assert len(kept["attachments"]) == 2
    one = {"attachments": [{"id": sent["attachments"][1]["id"]}]}
    fewer = (await rest("PATCH", f"{path}/{sent['id']}", one)).body
    assert [entry["filename"] for entry in fewer["attachments"]] == ["b.log"]


async def test_a_thread_name_has_1_to_100_characters(rest: Rest, channel: Channel) -> None:
    for name in ["", "x" * 101]:
        body = {"name": name, "type": 11}
        assert (await rest("POST", f"/channels/{channel.id}/threads", body)).refused == (400, 50035)
        made = (await rest("POST", f"/channels/{channel.id}/threads", {"name": "ok", "type": 11})).body
        assert (await rest("PATCH", f"/channels/{made['id']}", {"name": name})).refused == (400, 50035)


def _form(**more: Any) -> dict[str, Any]:
    text = {"type": 4, "custom_id": "t", "label": "Text", "style": 1}
    return {"custom_id": "form", "title": "Form", "components": [_row(text | more.pop("text", {}))]} | more


def _labelled(**more: Any) -> dict[str, Any]:
    text = {"type": 4, "custom_id": "t", "style": 1}
    return {"type": 18, "label": "Text", "component": text} | more


BAD_FORMS = {
    "title": _form(title="x" * 46),
    "no title": _form(title=""),
    "custom_id": _form(custom_id="x" * 101),
    "no inputs": _form(components=[]),
    "inputs": _form(components=[_row({"type": 4, "custom_id": str(i), "label": "x"}) for i in range(6)]),
    "two in a row": _form(components=[_row({"type": 4, "custom_id": "a"}, {"type": 4, "custom_id": "b"})]),
    "button": _form(components=[_row(_button())]),
    "label": _form(text={"label": "x" * 46}),
    "placeholder": _form(text={"placeholder": "x" * 101}),
    "value": _form(text={"value": "x" * 4001}),
    "input custom_id": _form(text={"custom_id": "x" * 101}),
    "label around": _form(components=[_labelled(label="x" * 46)]),
    "description around": _form(components=[_labelled(description="x" * 101)]),
    "max_length": _form(text={"max_length": 4001}),
}


def test_a_form_over_a_limit_is_refused() -> None:
    check_modal(_form())
    check_modal(_form(components=[_labelled(label="x" * 45, description="x" * 100)]))
    for form in BAD_FORMS.values():
        with pytest.raises(Refusal, match="50035"):
            check_modal(form)


def test_choices_over_a_limit_are_refused() -> None:
    for choices in [
        [{"name": str(i), "value": str(i)} for i in range(26)],
        [{"name": "x" * 101, "value": "x"}],
        [{"name": "x", "value": "x" * 101}],
        [{"name": "", "value": "x"}],
    ]:
        with pytest.raises(Refusal, match="50035"):
            check_choices(choices)


def _command(name: str = "ping", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "type": 1} | more


def _text_option(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "type": 3} | more


_CHOICE = {"name": "c", "value": "c"}
_DEEP = {"name": "g", "description": "d", "type": 2}
BAD_COMMANDS = {
    "capitals": [_command("Ping")],
    "space": [_command("pi ng")],
    "long name": [_command("x" * 33)],
    "no description": [_command(description="")],
    "long description": [_command(description="x" * 101)],
    "twice": [_command(), _command()],
    "26 options": [_command(options=[_text_option(f"o{i}") for i in range(26)])],
    "26 choices": [_command(options=[_text_option(choices=[_CHOICE] * 26)])],
    "long choice": [_command(options=[_text_option(choices=[{"name": "x" * 101, "value": "c"}])])],
    "option name": [_command(options=[_text_option("Bad")])],
    "choices and autocomplete": [_command(options=[_text_option(choices=[_CHOICE], autocomplete=True)])],
    "required after optional": [_command(options=[_text_option(), _text_option("b", required=True)])],
    "group in group": [_command(options=[_DEEP | {"options": [_DEEP | {"name": "h"}]}])],
    "8000": [
        _command(
            options=[
                _text_option(f"o{i}", choices=[{"name": "n" * 50, "value": "v" * 50}] * 25) for i in range(4)
            ]
        )
    ],
}


async def test_a_command_that_breaks_a_rule_is_not_registered(
    loopback: LoopbackDiscord, rest: Rest, guild: GuildDriver
) -> None:
    bot = loopback.bot.id
    for what, commands in BAD_COMMANDS.items():
        for path in (f"/applications/{bot}/commands", f"/applications/{bot}/guilds/{guild.id}/commands"):
            assert (await rest("PUT", path, commands)).refused == (400, 50035), what
    assert loopback.command_names() == loopback.command_names(guild) == set()


async def test_a_hundred_commands_and_no_more(loopback: LoopbackDiscord, rest: Rest) -> None:
    path = f"/applications/{loopback.bot.id}/commands"
    commands = [_command(f"c{i}") for i in range(101)]
    assert (await rest("PUT", path, commands)).refused == (400, 30032)
    assert (await rest("PUT", path, commands[1:])).status == 200
