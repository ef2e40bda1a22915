from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from sqlalchemy import event, func, select

from builders import NOW, make_actor, make_board, make_device, make_submission, make_task
from kernelcup.app.boards import boards
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.queries import boards as stored
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.courses.queries import courses, members
from kernelcup.domain import (
    NOBODY,
    OPERATOR,
    Actor,
    BoardSettings,
    Language,
    Role,
    Scope,
    TrustRule,
    Visibility,
)
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded
from kernelcup.names import check_board_name
from kernelcup.tables import AuditRow, Base, UserRow
from kernelcup_harness.protocol import Backend, HarnessKind

OWN_TASK = make_task(harness=HarnessKind.OWN, main="eval.py", sources={"eval.py": "", "reference.py": ""})


def count(db, table) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def join(db, board_id: int, actor: Actor) -> None:
    with db.write() as session:
        course = courses.of_board(session, stored.get(session, board_id), NOW)
        members.add(session, course_id=course.id, user_id=actor.user_id, now=NOW)


def test_a_board_is_returned_as_it_was_made(db) -> None:
    made = make_board(db, devices=["H100", "A100"], deadline=NOW + timedelta(days=1))
    assert made.devices == ("H100", "A100")
    assert made.creator == "grace"
    assert boards.get_board(db, "double") == made
    assert boards.list_boards(db) == [made]


def test_the_task_of_a_board_comes_back_whole(db) -> None:
    task = make_task(hidden_tests=[{"size": 7, "flag": True, "names": ["a"], "scale": 0.5}])
    make_board(db, task=task)
    assert boards.get_task(db, "double") == task


def test_a_name_is_found_in_any_case_and_taken_in_any_case(db) -> None:
    make_board(db, name="Double")
    assert boards.get_board(db, "dOUBLE").name == "Double"
    with pytest.raises(Conflict, match="already"):
        make_board(db, name="double")


@pytest.mark.parametrize("name", ["a", "amd-fp8-mm", "grayscale_v2", "v1.2", "9", "a" * 64, "submitted"])
def test_common_names_are_taken(name: str) -> None:
    check_board_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a b", "a/b", "ä", "-rf", ".", "..", ".hidden", "a" * 65, "a\n", "a%20"),
        *("health", "Submission", "leaderboards", "GPUS", "user", "admin", "auth", "docs", "api"),
        *("b", "s", "u", "static", "openapi.json", "events", "healthz", "metrics", "submission_count"),
    ],
)
def test_names_that_could_not_be_addressed_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        check_board_name(name)


def test_devices_are_written_as_they_are_configured(db) -> None:
    known = [make_device(name="H100"), make_device(name="emulated")]
    made = make_board(db, devices=["h100", "EMULATED", "H100"], known_devices=known)
    assert made.devices == ("H100", "emulated")


def test_a_device_that_is_not_configured_is_refused_with_those_that_are(db) -> None:
    for devices, told in (
        (["B200"], "'B200' is not configured here; there are: H100"),
        ([], r"at least one device\. There are: H100"),
    ):
        with pytest.raises(InvalidValue, match=told):
            make_board(db, devices=devices, known_devices=[make_device()])


def test_a_deadline_must_be_ahead_and_after_the_opening(db) -> None:
    with pytest.raises(InvalidValue, match="already passed"):
        make_board(db, deadline=NOW)
    with pytest.raises(InvalidValue, match="not after the opening"):
        make_board(db, opens_at=NOW + timedelta(days=2), deadline=NOW + timedelta(days=1))


def test_a_task_without_a_harness_cannot_be_judged_by_its_own(db) -> None:
    with pytest.raises(InvalidValue, match="no harness of its own"):
        make_board(db, harness=HarnessKind.OWN)


def test_the_harness_of_a_cuda_task_is_its_file_with_main(db) -> None:
    made = make_board(db, task=make_task(lang=Language.CUDA, main="eval.cu"), harness=HarnessKind.OWN)
    assert made.harness is HarnessKind.OWN


def test_deleting_a_board_leaves_nothing_but_people_and_the_log(db) -> None:
    make_board(db)
    make_submission(db)
    boards.delete_board(db, "DOUBLE", confirm="double", now=NOW)
    left = {table.name for table in Base.metadata.sorted_tables if count(db, table)}
    assert left == {UserRow.__tablename__, AuditRow.__tablename__}


