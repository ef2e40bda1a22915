"""Every door of an operation takes all that a person may say, and hands it on."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.datastructures import FormData
from typer.testing import CliRunner

from kernelcup import errors
from kernelcup.app.courses import courses
from kernelcup.app.operation import BOARD, OPERATIONS, Board, Given, Operation, Parameter, User, operation
from kernelcup.app.operations import every
from kernelcup.cli import operations as commands
from kernelcup.cli.backend import choosing
from kernelcup.errors import InvalidValue
from kernelcup.http.api import operations as routes
from kernelcup.http.pages.admin.forms import perform

SOURCE = Path(__file__).parents[2] / "src/kernelcup"
DOCS = SOURCE.parents[1] / "docs/reference"
EXTENSION = SOURCE.parents[1] / "packages/kernelbot/src/kernelcup_kernelbot"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIXED = {
    # The existing client pauses the service with words of ours, and has no labels.
    ("popcorn/administration.py", "pause"): {"key"},
    ("popcorn/administration.py", "add_limit"): {"user", "device", "launcher", "per_user"},
    ("bot/commands/people.py", "add_limit"): {"user", "launcher", "mode_group"},
    ("bot/commands/reviews.py", "open_reviews"): {"after_id"},  # the first ones; the others come after these
    ("popcorn/administration.py", "make_invites"): {"label"},
    ("http/pages/admin/new_boards.py", "create"): {"over"},  # a deadline in its form is ahead
    ("popcorn/administration.py", "unpause"): {"key"},
    ("bot/commands/create_board.py", "create"): {
        "run",
        "force",
        "over",
    },  # with a trial, and a deadline ahead
    ("http/pages/admin/home.py", "open_reviews"): {"board", "after_id"},  # the newest
    ("http/pages/admin/reviews.py", "quarantine"): {"evidence"},  # a reader has none
    ("cli/operate/demo.py", "create_token"): {"kind", "days"},  # on this machine, and revoked at once
    ("http/pages/account.py", "list_tokens"): {"for_user"},  # one's own
    ("popcorn/leaderboards.py", "history"): {"before_id"},  # the newest
}
"""Arguments that a door leaves out on purpose."""


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> tuple[Operation, list[dict[str, Any]]]:
    """Return an operation with a parameter of each kind, and the calls of it."""
    calls: list[dict[str, Any]] = []

    @operation("POST", "/leaderboards/{name}/samples/{user}", "sample add", subject="samples", status=201)
    def add_sample(
        db: object,
        actor: object,
        board: Board,
        user: User,
        text: Annotated[str, Given(options=("--text",), help="A text.", longest=5)],
        other: Annotated[str | None, Given(options=("--other",), key=BOARD, help="Another one.")] = None,
        count: Annotated[int, Given(options=("--count",), least=1, most=9, help="How many.")] = 1,
        shared: Annotated[bool, Given(options=("--own",), is_negated=True, help="Whose.")] = True,
        until: Annotated[
            datetime | None,
            Given(options=("--until",), parse=lambda _, now: now + timedelta(days=1), help="Until when."),
        ] = None,
        hidden: int = 0,
        *,
        now: datetime,
    ) -> list[str]:
        """Add a sample."""
        calls.append(dict(locals()))
        return [f"{board} {user} {text} {count} {hidden}"]

    made = OPERATIONS.pop(add_sample)
    monkeypatch.setitem(OPERATIONS, add_sample, made)
    return made, calls


WANTED = {"board": "double", "user": "ada", "text": "much", "other": "single", "count": 3, "shared": False}


def test_a_route_hands_on_all_that_is_said(sample: tuple[Operation, list[dict[str, Any]]]) -> None:
    made, calls = sample
    app = FastAPI()
    # Who asks, and how much room there is, is the platform's matter.
    app.add_api_route(made.path, routes.function_of(made), methods=["POST"], status_code=201)
    app.dependency_overrides[routes.provided] = lambda: {"db": None, "actor": None, "now": NOW}
    body = {"text": "much", "leaderboard": "single", "count": 3, "shared": False, "until": NOW.isoformat()}
    with TestClient(app) as client:
        answer = client.post("/leaderboards/double/samples/ada", json=body)
        assert (answer.status_code, answer.json()) == (201, ["double ada much 3 0"])
        for wrong in ({"text": "too long"}, {"count": 0}, {"count": 10}, {"hidden": 2}, {"until": "soon"}):
            assert client.post("/leaderboards/double/samples/ada", json=body | wrong).status_code == 422, (
                wrong
            )
        assert client.post("/leaderboards/double/samples/ada", json={}).status_code == 422
    (call,) = calls
    assert {name: call[name] for name in WANTED} == WANTED
    assert call["until"] == NOW


PARTS = tuple(
    Parameter(name=name, kind=kind, given=Given(help="It.", most=9), default=None, in_path="")
    for name, kind in (("depth", int | None), ("width", int))
)


def test_a_route_takes_settings_beside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []

    @operation("PUT", "/samples/{name}", subject="samples")
    def put_sample(
        name: Annotated[str, Given(help="Which.")],
        task: Annotated[Callable[[], Any], Given(is_upload=True, help="Its files.")],
        changes: Annotated[dict[str, Any] | None, Given(parts=PARTS, help="Settings.")] = None,
        force: Annotated[bool, Given(in_query=True, help="All the same.")] = False,
    ) -> None:
        """Put a sample."""
        calls.append((name, changes, force, callable(task)))

    made = OPERATIONS.pop(put_sample)
    monkeypatch.setitem(OPERATIONS, put_sample, made)
    app = FastAPI()
    app.add_api_route(made.path, routes.function_of(made), methods=["PUT"])
    app.dependency_overrides[routes.provided] = lambda: {"db": None}
    files = {"files": ("task.yml", b"lang: py")}
    with TestClient(app) as client:
        for settings in ({"settings": '{"depth": null}'}, {"settings": '{"width": 3}'}, {}):
            assert client.put("/samples/a?force=true", data=settings, files=files).status_code == 200
        for wrong in ('{"depth": 10}', '{"height": 1}', "[]"):
            assert client.put("/samples/a", data={"settings": wrong}, files=files).status_code == 422
        assert client.put("/samples/a", data={"settings": "{}"}).status_code == 422  # without a task
        with pytest.raises(InvalidValue, match="width: null is not allowed"):
            client.put("/samples/a", data={"settings": '{"width": null}'}, files=files)
    assert calls == [("a", said, True, True) for said in ({"depth": None}, {"width": 3}, None)]


class Here:
    """A place where commands work: it knows leaderboards in other spellings."""

    option = ""

    def board(self, name: str) -> Any:
        """Return a leaderboard of that name."""
        return type("Board", (), {"name": name.lower()})

    def call(self, call: Callable[..., Any], *, as_user: str | None = None, **values: Any) -> Any:
        """Run an operation."""
        assert as_user is None
        return OPERATIONS[call].run({"db": None, "actor": None, "now": NOW}, values)


def test_a_command_hands_on_all_that_is_said(
    sample: tuple[Operation, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, calls = sample
    monkeypatch.setattr(commands, "every", lambda: [made])

    class Opened:
        def __enter__(self) -> Here:
            return Here()

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(choosing, "open_backend", lambda *_: Opened())
    root = typer.Typer()
    root.callback()(lambda: None)
    group = typer.Typer()
    root.add_typer(group, name="sample")
    assert commands.add_commands(group, "sample", {}) == {}
    said = "sample add DOUBLE ada --text much --other Single --count 3 --own --until soon".split()
    done = CliRunner().invoke(root, [*said, "--json"])
    assert (done.exit_code, done.output) == (0, '{"items": [{"value": "double ada much 3 0"}]}\n')
    assert CliRunner().invoke(root, said).output == "double ada much 3 0\n"
    assert CliRunner().invoke(root, [*said, "--count", "10"]).exit_code == 2
    assert {name: calls[0][name] for name in WANTED} == WANTED
    assert calls[0]["until"] > NOW


def test_a_form_hands_on_all_that_is_said(sample: tuple[Operation, list[dict[str, Any]]]) -> None:
    made, calls = sample
    given = {"db": None, "actor": None, "now": NOW}
    fields = FormData(
        {"user": "ada", "text": " much ", "leaderboard": "single", "own": "on", "until": "soon"}
    )
    perform(made.call, fields, given, board="double", count=3)
    assert {name: calls[0][name] for name in WANTED} == WANTED
    assert calls[0]["until"] == NOW + timedelta(days=1)
    with pytest.raises(InvalidValue, match="text: expected a value"):
        perform(made.call, FormData({"user": "ada"}), given, board="double")
    with pytest.raises(InvalidValue, match="text: 8 characters; 5 are allowed"):
        perform(made.call, FormData({"user": "ada", "text": "too long"}), given, board="double")


def test_each_operation_is_in_the_list_of_its_door() -> None:
    """The routes and commands are made of this list, with every parameter of each."""
    assert {made.call for made in every()} == set(OPERATIONS)
    for made in every():
        named = {
            name for name, hint in inspect.get_annotations(made.call, eval_str=True).items() if is_given(hint)
        }
        assert {parameter.name for parameter in made.parameters} == named


def is_given(hint: Any) -> bool:
    return any(isinstance(note, Given) for note in getattr(hint, "__metadata__", ()))


def left_out(source: str) -> dict[str, set[str]]:
    """Return what calls of operations in a module leave out, by the operation's name."""
    tree = ast.parse(source)
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    known = {f"{made.call.__module__}.{made.call.__name__}": made for made in every()}
    missing: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        target, given, provided = node.func, node.args, {"entry"}
        if isinstance(target, ast.Attribute) and target.attr == "call" and node.args:
            target, given, provided = (
                node.args[0],
                [],
                set(),
            )  # backend.call(module.operation, name=value), also of the bot
        names = [modules.get(part, part) for part in ast.unparse(target).split(".")]
        made = known.get(".".join(names))
        if made is None or any(keyword.arg is None for keyword in node.keywords):
            continue
        passed = {*list(inspect.signature(made.call).parameters)[: len(given)]}
        passed |= {keyword.arg for keyword in node.keywords if keyword.arg}
        # How somebody came in is what a page must not forget: without it they may do as on this machine.
        lacks = {parameter.name for parameter in made.parameters} | {*made.provided} & provided
        lacks -= passed
        if lacks:
            missing.setdefault(made.call.__name__, set()).update(lacks)
    return missing


