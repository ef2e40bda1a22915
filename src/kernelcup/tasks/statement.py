"""The statement of a task: its figures, which lie in the task's folder, and what of it no page shows."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import suppress

from kernelcup.domain import Task
from kernelcup.tasks.sources.trees import Tree, Unreadable, locate

FIGURE = re.compile(r"!\[[^\]\n]*\]\(([\w./-]+)\)")
"""A figure of the folder in a statement; its name has no scheme and no host."""
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".jpg": b"\xff\xd8\xff", ".jpeg": b"\xff\xd8\xff"}
"""The kinds that are shown: of SVG a part could be a script."""
MOST_BYTES = 1 << 20
"""Of one figure."""


def read_figures(description: str, tree: Tree, base: str) -> dict[str, str]:
    """Return the figures that a statement shows, in base64 by file name; :func:`remarks` names the others."""
    found: dict[str, str] = {}
    for name in FIGURE.findall(description):
        with suppress(Unreadable):
            content = tree.read(locate(base, name))
            signature = SIGNATURES.get(name[name.rfind(".") :].lower())
            if signature and content.startswith(signature) and len(content) <= MOST_BYTES:
                found[name] = base64.b64encode(content).decode()
    return found


def remarks(task: Task) -> Iterator[str]:
    """Yield what of a statement no page shows as its author meant it."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", task.description, flags=re.DOTALL)
    for name in set(FIGURE.findall(text)) - set(task.figures):
        yield f"description: `{name}` is not shown: the folder has no .png or .jpg of at most 1 MiB by this name"
    if html := re.search(r"</?[a-z][a-z0-9]*\b[^<>\n]*>", text, re.IGNORECASE):
        yield f"description: `{html[0]}` is shown as it is written: statements are Markdown without HTML"
    if far := re.search(r"!\[[^\]\n]*\]\((?:\w+:|//)[^)]*\)", text):
        yield f"description: `{far[0]}` is not shown: figures lie in the task's folder"