def test_deleting_a_board_spares_what_another_one_uses(db) -> None:
    make_board(db)
    make_board(db, name="other")
    make_submission(db, board="double")
    kept = make_submission(db, board="other")
    boards.delete_board(db, "double", confirm="double", now=NOW)
    assert boards.get_task(db, "other") == make_task()
    assert kept.leaderboard == "other"
    with pytest.raises(NotFound):
        boards.delete_board(db, "double", confirm="double", now=NOW)


@pytest.mark.parametrize("confirm", ["", "Double", "doubl", " double"])
def test_a_person_deletes_a_board_only_with_its_very_name(db, confirm: str) -> None:
    make_board(db)
    admin = make_actor(db, "root", Role.ADMIN)
    with pytest.raises(InvalidValue, match="Nothing was deleted"):
        boards.delete_board(db, "double", admin, confirm=confirm, now=NOW)
    assert boards.get_board(db, "double").name == "double"


def test_a_deletion_is_in_the_log_with_what_went(db) -> None:
    made = make_board(db)
    make_submission(db)
    boards.delete_board(db, "DOUBLE", make_actor(db, "root", Role.ADMIN), confirm="double", now=NOW)
    with db.read() as session:
        entry = session.scalars(select(AuditRow).order_by(AuditRow.id.desc())).first()
    assert entry is not None
    assert (entry.actor, entry.action, entry.target) == ("root", "board.delete", "board:double")
    assert entry.detail == {"id": made.id, "creator": "grace", "submissions": 1}


def test_only_its_creator_and_admins_delete_a_board(db) -> None:
    make_board(db)
    for name, role in (("ada", Role.PARTICIPANT), ("other", Role.CREATOR)):
        with pytest.raises(Forbidden):
            boards.delete_board(db, "double", make_actor(db, name, role), confirm="double", now=NOW)
    with pytest.raises(SignInNeeded):
        boards.delete_board(db, "double", NOBODY, confirm="double", now=NOW)
    boards.delete_board(db, "double", make_actor(db, "grace", Role.CREATOR), confirm="double", now=NOW)
    assert boards.list_boards(db) == []


def test_a_token_without_the_scope_makes_and_deletes_nothing(db) -> None:
    make_board(db)
    grace = dataclasses.replace(
        make_actor(db, "grace", Role.CREATOR), scopes=frozenset({Scope.READ, Scope.SUBMIT})
    )
    with pytest.raises(ScopeMissing):
        boards.delete_board(db, "double", grace, confirm="double", now=NOW)
    with pytest.raises(ScopeMissing):
        make_board(db, name="more", creator=grace)