def test_doors_written_by_hand_leave_no_argument_out() -> None:
    doors = [(SOURCE, path) for room in ("http", "cli", "bot") for path in (SOURCE / room).rglob("*.py")]
    doors += [(EXTENSION, path) for path in EXTENSION.rglob("*.py")]
    found = {
        (str(path.relative_to(source)), name): lacks
        for source, path in doors
        for name, lacks in left_out(path.read_text(encoding="utf-8")).items()
    }
    assert found == FIXED


BY_HAND = re.compile(r"""\.(?:post\(|request\(\s*"(?:POST|PUT|PATCH|DELETE)",)\s*(?:"([^"]*)"|)""")


def test_what_clients_change_by_hand_is_no_operation() -> None:
    """An operation has a time limit of its own, which a request by hand would not know."""
    files = [path for room in ("bot", "cli", "client") for path in (SOURCE / room).rglob("*.py")]
    paths = {found[1] for each in files for found in BY_HAND.finditer(each.read_text(encoding="utf-8"))}
    assert paths == {"/submissions", "/link", "/unlink", "/auth/device", "/auth/device/token"}
    assert paths.isdisjoint(made.path for made in every() if made.method != "GET")


@pytest.mark.parametrize(
    "door",
    ["limits.add_limit(db, actor, {})", "backend.call(limits.add_limit, {})"],
    ids=["direct", "by name"],
)
def test_a_forgotten_argument_is_found(door: str) -> None:
    said = "text=text, board=None, user=None, device=None, mode_group=None, per_user=True"
    source = f"from kernelcup.app.rules import limits\n{door.format(said)}"
    assert left_out(source) == {"add_limit": {"launcher"}}


def test_what_people_read_of_an_operation_names_no_class_of_errors() -> None:
    classes = [name for name, kind in vars(errors).items() if isinstance(kind, type)]
    named = re.compile(
        rf"\bRaises?\b|\b({'|'.join(each for each in classes if len(re.findall('[A-Z]', each)) > 1)})\b"
    )
    texts = {each.call.__name__: each.summary for each in every()}
    texts |= {name: (DOCS / name).read_text(encoding="utf-8") for name in ("cli.md", "http-api.md")}
    assert {name: found[0] for name, text in texts.items() if (found := named.search(text))} == {}
    assert "Raise ``Conflict``" in str(inspect.getdoc(courses.rename))  # there was something to leave out
