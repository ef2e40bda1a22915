"""Every route of the API, and who may use it: tested, and shown in ``docs/reference/http-api.md``.

A route that is not here fails a test, so nobody adds one without saying for whom it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

PREFIX = "/api/v1"


class Who(StrEnum):
    """Groups of people, each with the words that the documentation has for it."""

    EVERYBODY = "everybody"
    SIGNED_IN = "anybody with an account"
    PERSON = "anybody with an account, in a browser; admins also with a token"
    AUTHOR = "its author, the leaderboard's creator, admins"
    OUTCOME = "its author and managers; others once a ranked one is judged"
    CREATOR = "creators and admins"
    MANAGER = "the leaderboard's creator, admins"
    COURSE = "the course's members, its creator, admins"
    TEACHER = "the course's creator, admins"
    ORGANISER = "the event's creator, admins"
    ADMIN = "admins"
    BOT = "a bot that acts for somebody"


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route with a request that somebody who may use it gets a good answer to."""

    who: Who
    values: dict[str, str] = field(default_factory=dict)
    """What stands for the parts of the address."""
    query: dict[str, str] = field(default_factory=dict)
    json: Any = None
    form: dict[str, str] | None = None
    files: list[tuple[str, tuple[str, bytes]]] | None = None
    status: int = 200
    is_stream: bool = False


