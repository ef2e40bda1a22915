"""A hook of MkDocs: the files of ``deploy/`` lie beside the pages, whose links to them lead there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add the files."""
    for path in sorted((ROOT / "deploy").rglob("*")):
        if path.is_file():
            files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links within the repository into links within the site; pages lie one folder below it."""
    return markdown.replace("](../../deploy/", "](../deploy/")
