"""Paths that a text for people names exist: in Markdown, in docstrings and in comments."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "deploy", "docs", "packages", "requirements", "scripts", "src", "tests", "web")
SKIPPED = {"__pycache__", "node_modules"}
FULL = re.compile(rf"(?<![\w/.@<-])(?:{'|'.join(FOLDERS)})/[\w./*{{}},-]*[\w/*}}]")
SHORT = re.compile(r"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:py|html|sql))?)`")
"""What is named within its room: a folder, with its slash, or a file of code."""
ELSEWHERE = {"..", "dist", "headers", "kernels", "site", "solutions", "task", "torch"}
"""First folders of paths that lie in a task or a submission, or that are made."""
PLACEHOLDER = re.compile(r"[A-Z]{3,}|[*{}]")
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
BLOCK = re.compile(r"```.*?```", re.DOTALL)


def pages() -> list[Path]:
    """Return all Markdown files."""
    patterns = ("*.md", "docs/**/*.md", "deploy/**/*.md", "packages/*/README.md", "benchmarks/*.md")
    return sorted(page for pattern in patterns for page in ROOT.glob(pattern))


@cache
def files() -> list[Path]:
    """Return all files of the repository's folders."""
    found = []
    for top in FOLDERS:
        for folder, inner, names in os.walk(ROOT / top):
            inner[:] = [name for name in inner if name not in SKIPPED]
            found += [Path(folder, name) for name in names]
    return found


def sources() -> list[Path]:
    """Return all Python files; scripts have no ending."""
    return [
        path
        for path in files()
        if path.suffix == ".py"
        or (path.parent.name == "scripts" and path.read_bytes()[:22].endswith(b" python3"))
    ]


@cache
def tails() -> frozenset[str]:
    """Return each path of the repository from each of its folders on."""
    parts = [path.relative_to(ROOT).parts for path in files()]
    return frozenset(
        "/".join(each[begin:end])
        for each in parts
        for begin in range(len(each))
        for end in range(begin, len(each) + 1)
    )


def is_there(path: str, file: Path) -> bool:
    """Return whether a full path exists, from the root or from the package of the file that names it."""
    bases = [ROOT, *(each for each in file.parents if each.parent == ROOT / "packages")]
    parts = path.split("/")
    known = next((parts[:at] for at, part in enumerate(parts) if PLACEHOLDER.search(part)), parts)
    return any(
        (base / path).exists() or (len(known) < len(parts) and base.joinpath(*known).is_dir())
        for base in bases
    )


def missing(text: str, file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines and the paths that a text names and that do not exist."""
    for found in FULL.finditer(text):
        if not is_there(found[0], file):
            yield text.count("\n", 0, found.start()) + 1, found[0]
    for found in SHORT.finditer(text):
        first = found[1].partition("/")[0]
        if first not in ELSEWHERE and not PLACEHOLDER.search(first) and found[1].rstrip("/") not in tails():
            yield text.count("\n", 0, found.start()) + 1, found[1]


def lines_of_prose(source: str) -> set[int]:
    """Return the lines of a module with comments or docstrings."""
    found: set[int] = set()
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            found.update(range(token.start[0], token.end[0] + 1))
        elif token.type != tokenize.NL:
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return found


def test_every_path_that_a_page_names_exists() -> None:
    assert len(pages()) > 50
    faults = {
        f"{page.relative_to(ROOT)}:{line}: {path}"
        for page in pages()
        for line, path in missing(page.read_text(), page)
    }
    assert faults == set()


def test_every_path_that_a_docstring_or_a_comment_names_exists() -> None:
    faults = set()
    for file in sources():
        text = file.read_text(encoding="utf-8")
        if found := list(missing(text, file)):
            prose = lines_of_prose(text)
            faults |= {f"{file.relative_to(ROOT)}:{line}: {path}" for line, path in found if line in prose}
    assert faults == set()


def test_a_path_that_is_not_there_is_found() -> None:
    text = '"""See `doubt/mercy.py`."""\nX = "src/gone.py"  # and docs/mercy.md, docs/index.md\n'
    assert [path for _, path in missing(text, ROOT / "src/x.py")] == [
        "src/gone.py",
        "docs/mercy.md",
        "doubt/mercy.py",
    ]
    assert lines_of_prose('"""One."""\nX = "two"\nY = (\n    "four"\n)\n# six\n') == {1, 6}


def test_folders_and_packages_of_the_layout_exist_where_it_says() -> None:
    layout = (ROOT / "CONTRIBUTING.md").read_text().split("## Layout\n")[1].split("\n## ")[0]
    rows = [row.split("|")[1:3] for row in layout.splitlines() if row.startswith("| `")]
    assert len(rows) > 15
    for where, what in rows:
        (first, *_) = re.findall(r"`([\w/]+)`", where) or [""]
        for inner in re.findall(r"`(\w+/)`", what if first else ""):
            assert next((ROOT / first).glob(f"**/{inner}"), None), f"{first}: {inner}"
    named = set(re.findall(r"`packages/([\w-]+)/?`", layout))
    assert named == {path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    found = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_relative_links_lead_somewhere() -> None:
    wrong = []
    for page in pages():
        for match in LINK.finditer(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            target, _, anchor = match["target"].partition("#")
            file = (page.parent / target).resolve() if target else page
            if not re.match(r"\w+:", target) and not (
                file.exists() and (not anchor or anchor in anchors(file))
            ):
                wrong.append(f"{page.relative_to(ROOT)}: {match['target']}")
    assert wrong == []
