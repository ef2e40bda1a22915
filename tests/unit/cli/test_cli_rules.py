"""Commands for rules, members and reviews: the same on this machine's database and at a server."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_cli_commands import Command, Ended, command, home
from test_cli_remote import body_of, judge, server

from builders import NOW, make_actor, make_board, make_submission
from kernelcup.app.access import HERE
from kernelcup.app.boards import problem_sync
from kernelcup.app.boards.boards import get_board
from kernelcup.app.boards.problem_sync import Skipped, SyncError, SyncResult
from kernelcup.app.people.tokens import create_token
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.cli.credentials import Credentials
from kernelcup.client.transport import Client
from kernelcup.domain import Role, Scope
from kernelcup.engine.database import Database

__all__ = ["command", "home", "server"]

Door = Callable[..., Ended]
MACHINES = ("admin", "machines")


@pytest.fixture
def db_url(home: Path) -> str:
    """The database of this machine, which the server has, too: both doors lead to it."""
    return f"sqlite:///{home / 'kernelcup.db'}"


@pytest.fixture
def sign_in(db: Database, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sign in to the server with that name and role."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def put(name: str, role: Role) -> None:
        actor = make_actor(db, name, role=role)
        scopes = {Scope.READ, Scope.SUBMIT, Scope.MANAGE, Scope.ADMIN}
        if role is not Role.ADMIN:
            scopes.discard(Scope.ADMIN)
        if role is Role.PARTICIPANT:
            scopes.discard(Scope.MANAGE)
        secret = create_token(db, actor, name="test", scopes=frozenset(scopes), entry=HERE, now=NOW).secret
        Credentials.load({"HOME": str(tmp_path)}).put(server, secret)

    return put


@pytest.fixture(params=["local", "server"])
def door(request: pytest.FixtureRequest, command: Command, server: str, sign_in: Any) -> Door:
    """Run a command as the operator of this machine, or as an admin at the server."""
    sign_in("root", Role.ADMIN)
    where = ["--local"] if request.param == "local" else ["--server", server]
    return lambda *args: command(*args, *where)


@pytest.fixture
def board(db: Database) -> str:
    """A leaderboard."""
    return make_board(db, devices=["H100"]).name


@pytest.fixture
def judged(db: Database, board: str) -> int:
    """A ranked submission of ada with a score."""
    made = make_submission(db, board=board, devices=["H100"])
    judge(db)
    return made.id


def test_limits_are_added_listed_and_removed(door: Door, db: Database, board: str) -> None:
    assert "There is no limit" in door("admin", "limit", "list").out
    make_actor(db, "eve")
    options = ("--user", "eve", "--device", "h100", "--modes", "ranked")
    added = body_of(
        door("admin", "limit", "add", "3 per 10 minutes", "--board", "DOUBLE", *options, "--json")
    )
    assert added == {
        "id": 1,
        "text": "3 ranked submissions per 10 minutes to double on H100, for eve",
        "leaderboard": "double",
        "user": "eve",
        "device": "H100",
        "launcher": None,
        "mode_group": "ranked",
        "per_user": True,
        "quantity": "submissions",
        "amount": 3.0,
        "window_s": 600,
    }
    made = door("admin", "limit", "add", "600 gpu-seconds/day", "--together")
    assert made.out == "limit 2: 600 GPU-seconds per day, for all together\n"
    assert body_of(door("admin", "limit", "list", "--board", board, "--json")) == {"limits": [added]}
    assert len(door("admin", "limit", "list").out.splitlines()) == 2
    made = door("admin", "limit", "add", "5 cost/second", "--board", board)
    assert made.out == "limit 3: 5 in cost per second to double, for each user\n"
    assert body_of(door("admin", "limit", "remove", "1", "--json")) == {"removed": 1}
    again = door("admin", "limit", "remove", "1")
    assert (again.code, "Next: kernelcup admin limit list" in again.err) == (3, True)


REFUSALS = (
    (("limit", "add", "many"), "expected a form like `10/hour`"),
    (("limit", "add", "1/hour", "--modes", "sometimes"), "practice or profile or ranked"),
    (("limit", "add", "1/hour", "--user", "nobody-there"), "Next: kernelcup admin invite create BOARD"),
    (("limit", "list", "--board", "none"), "Next: kernelcup board list"),
    (("pause", "board", "double", "--reason", "x"), "expected service, leaderboard NAME or device NAME"),
    (("pause", "leaderboard", "--reason", "x"), "needs a name"),
    (("pause", "service", "double", "--reason", "x"), "takes no name"),
    (("pause", "--reason", " "), "expected a reason"),
    (("pause", "leaderboard", "none", "--reason", "x"), "Next: kernelcup board list"),
    (("start", "device", "H100"), "Next: kernelcup admin pauses"),
    (("late", "grant", "double", "ada", "--until", "2020-01-01"), "already passed"),
    (("late", "grant", "double", "nobody-there", "--until", "2030-01-01"), "Next: kernelcup admin inv"),
    (("late", "revoke", "double", "grace"), "Next: kernelcup admin late list double"),
    (("unveil", "double"), "is not frozen"),
    (("invite", "create", "double", "none"), "Next: kernelcup board list"),
    (("invite", "revoke", "7K2QF"), "Next: kernelcup admin invite list BOARD"),
    (("members", "add", "double", "nobody-there"), "Next: kernelcup admin invite create BOARD"),
    (("members", "remove", "double", "grace"), "Next: kernelcup admin members list double"),
    (("members", "import", "double", "none.csv"), "none.csv: No such file"),
    (("rejudge",), "either a leaderboard or --submission"),
    (("rejudge", "double", "--submission", "1"), "either a leaderboard or --submission"),
    (("rejudge", "--submission", "1", "--only-best"), "are for leaderboards"),
    (("rejudge", "--submission", "1"), "Next: kernelcup submissions list"),
    (("rejudge", "double", "--device", "B200"), "it has H100"),
    (("reviews", "show", "1"), "Next: kernelcup admin reviews list"),
    (("reviews", "decide", "1", "maybe", "--note", "x"), "expected released or rejected"),
    (("reviews", "decide", "1", "released", "--note", ""), "expected a reason"),
    (("quarantine", "1", "--reason", "x"), "Next: kernelcup submissions list"),
)


def test_what_cannot_be_is_said_with_what_to_do(door: Door, board: str) -> None:
    for words, told in REFUSALS:  # of which each would need a server
        ended = door("admin", *words)
        assert (ended.code, ended.out) == (3, ""), words
        assert told in ended.err, words


@pytest.mark.parametrize(
    "words", ["admin machines release", "admin token revoke", "board webhook remove double"]
)
def test_a_number_that_no_database_has_is_a_wrong_command_line(command: Command, words: str) -> None:
    ended = command(*words.split(), str(10**30), "--json")
    assert (ended.code, body_of(ended)["error"]["code"]) == (2, "usage")


def test_a_pause_is_made_seen_and_ended(door: Door, board: str) -> None:
    assert door("admin", "pauses").out == "nothing is paused\n"
    ended = door("admin", "pause", "leaderboard", "Double", "--reason", "repairs")
    assert "leaderboard double accepts no submissions now: repairs" in ended.out
    assert "Next: kernelcup admin start leaderboard double" in ended.out
    told = body_of(door("admin", "pause", "--reason", "moving", "--json"))
    assert told == {"paused": "service", "name": None, "reason": "moving"}
    door("admin", "pause", "device", "h100", "--reason", "broken")
    found = body_of(door("admin", "pauses", "--json"))["pauses"]
    assert {(each["paused"], each["name"], each["reason"]) for each in found} == {
        ("leaderboard", "double", "repairs"),
        ("service", None, "moving"),
        ("device", "h100", "broken"),
    }
    assert "leaderboard double: repairs  (since " in door("admin", "pauses").out
    for what in (["leaderboard", "double"], ["device", "h100"]):
        assert "accepts submissions again" in door("admin", "start", *what).out
    assert body_of(door("admin", "start", "--json")) == {"started": "service", "name": None}
    assert body_of(door("admin", "pauses", "--json")) == {"pauses": []}


def test_somebody_may_submit_for_longer(door: Door, db: Database, board: str) -> None:
    make_actor(db, "ada")
    assert "has no late exceptions" in door("admin", "late", "list", board).out
    assert "ada may submit to double until 2030-01-31 23:59:59 UTC" in (
        door("admin", "late", "grant", board, "ada", "--until", "2030-01-31").out
    )
    assert "ada  until 2030-01-31" in door("admin", "late", "list", board).out
    late = {"user": "ada", "until": "2030-01-31T23:59:59+00:00"}
    listed = body_of(door("admin", "late", "list", board, "--json"))
    assert listed == {"leaderboard": "double", "late": [late]}
    assert body_of(door("admin", "late", "revoke", board, "ada", "--json"))["revoked"] == "ada"
    assert body_of(door("admin", "late", "list", board, "--json"))["late"] == []


def test_standings_freeze_and_are_unveiled(door: Door, db: Database, board: str) -> None:
    frozen = body_of(door("admin", "freeze", board, "--at", "2030-01-01", "--json"))
    assert frozen["freeze_at"] == "2030-01-01T00:00:00+00:00"
    planned = door("admin", "freeze", board, "--at", "2030-01-01")
    assert planned.out.startswith("others see the standings of double as of 2030-01-01 00:00:00 UTC")
    assert "everyone sees the current standings of double" in door("admin", "unveil", board).out
    assert get_board(db, board).freeze_at is None
    ended = door("admin", "freeze", board)
    assert ended.out.startswith("others see the standings of double as they are now\nNext: ")
    assert get_board(db, board).freeze_at is not None
    assert "you see the current standings" in door("standings", board).out
    assert body_of(door("admin", "unveil", board, "--json"))["freeze_at"] is None


def test_codes_let_people_in(door: Door, db: Database, command: Command, board: str) -> None:
    assert "has no invites" in door("admin", "invite", "list", board).out
    made = door("admin", "invite", "create", board, "--count", "2", "--label", "autumn")
    code, other = made.out.split()
    assert "/join?code=CODE on the site, or, signed in: kernelcup join CODE" in made.err
    joined = command("join", code.lower(), "--user", "ada", "--local", "--json")
    assert joined.body == {"leaderboards": ["double"], "courses": ["double"]}
    listed = {
        each["code"]: each for each in body_of(door("admin", "invite", "list", board, "--json"))["invites"]
    }
    assert (listed[code]["claimed_by"], listed[other]["claimed_by"]) == ("ada", None)
    assert (listed[code]["label"], listed[code]["leaderboards"]) == ("autumn", ["double"])
    assert f"{code}  autumn  [double]  used by ada" in door("admin", "invite", "list", board).out
    assert "the user who joined with it stays a member" in door("admin", "invite", "revoke", code).out
    gone = body_of(door("admin", "invite", "revoke", other, "--json"))
    assert gone == {"revoked": other, "was_claimed": False}
    (member,) = body_of(door("admin", "members", "list", board, "--json"))["members"]
    assert (member["user"], member["pseudonym"]) == ("ada", None)
    assert list(body_of(door("admin", "invite", "create", board, "--json"))) == ["codes", "leaderboards"]


def test_members_are_added_and_removed(door: Door, db: Database, board: str) -> None:
    make_actor(db, "ada")
    assert "has no members" in door("admin", "members", "list", board).out
    assert door("admin", "members", "add", board, "ada", "--pseudonym", "lynx").out == (
        "ada is a member of double\n"
    )
    assert "ada as lynx  since " in door("admin", "members", "list", board).out
    taken = door("admin", "members", "add", board, "grace", "--pseudonym", "lynx", "--json")
    assert (taken.code, body_of(taken)["error"]["code"]) == (3, "conflict")
    assert body_of(door("admin", "members", "remove", board, "ada", "--json"))["removed"] == "ada"
    assert body_of(door("admin", "members", "list", board, "--json"))["members"] == []


def test_a_class_list_is_imported(
    door: Door, db: Database, board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_actor(db, "ada")
    text = "\ufeffuser,label\nada,\n,Zoë\n"
    (tmp_path / "class.csv").write_bytes(text.encode())
    done = body_of(door("admin", "members", "import", board, "class.csv", "--json"))
    assert (done["leaderboard"], done["added"], done["already"]) == ("double", ["ada"], [])
    ((code,),) = [{each["code"] for each in done["codes"]}]
    assert done["codes"] == [{"line": 3, "label": "Zoë", "code": code}]
    assert done["without_account"] == []
    (tmp_path / "typo.csv").write_text("user\nadda\n")
    typo = door("admin", "members", "import", board, "typo.csv")
    assert "without an account, so these got a code: adda" in typo.err

    class Stdin:
        buffer = io.BytesIO(text.encode())

    monkeypatch.setattr("sys.stdin", Stdin())
    again = door("admin", "members", "import", board, "-")
    assert again.out == f"{code}  Zoë\n"
    assert "0 new members, 1 was a member already, 1 code" in again.err


def test_a_list_that_cannot_be_read_is_refused(door: Door, board: str, tmp_path: Path) -> None:
    for content, told in (
        (b"who\nada\n", "line 1: unknown column `who`"),
        (b"user\n\xff\n", "expected CSV encoded as UTF-8"),
        (b"user\n" + b"x" * 1_000_000, "1,000,000 bytes"),
    ):
        (tmp_path / "class.csv").write_bytes(content)
        ended = door("admin", "members", "import", board, "class.csv")
        assert (ended.code, told in ended.err) == (3, True), told


def test_who_joins_at_a_server_is_whoever_signed_in(
    door: Door, db: Database, command: Command, server: str, board: str, sign_in: Any
) -> None:
    code, other = door("admin", "invite", "create", board, "--count", "2").out.split()
    sign_in("ada", Role.PARTICIPANT)
    named = command("join", code, "--server", server, "--user", "eve")
    assert (named.code, "--user: the server knows you" in named.err) == (3, True)
    joined = command("join", code, "--server", server)
    assert joined.out.startswith("You belong to double. Next: kernelcup board show double --server ")
    for wrong in ("7K2QF", ".."):
        assert command("join", wrong, "--server", server).code == 3
    sign_in("eve", Role.PARTICIPANT)
    used = command("join", code, "--server", server)
    assert (used.code, "Next: ask the person who gave you the code" in used.err) == (3, True)
    refused = command("admin", "members", "list", board, "--server", server)
    assert (refused.code, "managed by" in refused.err) == (3, True)
    assert other not in refused.err


def test_a_budget_is_shown_for_each_device(door: Door, db: Database, command: Command, judged: int) -> None:
    assert door("budget", "double").out == "double on H100: no limit\n"
    door("admin", "limit", "add", "10/hour", "--board", "double")
    ((device, (left,)),) = body_of(door("budget", "double", "--device", "h100", "--json"))["budget"].items()
    assert (device, left["remaining"]) == ("H100", 10)
    assert "10 submissions per hour to double, for each user: 0 used, 10 left" in door("budget", "double").out
    unknown = door("budget", "double", "--device", "B200")
    assert (unknown.code, "it has H100" in unknown.err) == (3, True)


def test_results_are_judged_again_after_a_look(door: Door, db: Database, judged: int) -> None:
    plan = body_of(door("admin", "rejudge", "double", "--dry-run", "--json"))
    assert (plan["jobs"], plan["by_device"], plan["dry_run"]) == (1, {"H100": 1}, True)
    assert plan["standing"] == 1
    seen = door("admin", "rejudge", "double", "--only-best")
    assert "to judge again: 1 result of 1 submission (H100 1)" in seen.out
    assert (seen.code, "inspect with --dry-run, confirm with --yes" in seen.err) == (3, True)
    assert body_of(door("admin", "rejudge", "double", "--json"))["error"]["code"] == "invalid_value"
    assert show_submission(db, judged).ended
    done = door("admin", "rejudge", "double", "--device", "h100", "--yes")
    assert "1 result is judged again" in done.out
    assert not show_submission(db, judged).ended
    nothing = door("admin", "rejudge", "--submission", str(judged), "--yes")
    assert (
        nothing.out
        == "there is nothing to judge again\n  left out: 1 not judged yet, or being judged again\n"
    )


def test_who_is_asked_may_say_no(
    door: Door, db: Database, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert door("admin", "rejudge", "double").code == 130
    assert show_submission(db, judged).ended
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert door("admin", "rejudge", "double").code == 0
    assert not show_submission(db, judged).ended


def test_a_result_is_put_aside_looked_at_and_decided(door: Door, db: Database, judged: int) -> None:
    assert door("admin", "reviews", "list").out == "no result waits for a decision\n"
    job = show_submission(db, judged).jobs[0].id
    other = door("admin", "quarantine", str(judged), "--device", "B200", "--reason", "x")
    assert (other.code, "it has H100" in other.err) == (3, True)
    put = door("admin", "quarantine", str(judged), "--reason", "reads the clock")
    assert "submission 1 by ada to double on H100, 1 µs: reads the clock" in put.out
    assert "Next: kernelcup admin reviews show 1" in put.out
    (listed,) = body_of(door("admin", "reviews", "list", "--board", "double", "--json"))["reviews"]
    assert (listed["job"], listed["submission"], listed["decision"]) == (job, judged, None)
    assert "Next: kernelcup admin reviews show 1" in door("admin", "reviews", "list").out
    shown = door("admin", "reviews", "show", "1")
    assert "kernelcup submissions show 1 --code" in shown.out
    assert "decide 1 released|rejected" in shown.out
    done = body_of(door("admin", "reviews", "decide", "1", "Released", "--note", "honest", "--json"))
    assert (done["decision"], done["note"]) == ("released", "honest")
    again = door("admin", "reviews", "decide", "1", "rejected", "--note", "x")
    assert (again.code, "was already decided: released" in again.err) == (3, True)
    assert "released by " in door("admin", "reviews", "show", "1").out
    assert body_of(door("admin", "reviews", "list", "--json")) == {"reviews": []}
    rejected = body_of(door("admin", "quarantine", str(judged), "-d", "h100", "--reason", "again", "--json"))
    copy = make_submission(db, user="bob", board="double", devices=["H100"]).id
    judge(db)
    done = door("admin", "reviews", "decide", str(rejected["id"]), "rejected", "--note", "not honest").out
    assert "rejected by " in done
    assert f"equal code, decided with it: #{copy}\n" in done
    listed = door("submissions", "list").out
    assert (listed.count("H100: rejected"), "accepted" in listed) == (2, False)


def test_a_problem_set_is_synced_where_the_command_works(
    door: Door, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def sync(db: Database, actor: Any, **given: Any) -> SyncResult:
        asked.append({"actor": actor.name, **given})
        skipped, broken = Skipped(name="b", reason="no changes"), SyncError(name="c", error="empty")
        return SyncResult(commit="abc", preview=True, created=["a"], skipped=[skipped], errors=[broken])

    monkeypatch.setattr(problem_sync, "sync_problem_set", sync)
    address = "https://example.org/problems"
    options = ("--branch", "b", "--problem-set", "s", "--preview", "--force")
    done = body_of(door("board", "sync", address, *options, "--json"))
    assert (done["commit"], done["created"], done["errors"]) == (
        "abc",
        ["a"],
        [{"name": "c", "error": "empty"}],
    )
    assert "b: skipped, no changes" in door("board", "sync", address).out
    first, second = asked
    assert (first["repository"], first["branch"], first["problem_set"]) == (address, "b", "s")
    assert (first["options"].force, first["options"].preview) == (True, True)
    assert (second["branch"], second["problem_set"], second["options"].force) == ("main", None, False)
    here = request.node.callspec.params["door"] == "local"
    assert {each["actor"] for each in asked} == {"operator" if here else "root"}


def test_options_that_a_server_does_not_take_are_refused(command: Command, server: str, sign_in: Any) -> None:
    sign_in("root", Role.ADMIN)
    for option in (["--prefix", "x-"], ["--members-only"], ["--rejudge"], ["--user", "eve"]):
        ended = command("board", "sync", "https://example.org/problems", "--server", server, *option)
        assert (ended.code, option[0] in ended.err) == (3, True), option


def test_an_answer_in_another_form_is_no_bug_of_the_command(
    command: Command, server: str, sign_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in("root", Role.ADMIN)
    monkeypatch.setattr(Client, "send", lambda *_, **__: [{"id": "x"}])
    ended = command("admin", "limit", "list", "--server", server)
    assert (ended.code, "in a form that this version does not know (0.id: " in ended.err) == (5, True)


def test_a_machine_is_added_changed_listed_and_removed(door: Door, board: str) -> None:
    token = body_of(door(*MACHINES, "add", "lab", "--json"))["token"]
    assert token.startswith("kc_")
    assert body_of(door(*MACHINES, "own", "lab", "--json")) == {"name": "lab", "is_own": True}
    priced = body_of(door(*MACHINES, "price", "lab", "2.5", "--json"))
    assert priced == {"name": "lab", "price_per_hour": 2.5}
    assert "lab drains" in door(*MACHINES, "drain", "lab").out
    (found,) = body_of(door(*MACHINES, "list", "--json"))["machines"]
    assert (found["name"], found["state"], found["is_own"]) == ("lab", "down", True)
    assert found["is_draining"] is True
    assert body_of(door(*MACHINES, "resume", "lab", "--json"))["is_draining"] is False
    assert "lab is lent" in door(*MACHINES, "own", "lab", "--lent").out
    ranked = body_of(door(*MACHINES, "rank", board, "lab", "--json"))
    assert ranked == {"leaderboard": board, "machines": ["lab"]}
    assert f"{board} is ranked by all machines" in door(*MACHINES, "rank", board).out
    assert body_of(door(*MACHINES, "remove", "lab", "--json")) == {"removed": "lab"}
    assert "No machine has judged yet" in door(*MACHINES, "list").out


def test_a_machine_is_reserved_listed_and_released(door: Door) -> None:
    door(*MACHINES, "add", "lab")
    assert "No machine is reserved" in door(*MACHINES, "reservations").out
    command = (*MACHINES, "reserve", "lab", "--maintenance", "--until", "2099-01-01", "--reason", "driver")
    assert door(*command).out.startswith("lab: under maintenance from ")
    listed = door(*MACHINES, "reservations", "--json")
    (found,) = body_of(listed)["reservations"]
    assert (found["machine"], found["board"], found["reason"]) == ("lab", None, "driver")
    assert f"reservation {found['id']} has ended" in door(*MACHINES, "release", str(found["id"])).out
    made = body_of(door(*command, "--json"))
    assert (made["machines"], made["board"], made["ends_at"][:10]) == (["lab"], None, "2099-01-01")
    for number in made["ids"]:
        assert body_of(door(*MACHINES, "release", str(number), "--json")) == {"released": number}
    assert "No machine is reserved" in door(*MACHINES, "reservations").out
