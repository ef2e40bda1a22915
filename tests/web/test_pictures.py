"""The pictures of the documentation show pages as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from looks import words_of

PICTURES = Path(__file__).parents[2] / "docs/images/web"


@pytest.mark.parametrize(("name", "path"), [("overview", "/"), ("board", "/b/grayscale")])
def test_pictures_have_the_words_of_their_page(client, competition, person, signed_in, name, path) -> None:
    """Where a page says something else on purpose, scripts/screenshots takes its pictures again."""
    client.cookies.update(signed_in(person("ada")))
    assert words_of(client.get(path).text) == (PICTURES / f"{name}.txt").read_text(encoding="utf-8")
