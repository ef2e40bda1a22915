"""Files that are alike, for the managers of a leaderboard."""

from __future__ import annotations

import pytest
from looks import check_page
from playwright.sync_api import expect
from reports import judged, ranked

from builders import make_board
from kernelcup.domain import Role

pytestmark = pytest.mark.jobs


def test_a_manager_sees_pairs_side_by_side_and_others_only_times(
    visitor, person, client, signed_in, db
) -> None:
    root = person("root", Role.ADMIN)
    make_board(db)
    for user in ("ada", "bob"):
        judged(db, ranked(), user=user)
    page = visitor(root, width=390).open("/admin/boards/double/likeness")
    check_page(page)
    expect(page.get_by_role("row", name="same text")).to_have_count(1)
    page.get_by_role("link", name="Side by side").click()
    expect(page.get_by_text("Their texts are the same.")).to_be_visible()
    client.cookies.update(signed_in(person("ada")))
    assert "The code of other users stays hidden" in client.get("/s/2/diff/1").text
    assert client.get("/admin/boards/double/likeness").status_code == 403
