"""Words of ``kernelcup course``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kernelcup.app.courses import courses, extensions, grades, membership
from kernelcup.cli.admin import members
from kernelcup.cli.admin.limits import PEOPLE
from kernelcup.cli.operations import Answer, commands_of, echo, listed, say
from kernelcup.cli.show.output import fields
from kernelcup.errors import NotFound

ORDER = (
    "create",
    "list",
    "show",
    "update",
    "delete",
    "add",
    "remove",
    "import",
    "members",
    "invite",
    "invites",
)


commands = partial(commands_of, "course", by_hand={"import": members.import_into_course}, order=ORDER)


def course_text(answer: Answer) -> str:
    """Return one line about a course."""
    return _line(answer.value)


def _line(view: courses.CourseView) -> str:
    joined = f"; {view.joined} of {view.people} have joined" if view.managed else ""
    return f"{view.name}, by {view.creator}: {', '.join(view.leaderboards) or 'no leaderboards yet'}{joined}"


def rules_lines(answer: Answer) -> Iterable[str]:
    """Return what a change of rules does to the points."""
    done = answer.value
    yield from (f"note: {each}" for each in done.notes)
    for each in done.changes:
        before, after = ("none" if points is None else f"{points:g}" for points in (each.before, each.after))
        yield f"{each.leaderboard}  {each.label or each.user}: {before} -> {after}"
    told = f"{len(done.changes)} grades change"
    yield f"{told}; nothing is changed yet" if done.dry_run else told


LIST = "kernelcup course list"
say(grades.grades, lambda answer: grades.as_csv(answer.value).splitlines(), listed("grades", course="name"))
say(
    grades.own_grades,
    lambda answer: (
        [f"{each.leaderboard}: {each.because}" for each in answer.value]
        or ["You are in no register of this course."]
    ),
    listed("grades", course="name"),
)
say(
    grades.rules,
    lambda answer: (
        answer.value.splitlines()
        or [
            f"No rules. Next: kernelcup course set-rules {answer.given['name']} 'correct 40; reference 1.0 60'"
        ]
    ),
    lambda answer: {"course": answer.given["name"], "rules": answer.value},
)
say(
    grades.set_rules,
    rules_lines,
    lambda answer: {
        "dry_run": answer.value.dry_run,
        "notes": answer.value.notes,
        "changes": [fields(each) for each in answer.value.changes],
    },
)
for _call in (courses.create, courses.show, courses.rename, courses.add_board, courses.remove_board):
    say(_call, course_text, next_step=lambda answer: {NotFound: f"{LIST}{answer.option}"})
say(
    courses.list_courses,
    lambda answer: (
        map(_line, answer.value) if answer.value else ["No courses. Next: kernelcup course create NAME"]
    ),
    listed("courses"),
)
say(courses.delete, "{name} is deleted; its leaderboards stay", echo(deleted="name"))
say(
    extensions.extend,
    lambda answer: [f"{each.leaderboard}: until {each.until:%Y-%m-%d %H:%M} UTC" for each in answer.value],
    listed("extensions", course="name"),
    lambda answer: {NotFound: f"kernelcup course members {answer.given['name']}{answer.option}"},
)
say(
    membership.make_course_invites,
    members.code_lines,
)
say(
    membership.list_course_invites,
    members.invite_lines,
    listed("invites", members.invite_object, course="name"),
)
say(membership.course_members, members.member_lines, listed("members", members.member_object, course="name"))
say(
    membership.add_course_member,
    "{user} is a member of {name}",
    echo(course="name", user="user"),
    lambda _: {NotFound: PEOPLE},
)
say(
    membership.remove_course_member,
    "{user} is no longer a member of {name}",
    echo(course="name", removed="user"),
    lambda answer: {NotFound: f"kernelcup course members {answer.given['name']}{answer.option}"},
)
