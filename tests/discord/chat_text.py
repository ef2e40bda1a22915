"""What people see on Discord, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from chat_log import Entry

_CODE = re.compile(r"(```.*?```|(?<!\\)`[^`]*`)", re.DOTALL)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
BUTTON, MENU, INPUT = 2, 3, 4


def as_text(entries: Sequence[Entry]) -> str:
    """Return entries one below the other, with the channel where it changes."""
    lines: list[str] = []
    where = None
    for entry in entries:
        if entry.where != where:
            where = entry.where
            lines += ["", f"# {where}"]
        lines += ["", *_entry(entry)]
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def _entry(entry: Entry) -> Iterator[str]:
    if entry.is_action:
        yield f"{entry.who} {entry.text}" if not entry.text.startswith("/") else f"{entry.who}: {entry.text}"
        return
    marks = [mark for mark, on in (("only you see this", entry.private), ("edited", entry.edited)) if on]
    yield entry.who + (f" ({', '.join(marks)})" if marks else "") + ":"
    yield from _indented(entry.text)
    for embed in entry.embeds:
        yield from (f"  ┃ {unescaped(line)}" for line in embed_lines(embed))
    for name in entry.files:
        yield f"  📎 {name}"
    if entry.controls:
        yield from (f"  {line}" for line in _controls(entry.controls))


def embed_lines(embed: dict[str, Any]) -> Iterator[str]:
    """Return the texts of an embed, line by line."""
    if embed.get("title"):
        yield embed["title"]
    yield from (embed.get("description") or "").splitlines()
    for field in embed.get("fields") or []:
        yield f"{field['name']}:"
        yield from (f"  {line}" for line in field["value"].splitlines())
    if embed.get("image"):
        yield "(picture)"
    if (embed.get("footer") or {}).get("text"):
        yield embed["footer"]["text"]


def _controls(controls: Sequence[dict[str, Any]]) -> Iterator[str]:
    buttons = [f"[{_label(part)}]" for part in controls if part["type"] == BUTTON]
    if buttons:
        yield " ".join(buttons)
    for part in controls:
        if part["type"] == MENU:
            options = ", ".join(option["label"] for option in part["options"])
            yield f"[{part.get('placeholder', 'Choose')} ▾] {options}"
        elif part["type"] == INPUT:
            yield f"{part.get('label')}: [{part.get('value') or part.get('placeholder') or ''}]"


def _label(part: dict[str, Any]) -> str:
    return str(part.get("label") or (part.get("emoji") or {}).get("name"))


def _indented(text: str) -> Iterator[str]:
    yield from (f"  {line}" for line in unescaped(text).splitlines())


def unescaped(text: str) -> str:
    """Return a text without the backslashes that Discord does not show; in code it shows them."""
    pieces = _CODE.split(text)
    return "".join(piece if i % 2 else _ESCAPE.sub(r"\1", piece) for i, piece in enumerate(pieces))