BOARD = {"name": "double"}
COURSE = {"name": "closed"}
EVENT = {"event": "spring"}
JUDGED = {"submission_id": "1"}
WAITING = {"submission_id": "2"}
RUN = {"run_id": "1"}
TASK_FILES = [("files", ("reference_code.py", b""))]
LATER = {"until": "2030-01-01T00:00:00Z"}
REASON = {"reason": "a test"}

ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/auth/device"): Route(who=Who.EVERYBODY, json={"client": "test"}, status=201),
    ("POST", "/auth/device/token"): Route(who=Who.EVERYBODY, json={"device_code": "x"}, status=400),
    ("GET", "/me"): Route(who=Who.SIGNED_IN),
    ("PATCH", "/me"): Route(who=Who.SIGNED_IN, json={"direct_messages": False}),
    ("DELETE", "/me/identities/{provider}"): Route(who=Who.PERSON, values={"provider": "github"}, status=404),
    ("POST", "/me/link-codes"): Route(who=Who.PERSON, status=201),
    ("POST", "/link"): Route(who=Who.BOT, json={"code": "BCDF-GHJK"}, status=401),
    ("POST", "/unlink"): Route(who=Who.BOT, status=401),
    ("GET", "/tokens"): Route(who=Who.SIGNED_IN),
    ("POST", "/tokens"): Route(who=Who.PERSON, json={"name": "mine", "scopes": ["read"]}, status=201),
    ("DELETE", "/tokens/current"): Route(who=Who.SIGNED_IN),
    ("DELETE", "/tokens/{token_id}"): Route(who=Who.SIGNED_IN, values={"token_id": "9999"}, status=404),
    ("GET", "/users"): Route(who=Who.ADMIN),
    ("POST", "/users"): Route(who=Who.ADMIN, json={"name": "zoe"}, status=201),
    ("GET", "/users/{name}"): Route(who=Who.ADMIN, values={"name": "hal"}),
    ("PATCH", "/users/{name}"): Route(who=Who.ADMIN, values={"name": "ada"}, json={"role": "creator"}),
    ("DELETE", "/users/{name}"): Route(who=Who.ADMIN, values={"name": "hal"}, query={"confirm": "hal"}),
    ("GET", "/users/{name}/export"): Route(who=Who.ADMIN, values={"name": "hal"}),
    ("POST", "/users/{name}/ban"): Route(who=Who.ADMIN, values={"name": "ada"}, json=REASON),
    ("DELETE", "/users/{name}/ban"): Route(who=Who.ADMIN, values={"name": "ada"}),
    ("PUT", "/users/{name}/shown-name"): Route(
        who=Who.ADMIN, values={"name": "hal"}, json={"shown_name": "Hal 9000"}
    ),
    ("POST", "/sign-in-links"): Route(who=Who.ADMIN, json={"names": ["ada"]}, status=201),
    ("GET", "/sign-in-links"): Route(who=Who.ADMIN),
    ("DELETE", "/sign-in-links/{name}"): Route(who=Who.ADMIN, values={"name": "ada"}, status=404),
    ("GET", "/audit"): Route(who=Who.CREATOR),
    ("GET", "/checks"): Route(who=Who.ADMIN),
    ("POST", "/cleanup"): Route(who=Who.ADMIN, json={"before": "2020-01-01T00:00:00Z", "dry_run": True}),
    ("GET", "/leaderboards"): Route(who=Who.EVERYBODY),
    ("POST", "/leaderboards"): Route(
        who=Who.CREATOR,
        form={"settings": '{"name": "fresh", "devices": ["H100"]}'},
        files=TASK_FILES,
        status=201,
    ),
    ("POST", "/leaderboards/check"): Route(
        who=Who.CREATOR, form={"settings": '{"name": "fresh"}'}, files=TASK_FILES
    ),
    ("GET", "/leaderboards/{name}"): Route(who=Who.EVERYBODY, values=BOARD),
    ("PATCH", "/leaderboards/{name}"): Route(who=Who.MANAGER, values=BOARD, json={"deadline": None}),
    ("DELETE", "/leaderboards/{name}"): Route(who=Who.MANAGER, values=BOARD, query={"confirm": "double"}),
    ("POST", "/leaderboards/{name}/preview"): Route(
        who=Who.MANAGER, values=BOARD, form={"settings": '{"deadline": null}'}
    ),
    ("PUT", "/leaderboards/{name}/task"): Route(who=Who.MANAGER, values=BOARD, files=TASK_FILES),
    ("POST", "/leaderboards/{name}/close"): Route(who=Who.MANAGER, values=BOARD),
    ("POST", "/leaderboards/{name}/freeze"): Route(who=Who.MANAGER, values=BOARD, json={}),
    ("POST", "/leaderboards/{name}/unveil"): Route(who=Who.MANAGER, values=BOARD, status=409),
    ("GET", "/leaderboards/{name}/task"): Route(who=Who.EVERYBODY, values=BOARD),
    ("GET", "/leaderboards/{name}/task/definition"): Route(who=Who.EVERYBODY, values=BOARD),
    ("GET", "/leaderboards/{name}/brief"): Route(who=Who.EVERYBODY, values=BOARD),
    ("GET", "/events"): Route(who=Who.EVERYBODY),
    ("POST", "/events"): Route(who=Who.CREATOR, json={"name": "autumn"}, status=201),
    ("GET", "/events/{event}"): Route(who=Who.EVERYBODY, values=EVENT),
    ("PATCH", "/events/{event}"): Route(who=Who.ORGANISER, values=EVENT, json={"title": "Spring"}),
    ("DELETE", "/events/{event}"): Route(who=Who.ORGANISER, values=EVENT, query={"confirm": "spring"}),
    ("PUT", "/events/{event}/leaderboards/{name}"): Route(
        who=Who.ORGANISER, values={**EVENT, **BOARD}, json={}
    ),
    ("GET", "/events/{event}/points"): Route(who=Who.EVERYBODY, values=EVENT),
    ("POST", "/events/{event}/registration"): Route(who=Who.SIGNED_IN, values=EVENT),
    ("DELETE", "/events/{event}/registration"): Route(who=Who.SIGNED_IN, values=EVENT),
    ("GET", "/events/{event}/registration"): Route(who=Who.EVERYBODY, values=EVENT),
    ("GET", "/events/{event}/registrations"): Route(who=Who.ORGANISER, values=EVENT),
    ("GET", "/events/{event}/teams"): Route(who=Who.EVERYBODY, values=EVENT),
    ("POST", "/events/{event}/teams"): Route(
        who=Who.SIGNED_IN, values=EVENT, json={"name": "Owls"}, status=409
    ),
    ("POST", "/events/{event}/teams/join"): Route(
        who=Who.SIGNED_IN, values=EVENT, json={"code": "AAAA"}, status=409
    ),
    ("POST", "/events/{event}/teams/leave"): Route(who=Who.SIGNED_IN, values=EVENT, status=404),
    ("GET", "/events/{event}/announcements"): Route(who=Who.EVERYBODY, values=EVENT),
    ("POST", "/events/{event}/announcements"): Route(
        who=Who.ORGANISER, values=EVENT, json={"text": "It begins."}, status=201
    ),
    ("POST", "/events/{event}/questions"): Route(
        who=Who.SIGNED_IN, values=EVENT, json={"text": "When?"}, status=201
    ),
    ("POST", "/events/{event}/questions/{question}/answer"): Route(
        who=Who.ORGANISER, values={**EVENT, "question": "99"}, json={"text": "Now."}, status=404
    ),
    ("POST", "/events/{event}/finalists"): Route(
        who=Who.ORGANISER, values=EVENT, json={"leaderboard": "double", "first": 1}, status=409
    ),
    ("GET", "/harness"): Route(who=Who.EVERYBODY),
    ("GET", "/leaderboards/{name}/harness"): Route(who=Who.EVERYBODY, values=BOARD),
    ("GET", "/leaderboards/{name}/standings/{device}"): Route(
        who=Who.EVERYBODY, values={**BOARD, "device": "H100"}
    ),
    ("GET", "/leaderboards/{name}/standings/{device}/me"): Route(
        who=Who.EVERYBODY, values={**BOARD, "device": "H100"}
    ),
    ("GET", "/leaderboards/{name}/standings/{device}/history"): Route(
        who=Who.EVERYBODY, values={**BOARD, "device": "H100"}
    ),
    ("POST", "/leaderboards/{name}/final"): Route(who=Who.MANAGER, values=BOARD, json={}, status=409),
    ("GET", "/leaderboards/{name}/final"): Route(who=Who.EVERYBODY, values=BOARD, status=404),
    ("POST", "/submissions"): Route(
        who=Who.SIGNED_IN, json={"leaderboard": "double", "devices": ["H100"], "code": "x = 1"}, status=201
    ),
    ("POST", "/submissions/check"): Route(
        who=Who.SIGNED_IN, json={"leaderboard": "double", "devices": ["H100"], "code": "x = 1"}
    ),
    ("GET", "/submissions"): Route(who=Who.EVERYBODY),
    ("GET", "/submissions/{submission_id}/report"): Route(who=Who.OUTCOME, values=WAITING),
    ("GET", "/submissions/{submission_id}"): Route(who=Who.OUTCOME, values=WAITING),
    ("DELETE", "/submissions/{submission_id}"): Route(who=Who.AUTHOR, values=WAITING),
    ("GET", "/submissions/{submission_id}/code"): Route(who=Who.AUTHOR, values=JUDGED),
    ("GET", "/submissions/{submission_id}/raw"): Route(who=Who.AUTHOR, values=JUDGED),
    ("GET", "/submissions/{submission_id}/history"): Route(who=Who.AUTHOR, values=JUDGED),
    ("GET", "/submissions/{submission_id}/events"): Route(who=Who.AUTHOR, values=JUDGED, is_stream=True),
    ("POST", "/submissions/{submission_id}/cancel"): Route(who=Who.AUTHOR, values=WAITING),
    ("POST", "/submissions/{submission_id}/rejudge"): Route(who=Who.MANAGER, values=JUDGED, json={}),
    ("POST", "/compare"): Route(who=Who.AUTHOR, json={"first": 1, "second": 2}, status=201),
    ("GET", "/compare/{comparison_id}"): Route(who=Who.AUTHOR, values={"comparison_id": "3"}),
    ("GET", "/runs/{run_id}"): Route(who=Who.EVERYBODY, values=RUN),
    ("GET", "/runs/{run_id}/artifacts"): Route(who=Who.EVERYBODY, values=RUN),
    ("GET", "/runs/{run_id}/artifacts/{name}"): Route(
        who=Who.EVERYBODY, values={**RUN, "name": "report.json"}
    ),
    ("GET", "/queue"): Route(who=Who.EVERYBODY),
    ("GET", "/machines"): Route(who=Who.ADMIN),
    ("POST", "/machines"): Route(who=Who.ADMIN, json={"name": "lab"}, status=201),
    ("PATCH", "/machines/{name}"): Route(who=Who.ADMIN, values={"name": "m"}, json={}, status=404),
    ("DELETE", "/machines/{name}"): Route(who=Who.ADMIN, values={"name": "m"}, status=404),
    ("POST", "/machines/{name}/compare"): Route(
        who=Who.ADMIN, values={"name": "m"}, json={"other": "n"}, status=404
    ),
    ("GET", "/reservations"): Route(who=Who.ADMIN),
    ("POST", "/reservations"): Route(
        who=Who.ADMIN,
        json={"machines": ["m"], "begins_at": "2029-01-01T00:00:00Z", "ends_at": "2030-01-01T00:00:00Z"},
        status=404,
    ),
    ("DELETE", "/reservations/{reservation_id}"): Route(
        who=Who.ADMIN, values={"reservation_id": "9"}, status=404
    ),
    ("PUT", "/leaderboards/{name}/machines"): Route(who=Who.ADMIN, values=BOARD, json={"machines": []}),
    ("GET", "/devices"): Route(who=Who.EVERYBODY),
    ("GET", "/status"): Route(who=Who.EVERYBODY),
    ("GET", "/docket"): Route(who=Who.EVERYBODY),
    ("GET", "/devices/outages"): Route(who=Who.ADMIN),
    ("POST", "/devices/{name}/up"): Route(who=Who.ADMIN, values={"name": "H100"}, status=404),
    ("GET", "/limits"): Route(who=Who.ADMIN),
    ("POST", "/limits"): Route(
        who=Who.MANAGER, json={"text": "10/hour", "leaderboard": "double"}, status=201
    ),
    ("DELETE", "/limits/{limit_id}"): Route(who=Who.ADMIN, values={"limit_id": "1"}),
    ("GET", "/budget"): Route(who=Who.SIGNED_IN, query={"leaderboard": "double", "device": "H100"}),
    ("GET", "/pauses"): Route(who=Who.EVERYBODY),
    ("PUT", "/pauses/service"): Route(who=Who.ADMIN, json=REASON),
    ("DELETE", "/pauses/service"): Route(who=Who.ADMIN),
    ("PUT", "/pauses/{scope}/{key}"): Route(
        who=Who.MANAGER, values={"scope": "leaderboard", "key": "double"}, json=REASON
    ),
    ("DELETE", "/pauses/{scope}/{key}"): Route(
        who=Who.MANAGER, values={"scope": "leaderboard", "key": "double"}
    ),
    ("POST", "/invites"): Route(who=Who.MANAGER, json={"leaderboards": ["double"]}, status=201),
    ("GET", "/leaderboards/{name}/invites"): Route(who=Who.MANAGER, values=BOARD),
    ("DELETE", "/invites/{code}"): Route(who=Who.CREATOR, values={"code": "AAAA"}, status=404),
    ("POST", "/join"): Route(who=Who.SIGNED_IN, json={"code": "AAAA"}, status=404),
    ("GET", "/leaderboards/{name}/members"): Route(who=Who.MANAGER, values=BOARD),
    ("PUT", "/leaderboards/{name}/members/{user}"): Route(
        who=Who.MANAGER, values={**BOARD, "user": "ada"}, json={}
    ),
    ("DELETE", "/leaderboards/{name}/members/{user}"): Route(
        who=Who.MANAGER, values={**BOARD, "user": "ada"}, status=404
    ),
    ("POST", "/leaderboards/{name}/members/import"): Route(
        who=Who.MANAGER, values=BOARD, json={"csv": "user\nada\n"}
    ),
    ("POST", "/courses"): Route(who=Who.CREATOR, json={"name": "new"}, status=201),
    ("GET", "/courses"): Route(who=Who.EVERYBODY),
    ("GET", "/courses/{name}"): Route(who=Who.COURSE, values=COURSE),
    ("PATCH", "/courses/{name}"): Route(who=Who.TEACHER, values=COURSE, json={"new_name": "other"}),
    ("DELETE", "/courses/{name}"): Route(who=Who.TEACHER, values=COURSE, query={"confirm": "closed"}),
    ("PUT", "/courses/{name}/leaderboards/{board}"): Route(
        who=Who.TEACHER, values={**COURSE, "board": "double"}
    ),
    ("DELETE", "/courses/{name}/leaderboards/{board}"): Route(
        who=Who.TEACHER, values={**COURSE, "board": "closed"}
    ),
    ("POST", "/courses/{name}/invites"): Route(who=Who.TEACHER, values=COURSE, json={}, status=201),
    ("GET", "/courses/{name}/grades"): Route(who=Who.TEACHER, values=COURSE),
    ("GET", "/courses/{name}/grades/me"): Route(who=Who.COURSE, values=COURSE),
    ("GET", "/courses/{name}/rules"): Route(who=Who.COURSE, values=COURSE),
    ("PUT", "/courses/{name}/rules"): Route(who=Who.TEACHER, values=COURSE, json={"rules": "correct 40"}),
    ("GET", "/courses/{name}/invites"): Route(who=Who.TEACHER, values=COURSE),
    ("GET", "/courses/{name}/members"): Route(who=Who.TEACHER, values=COURSE),
    ("POST", "/courses/{name}/members/import"): Route(
        who=Who.TEACHER, values=COURSE, json={"csv": "user\nada\n"}
    ),
    ("PUT", "/courses/{name}/members/{user}"): Route(
        who=Who.TEACHER, values={**COURSE, "user": "ada"}, json={}
    ),
    ("PUT", "/courses/{name}/late/{user}"): Route(
        who=Who.TEACHER, values={**COURSE, "user": "ada"}, json={"days": 3}, status=400
    ),
    ("DELETE", "/courses/{name}/members/{user}"): Route(who=Who.TEACHER, values={**COURSE, "user": "ada"}),
    ("GET", "/leaderboards/{name}/errors"): Route(who=Who.MANAGER, values=BOARD),
    ("GET", "/leaderboards/{name}/late"): Route(who=Who.MANAGER, values=BOARD),
    ("PUT", "/leaderboards/{name}/late/{user}"): Route(
        who=Who.MANAGER, values={**BOARD, "user": "ada"}, json=LATER
    ),
    ("DELETE", "/leaderboards/{name}/late/{user}"): Route(
        who=Who.MANAGER, values={**BOARD, "user": "ada"}, status=404
    ),
    ("POST", "/leaderboards/{name}/rejudge"): Route(who=Who.MANAGER, values=BOARD, json={"dry_run": True}),
    ("POST", "/jobs/{job_id}/quarantine"): Route(who=Who.MANAGER, values={"job_id": "1"}, json=REASON),
    ("GET", "/jobs/halted"): Route(who=Who.ADMIN),
    ("POST", "/submissions/{submission_id}/resume"): Route(who=Who.ADMIN, values=WAITING, status=404),
    ("GET", "/reviews"): Route(who=Who.CREATOR),
    ("GET", "/reviews/{review_id}"): Route(who=Who.MANAGER, values={"review_id": "1"}),
    ("POST", "/reviews/{review_id}/decision"): Route(
        who=Who.MANAGER, values={"review_id": "1"}, json={"decision": "rejected", "note": "a test"}
    ),
    ("POST", "/problem-sets/sync"): Route(
        who=Who.CREATOR, json={"repository": "/etc", "branch": "main"}, status=400
    ),
    ("GET", "/stats"): Route(who=Who.ADMIN),
    ("GET", "/leaderboards/{name}/code.zip"): Route(who=Who.MANAGER, values=BOARD),
    ("GET", "/events/{event}/dataset.zip"): Route(who=Who.ORGANISER, values=EVENT),
    ("GET", "/leaderboards/{name}/dataset.zip"): Route(who=Who.MANAGER, values=BOARD),
    ("GET", "/leaderboards/{name}/winners.zip"): Route(who=Who.MANAGER, values=BOARD),
    ("GET", "/leaderboards/{name}/likeness"): Route(who=Who.MANAGER, values=BOARD),
    ("GET", "/news"): Route(who=Who.EVERYBODY),
    ("GET", "/bell"): Route(who=Who.SIGNED_IN),
    ("PUT", "/bell"): Route(who=Who.SIGNED_IN, json={"wanted": False}),
    ("POST", "/bell/read"): Route(who=Who.SIGNED_IN, json={"until": 0}),
    ("GET", "/news/addressed"): Route(who=Who.ADMIN),
    ("GET", "/leaderboards/{name}/webhooks"): Route(who=Who.MANAGER, values=BOARD),
    ("POST", "/leaderboards/{name}/webhooks"): Route(
        who=Who.MANAGER, values=BOARD, json={"url": "https://93.184.215.14/hook"}, status=201
    ),
    ("POST", "/leaderboards/{name}/webhooks/{webhook_id}/enable"): Route(
        who=Who.MANAGER, values={**BOARD, "webhook_id": "1"}, status=404
    ),
    ("DELETE", "/leaderboards/{name}/webhooks/{webhook_id}"): Route(
        who=Who.MANAGER, values={**BOARD, "webhook_id": "1"}, status=404
    ),
}
