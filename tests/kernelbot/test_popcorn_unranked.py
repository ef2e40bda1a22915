"""What the API and the existing client's addresses tell of times that a leaderboard does not rank."""

from __future__ import annotations

from builders import NOW, make_wall_report
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.machines import machines
from kernelcup.domain import OPERATOR, TrustRule
from kernelcup.launchers.base import MachineReading


def enter(client, person, finish, name: str) -> None:
    """Submit to the ranking of the H100 and have it judged."""
    files = {"file": ("kernel.py", b"def custom_kernel(data):\n    return data * 2\n")}
    headers = {"X-Popcorn-Cli-Id": person(name).token}
    answer = client.post("/submission/double/H100/leaderboard", files=files, headers=headers)
    assert answer.status_code == 202, answer.text
    finish()


def test_times_by_the_wall_clock_follow_the_ranking_without_a_rank(client, person, db, board, finish) -> None:
    update_board(db, OPERATOR, board.name, now=NOW, changes=BoardChanges(trust=TrustRule.REPLAYED))
    enter(client, person, lambda: finish(make_wall_report()), "ada")
    enter(client, person, finish, "bob")
    found = client.get("/submissions/double/H100").json()
    assert [(each["rank"], each["user_name"], each.get("note")) for each in found] == [
        (1, "bob", None),
        (None, "ada", "by the wall clock; not ranked: this leaderboard ranks replayed times only"),
    ]


def test_places_of_different_classes_of_machines_have_a_note(client, person, db, board, finish) -> None:
    enter(client, person, finish, "ada")
    found = [MachineReading(name="lab", slots={"H100": 1}, facts={"gpus": ["H100"], "driver": "580"})]
    machines.note_seen(db, found, launcher="fake", is_own=True, now=NOW)
    enter(client, person, lambda: finish(machine="lab"), "bob")
    places = client.get("/submissions/double/H100").json()
    assert [(each["rank"], each["user_name"], each.get("note")) for each in places] == [
        (1, "bob", "1 x H100; driver 580; ? cores, ? GiB"),
        (1, "ada", "unknown machines"),
    ]
