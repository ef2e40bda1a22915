"""A schema of views over our tables, for what reads KernelBot's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from kernelcup.app.results.queries.ranking_query import RANKED_S
from kernelcup.app.results.queries.ruling import counts
from kernelcup.engine import Database
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.tables import LeaderboardRow
from kernelcup_kernelbot.importing import people
from kernelcup_kernelbot.importing.source import FAILED, UNCONFIRMED

RUN = """
SELECT
    runs.id * 10 + {number} AS id, jobs.submission_id,
    runs.started_at AS start_time, runs.finished_at AS end_time, '{mode}' AS mode, {secret} AS secret,
    jobs.device AS runner, ({score})::text::numeric AS score, {passed} AS passed,
    CASE WHEN runs.verdict = 'compile_error'
         THEN jsonb_build_object('success', false, 'stderr', runs.report ->> 'message') END AS compilation,
    jsonb_build_object(
        'success', runs.verdict IN ('accepted', 'wrong_answer'), 'exit_code', runs.report -> 'exit_code',
        'stdout', runs.report -> 'stdout' ->> 'text', 'stderr', runs.report -> 'stderr' ->> 'text') AS meta,
    {schema}.result({schema}.stage(runs.report, '{stage}'), '{family}') AS result,
    jsonb_build_object(
        'gpu', coalesce(runs.report -> 'environment' ->> 'device', jobs.device),
        'hostname', runs.host_class) AS system_info
FROM public.runs
JOIN public.jobs ON jobs.id = runs.job_id
JOIN public.submissions ON submissions.id = jobs.submission_id AND submissions.client NOT IN ('compare', 'final')
LEFT JOIN public.leaderboards ON leaderboards.id = submissions.leaderboard_id
WHERE runs.counted AND {where}
"""
"""One run of KernelBot's kind. What is constant in it keeps the database from reading reports that a query excludes."""

STAGES = (
    ("test", "test", "test"),
    ("benchmark", "benchmark", "benchmark"),
    ("leaderboard", "ranked", "benchmark"),
)
"""Mode, stage, and how keys of its figures begin."""

OURS = "views of KernelCup"
"""The comment of the schema, by which it is known."""


def make(db: Database, schema: str) -> None:
    """Make the views, in the place of those that are there.

    Raises:
        InvalidValue: The database is SQLite, or the name cannot be used.
        Conflict: The schema is another one, for example KernelBot's own.
    """
    _check(db, schema)
    with db.write() as session:
        _drop(session, schema)
        fill(session, schema)


def fill(session: Session, schema: str) -> None:
    """Make the views in a schema that is not there yet."""
    script = resources.files(__package__).joinpath("views.sql").read_text("utf-8")
    filled = script.format(
        schema=schema,
        runs=" UNION ALL ".join(_runs(schema)),
        unranked=f"'{FAILED}', '{UNCONFIRMED}'",
        token=people.TOKENS["web_auth_id"][1],
        scopes=people.USUAL,
    ).replace("%", "%%")
    session.connection().exec_driver_sql(filled)


def remove(db: Database, schema: str) -> bool:
    """Remove the views, and return whether there were any. Raises like :func:`make`."""
    _check(db, schema)
    with db.write() as session:
        return _drop(session, schema)


def _check(db: Database, schema: str) -> None:
    if db.engine.dialect.name != "postgresql":
        raise InvalidValue(
            "Only PostgreSQL has schemas: `kernelcup db copy` brings the data of this SQLite file there."
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema) or schema.startswith("pg_"):
        raise InvalidValue(f"--schema {schema}: expected small letters, digits and '_'")


def _drop(session: Session, schema: str) -> bool:
    query = text("SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = :name")
    found = session.execute(query, {"name": schema}).first()
    if found is None:
        return False
    if found[0] != OURS:
        raise Conflict(
            f"The schema {schema!r} is not made of these views: it may be KernelBot's own. Rename it "
            f"(ALTER SCHEMA {schema} RENAME TO {schema}_old), or give another name with --schema."
        )
    session.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    return True


def _runs(schema: str) -> Iterator[str]:
    """Yield the parts of the view of runs; the dataset's export takes the ranked run that is secret."""
    frozen_at: Any = LeaderboardRow.freeze_at
    score = f"CASE WHEN {_sql(counts(since=frozen_at))} THEN {_sql(RANKED_S)} END"
    for number, secret in enumerate(("false", "true")):
        timed = {"number": number, "mode": "leaderboard", "stage": "ranked", "family": "benchmark"}
        yield RUN.format(
            schema=schema,
            secret=secret,
            score=score,
            passed="true",
            where="runs.score_s IS NOT NULL",
            **timed,
        )
    for number, (mode, stage, family) in enumerate(STAGES, 2):
        body = f"{schema}.stage(runs.report, '{stage}')"
        where = f"{body} IS NOT NULL" + (" AND runs.score_s IS NULL" if stage == "ranked" else "")
        passed = "false" if stage == "ranked" else f"{body} ->> 'verdict' = 'accepted'"
        named = {"number": number, "mode": mode, "stage": stage, "family": family}
        yield RUN.format(schema=schema, secret="false", score="NULL", passed=passed, where=where, **named)


def _sql(condition: Any) -> str:
    """Return an expression over our tables as text: what counts is said in one place."""
    dialect: Any = postgresql
    return str(condition.compile(dialect=dialect.dialect(), compile_kwargs={"literal_binds": True}))