def test_creators_and_admins_make_boards_and_others_do_not(db) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    assert make_board(db, creator=grace).creator == "grace"
    make_board(db, name="b2", creator=make_actor(db, "root", Role.ADMIN))
    with pytest.raises(Forbidden, match="needs the role creator"):
        make_board(db, name="b3", creator=make_actor(db, "ada"))
    with pytest.raises(SignInNeeded):
        make_board(db, name="b3", creator=NOBODY)
    with pytest.raises(InvalidValue, match="The creator needs an account"):
        make_board(db, name="b3", creator=OPERATOR)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_file_bytes": 0},
        {"max_file_bytes": 1 << 30},
        {"review_tags": ("two words",)},
        {"review_tags": ("",)},
        {"review_tags": tuple(f"t{index}" for index in range(51))},
        {"opens_at": NOW + timedelta(days=2), "freeze_at": NOW + timedelta(days=1)},
        {"trust": TrustRule.REPLAYED, "harness": HarnessKind.OWN, "task": OWN_TASK},
        {"duel": True, "harness": HarnessKind.OWN, "task": OWN_TASK},
    ],
)
def test_settings_that_cannot_be_are_refused(db, settings: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        make_board(db, **settings)


@pytest.mark.parametrize(
    ("settings", "backend", "told"),
    [
        (
            {"trust": TrustRule.REPLAYED},
            Backend.EMULATED,
            "'other' has no GPU, so its times come from the wall clock",
        ),
        ({"duel": True}, Backend.EMULATED, "the emulated device 'other' cannot measure"),
    ],
)
def test_what_a_device_cannot_prove_is_not_asked_of_it(
    db, settings: dict[str, object], backend: Backend, told: str
) -> None:
    """Nobody could rank there, or nobody pass who came first."""
    known = [make_device(), make_device(name="other", backend=backend)]
    with pytest.raises(InvalidValue, match=told):
        make_board(db, devices=["H100", "other"], known_devices=known, **settings)
    board = make_board(db, devices=["H100"], known_devices=known, **settings)
    changes = BoardChanges(devices=["H100", "other"])
    with pytest.raises(InvalidValue, match=told):
        update_board(db, OPERATOR, board.name, now=NOW, changes=changes, known_devices=known)
    update_board(
        db, OPERATOR, board.name, now=NOW, changes=BoardChanges(pseudonymous=True), known_devices=known
    )


def test_times_of_a_processor_are_never_replayed() -> None:
    known = [make_device(name="cpu", backend=Backend.CPU)]
    with pytest.raises(InvalidValue, match="come from the wall clock"):
        boards.check_proofs(
            HarnessKind.STANDARD, BoardSettings(trust=TrustRule.REPLAYED), devices=["cpu"], known=known
        )
    boards.check_proofs(HarnessKind.STANDARD, BoardSettings(duel=True), devices=["cpu"], known=known)


def test_a_closed_board_exists_for_its_members_and_managers_only(db) -> None:
    closed = make_board(db, visibility=Visibility.CLOSED)
    ada, root = make_actor(db, "ada"), make_actor(db, "root", Role.ADMIN)
    grace = make_actor(db, "grace", Role.CREATOR)
    join(db, closed.id, ada)
    closed = boards.get_board(db, "double")
    for viewer in (ada, root, grace, OPERATOR):
        assert boards.get_board(db, "double", viewer) == closed
        assert boards.list_boards(db, viewer) == [closed]
    for viewer in (NOBODY, make_actor(db, "eve"), make_actor(db, "mallory", Role.CREATOR)):
        assert boards.list_boards(db, viewer) == []
        for ask in (boards.get_board, boards.get_task, boards.visible_task):
            with pytest.raises(NotFound) as caught:
                ask(db, "Double", viewer)
            assert str(caught.value) == "There is no leaderboard 'Double'."
        with pytest.raises(NotFound):
            boards.delete_board(db, "double", viewer, confirm="double", now=NOW)


def test_a_creator_who_is_one_no_more_does_not_see_their_closed_board(db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    demoted = make_actor(db, "grace", Role.PARTICIPANT)
    assert boards.list_boards(db, demoted) == []
    with pytest.raises(NotFound):
        boards.get_board(db, "double", demoted)


def test_boards_come_in_pages(db) -> None:
    made = [make_board(db, name=f"b{index}") for index in range(5)]
    for viewer in (OPERATOR, NOBODY, make_actor(db, "ada")):
        assert boards.list_boards(db, viewer, limit=2) == made[:2]
        assert boards.list_boards(db, viewer, after_id=made[1].id, limit=2) == made[2:4]


def test_a_list_takes_as_many_queries_for_many_boards_as_for_one(db) -> None:
    statements: list[str] = []
    for index in range(12):
        make_board(db, name=f"b{index}", devices=["H100", "A100"])
    event.listen(db.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    boards.list_boards(db, NOBODY)
    assert len([text for text in statements if text.startswith("SELECT")]) == 2


def test_hidden_cases_are_numbers_for_others_than_managers(db) -> None:
    task = make_task(hidden_tests=[{"size": 7, "seed": 1}] * 2, hidden_benchmarks=[{"size": 9, "seed": 4}])
    make_board(db, task=task)
    for viewer in (NOBODY, make_actor(db, "ada")):
        seen = boards.visible_task(db, "double", viewer)
        assert (seen.hidden_tests, seen.hidden_benchmarks) == (2, 1)
        assert (seen.task.hidden_tests, seen.task.hidden_benchmarks) == ([], [])
        assert seen.task.tests == task.tests
        assert seen.task.sources == task.sources
        assert boards.get_task(db, "double", viewer) == seen.task
    assert boards.visible_task(db, "double", make_actor(db, "grace", Role.CREATOR)).task == task


@pytest.mark.parametrize(
    "overrides",
    [
        {"sources": {"eval.py": "", "reference.py": "def generate_input(): ...\n"}},
        {"sources": {"eval.py": "", "other.py": ""}},
        {"lang": Language.CUDA},
    ],
)
def test_the_own_harness_needs_a_yes(db, overrides: dict[str, object]) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    task = make_task(harness=HarnessKind.OWN, main="eval.py", **overrides)
    with pytest.raises(InvalidValue, match="self-measured"):
        make_board(db, task=task, creator=grace)
    assert make_board(db, task=task, creator=grace, harness=HarnessKind.OWN).harness is HarnessKind.OWN


CPU = make_device(name="cpu", backend=Backend.CPU)
EMULATED = make_device(name="emulated", backend=Backend.EMULATED)


IN_C = "int generate_input(const kc_case *, kc_args *) {}\nint ref_kernel(const kc_args *) {}\n"


def test_cuda_is_refused_where_there_is_no_gpu_and_plain_cpp_is_not(db) -> None:
    known = [EMULATED, make_device()]
    cuda = make_task(lang=Language.CUDA, main=None, sources={"reference.cu": IN_C})
    with pytest.raises(InvalidValue, match=r"whose kernels need a GPU; .* Use another device: H100"):
        make_board(db, task=cuda, devices=["emulated"], known_devices=known)
    assert make_board(db, task=cuda, known_devices=known).harness is HarnessKind.STANDARD
    plain = make_task(lang=Language.CUDA, main=None, sources={"reference.cpp": IN_C}, name="plain")
    assert make_board(db, name="plain", task=plain, devices=["emulated"], known_devices=known)


def test_inputs_on_a_gpu_are_refused_where_there_is_none(db) -> None:
    known = [EMULATED, CPU]
    with pytest.raises(InvalidValue, match=r"reference\.py, line 5, .* Use another device: emulated\."):
        make_board(db, devices=["emulated", "CPU"], known_devices=known)
    assert make_board(db, devices=["emulated"], known_devices=known).devices == ("emulated",)


@pytest.mark.parametrize(
    "made",
    ["torch.ones(size)", "torch.ones(size, device='cuda' if torch.cuda.is_available() else 'cpu')"],
)
def test_inputs_that_need_no_gpu_are_judged_without_one(db, made: str) -> None:
    text = f"import torch\ndef generate_input(size, seed):\n    return {made}\n"
    text += "def unused():\n    return torch.ones(1).cuda()\ndef check_implementation(data, output): ...\n"
    task = make_task(sources={"reference.py": text})
    assert make_board(db, task=task, devices=["cpu"], known_devices=[CPU]).devices == ("cpu",)


@pytest.mark.parametrize("made", ["torch.ones(size).to('cuda:0')", "helped(size)"])
def test_inputs_on_a_gpu_are_found_wherever_they_are_made(db, made: str) -> None:
    text = "def helped(size):\n    return torch.ones(size).cuda()\n"
    text += f"def generate_input(size, seed):\n    return {made}\n"
    task = make_task(sources={"reference.py": text + "def check_implementation(data, output): ...\n"})
    with pytest.raises(InvalidValue, match="makes its inputs on a GPU"):
        make_board(db, task=task, devices=["cpu"], known_devices=[CPU])


def test_a_task_on_several_gpus_names_the_devices_that_have_them(db) -> None:
    task = make_task(multi_gpu=True, tests=[{"world_size": 2}])
    known = [make_device(), make_device(name="H100x2")]
    told = r"it has 1 GPU, fewer than the `world_size` of tests.0 \(2\).*Use another device: H100x2"
    with pytest.raises(InvalidValue, match=told):
        make_board(db, task=task, devices=["H100"], known_devices=known)
    assert make_board(db, task=task, devices=["H100x2"], known_devices=known).devices == ("H100x2",)
    assert make_board(db, name="b2", task=task, devices=["emulated"], known_devices=[EMULATED])


def test_a_change_to_what_no_device_can_judge_is_refused(db) -> None:
    make_board(db, devices=["emulated"], known_devices=[EMULATED, CPU])
    for task, changes in (
        (make_task(lang=Language.CUDA, main="eval.cu", harness=HarnessKind.OWN), BoardChanges()),
        (None, BoardChanges(devices=["cpu"])),
    ):
        with pytest.raises(InvalidValue, match="cannot judge task"):
            update_board(
                db, OPERATOR, "double", task=task, changes=changes, known_devices=[EMULATED, CPU], now=NOW
            )
    assert boards.get_board(db, "double").devices == ("emulated",)


def test_advice_about_harnesses_does_not_mislead(db) -> None:
    with pytest.raises(InvalidValue) as refused:
        make_board(db, task=make_task(lang=Language.CUDA), harness=HarnessKind.STANDARD)
    assert "Use 'own'" not in str(refused.value)
