"""What the API and the existing client's addresses tell of results by an older clock."""

from __future__ import annotations

from older_clocks import set_apart


def enter(client, person, finish, name: str) -> None:
    """Submit to the ranking of the H100 and have it judged."""
    files = {"file": ("kernel.py", b"def custom_kernel(data):\n    return data * 2\n")}
    headers = {"X-Popcorn-Cli-Id": person(name).token}
    answer = client.post("/submission/double/H100/leaderboard", files=files, headers=headers)
    assert answer.status_code == 202, answer.text
    finish()


def test_older_results_follow_the_ranking_without_a_rank(client, person, db, board, finish) -> None:
    enter(client, person, finish, "ada")
    set_apart(db)
    enter(client, person, finish, "bob")
    found = client.get("/submissions/double/H100").json()
    assert [(each["rank"], each["user_name"], each.get("note")) for each in found] == [
        (1, "bob", None),
        (None, "ada", "measured by an older clock"),
    ]
    assert [each["user_name"] for each in client.get("/submissions/double/H100?limit=1").json()] == ["bob"]
    assert client.get("/submission_count/double/H100").json() == {"count": 1}


def test_the_api_has_older_results_apart_with_the_first_page(client, person, db, board, finish) -> None:
    enter(client, person, finish, "ada")
    set_apart(db)
    enter(client, person, finish, "bob")
    enter(client, person, finish, "cyd")
    path = "/api/v1/leaderboards/double/standings/H100"
    page = client.get(path, params={"limit": 1}).json()
    assert [each["user"] for each in page["items"]] == ["bob"]
    assert [(each["rank"], each["user"]) for each in page["older"]] == [(1, "ada")]
    assert client.get(path, params={"limit": 1, "after": page["next"]}).json()["older"] == []
