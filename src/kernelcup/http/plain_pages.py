"""Pages that work without scripts and styles. Everything that is put in is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from starlette.responses import HTMLResponse

from kernelcup.providers import SignInProvider


def page(title: str, *parts: str, status: int = 200) -> HTMLResponse:
    """Return a page of parts that are HTML already."""
    head = f'<meta charset="utf-8"><title>{escape(title)} - KernelCup</title>'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    html = (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{body}\n</main></body></html>'
    )
    return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})


def text(words: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(words)}</p>"


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Return a list of names and values."""
    return "<dl>" + "".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in rows) + "</dl>"


def link(url: str, words: str) -> str:
    """Return a link in a paragraph."""
    return f'<p><a href="{escape(url)}">{escape(words)}</a></p>'


def form(action: str, *parts: str) -> str:
    """Return a form that is posted."""
    return f'<form method="post" action="{escape(action)}">{"".join(parts)}</form>'


def field(name: str, label: str) -> str:
    """Return a line to type in."""
    return f'<p><label>{escape(label)} <input name="{escape(name)}" autocomplete="off" required></label></p>'


def hidden(name: str, value: str) -> str:
    """Return a value that a form carries along."""
    return f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'


def button(words: str, *, name: str = "", value: str = "") -> str:
    """Return a button that posts its form."""
    carried = f' name="{escape(name)}" value="{escape(value)}"' if name else ""
    return f"<button{carried}>{escape(words)}</button> "


def ways_in(providers: Sequence[SignInProvider], next_path: str) -> str:
    """Return a link for each sign-in provider."""
    if not providers:
        return text(
            "No sign-in provider is configured here. Ask an admin of this service for a sign-in link."
        )
    query = f"?next={quote(next_path, safe='')}"
    return "".join(
        link(f"/auth/login/{each.name}{query}", f"Sign in with {each.title}") for each in providers
    )
