"""Texts for Discord: text from people is shown literally and has no effect.

Text from a user, a task or a submission reaches a message only through ``plain`` (in a
sentence), ``code`` (a name inside a line), ``block`` (lines) or ``file_name``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LONGEST_MESSAGE = 2000
ROOM = 1950
"""Our limit for one message, a little below Discord's."""
LONGEST_BLOCK = 5000
"""Longer logs become files."""
LARGEST_FILE = 8 * 2**20
NOTHING = "\u200b"
"""A zero-width space: breaks Discord markup without being visible."""

_SPECIAL = re.compile(r"([\\`*_~|<>\[\]()#:-])")
_ADDRESS = re.compile(r"(?i)(://|www\.|discord(?:app)?\.(?:gg|com))")
_LIST = re.compile(r"(?m)^(\s*\d+)\.")


def plain(text: object, limit: int = 1000) -> str:
    """Return a text for the middle of a sentence: no markdown, mention or link, on one line."""
    return _escaped(shortened(one_line(text), limit))


def plain_lines(text: object, limit: int = 1500) -> str:
    """Return a text of several lines, without markdown, mentions or links."""
    lines = _clean(str(text)).splitlines()
    return "\n".join(_escaped(line.rstrip()) for line in shortened("\n".join(lines), limit).splitlines())


def formulas(text: str) -> str:
    """Return a statement whose formulas are written with letters and signs: ``yᵢ ≤ wₖ`` for ``$y_i \\le w_k$``."""
    import unicodeit

    def read(found: re.Match[str]) -> str:
        latex = re.sub(
            r"\\(?:mathrm|mathbf|text|operatorname)\{([^{}]*)\}|\\(?:left|right|[,;!])", r"\1", found[2]
        )
        part = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
        latex = re.sub(rf"\\[dt]?frac{part}{part}", r"(\1)/(\2)", latex)
        return str(unicodeit.replace(latex))

    return re.sub(r"(?<![\\\w$])(\$\$?)(?=\S)([^$]+?)(?<=\S)\1(?![\w$])", read, text)


def code(text: object, limit: int = 100) -> str:
    """Return a name as inline code: nothing inside it can end it."""
    inner = shortened(one_line(text).replace("`", "\u02cb"), limit)
    return f"`{inner or ' '}`"


def block(text: str, language: str = "") -> str:
    """Return lines as one code block that nothing inside it can end."""
    return f"```{language}\n{fenced(text)}\n```"


def fenced(text: str) -> str:
    """Return lines that stay inside a code block."""
    return _clean(text).replace("```", f"``{NOTHING}`").rstrip("\n")


def file_name(text: object, default: str = "file.txt") -> str:
    """Return a name for an attachment: letters, digits, ``.``, ``_`` and ``-``."""
    plain_name = re.sub(r"[^A-Za-z0-9._-]+", "_", str(text)).strip(".")
    if not str(text).startswith("_"):
        plain_name = plain_name.strip("._")
    return plain_name[-100:] or default


def title(text: object, limit: int = 100) -> str:
    """Return a thread name or a label, where Discord does not parse markdown."""
    return shortened(one_line(text), limit) or "-"


def one_line(text: object) -> str:
    """Return a text without line breaks and invisible characters."""
    return " ".join(_clean(str(text)).split())


def shortened(text: str, limit: int) -> str:
    """Return at most ``limit`` characters, with an ellipsis if the text was cut."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def split_code(text: str, *, room: int = ROOM, language: str = "") -> list[str]:
    """Return code blocks that each fit a message and together hold every line."""
    inside = room - len(language) - len("```\n\n```")
    parts: list[str] = []
    for line in fenced(text).split("\n"):
        for piece in [line[at : at + inside] for at in range(0, len(line), inside)] or [""]:
            if parts and len(parts[-1]) + 1 + len(piece) <= inside:
                parts[-1] += f"\n{piece}"
            else:
                parts.append(piece)
    return [f"```{language}\n{part}\n```" for part in parts]


@dataclass(frozen=True, slots=True)
class Attached:
    """A file that goes with a message."""

    name: str
    data: bytes

    def files(self) -> dict[str, bytes]:
        """Return it for an upload."""
        return {self.name: self.data}


@dataclass(slots=True)
class Outgoing:
    """A message to send."""

    text: str = ""
    files: list[Attached] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Log:
    """Output lines of a program: a code block, or a file if there are many."""

    name: str
    text: str
    language: str = ""


Part = str | Log | Attached


def pack(blocks: Iterable[Part]) -> list[Outgoing]:
    """Pack texts, logs and files into as few messages as possible."""
    out = [Outgoing()]
    for each in blocks:
        if isinstance(each, Log):
            if len(each.text) > LONGEST_BLOCK:
                _attach(out, Attached(file_name(each.name), each.text.encode("utf-8", "replace")))
                _append(out, f"All of it is in {code(each.name)}; its end:")
                pieces = split_code(each.text[-1000:], language=each.language)
            else:
                pieces = split_code(each.text, language=each.language)
            for piece in pieces:
                _append(out, piece)
        elif isinstance(each, Attached):
            _attach(out, each)
        else:
            for piece in _cut(each):
                _append(out, piece)
    return [each for each in out if each.text or each.files]


def bullet_list(items: Sequence[str]) -> str:
    """Return a bulleted list, one line for each item."""
    return "\n".join(f"- {item}" for item in items)


def _append(out: list[Outgoing], text: str) -> None:
    last = out[-1]
    if last.text and len(last.text) + 1 + len(text) > ROOM:
        out.append(Outgoing(text))
    else:
        last.text = f"{last.text}\n{text}" if last.text else text


def _attach(out: list[Outgoing], attached: Attached) -> None:
    if len(attached.data) > LARGEST_FILE:
        _append(out, f"{code(attached.name)} is too large for Discord; the web page has it.")
        return
    if (
        len(out[-1].files) >= 10
        or sum(len(f.data) for f in out[-1].files) + len(attached.data) > LARGEST_FILE
    ):
        out.append(Outgoing())
    out[-1].files.append(attached)


def _cut(text: str) -> list[str]:
    """Cut one of our own texts at line ends."""
    parts = [""]
    for line in text.split("\n"):
        for piece in [line[at : at + ROOM] for at in range(0, len(line), ROOM)] or [""]:
            if len(parts[-1]) + 1 + len(piece) > ROOM:
                parts.append(piece)
            else:
                parts[-1] = f"{parts[-1]}\n{piece}" if parts[-1] else piece
    return [part for part in parts if part]


def _escaped(text: str) -> str:
    safe = _SPECIAL.sub(r"\\\1", text)
    safe = _LIST.sub(r"\1\\.", safe)
    safe = _ADDRESS.sub(lambda found: found[0][:-1] + NOTHING + found[0][-1], safe.replace("\\:", ":"))
    return safe.replace(":", "\\:").replace("@", f"@{NOTHING}")


def _clean(text: str) -> str:
    """Remove invisible characters: control characters and marks of writing direction."""
    kept = ("\n", "\t")
    return "".join(
        letter
        for letter in text.replace("\r\n", "\n").replace("\r", "\n")
        if letter in kept or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
