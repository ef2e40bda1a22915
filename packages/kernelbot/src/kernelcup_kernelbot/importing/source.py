"""KernelBot's tables, as they are in one state of its database."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from kernelcup.engine.database import make_engine, trouble_of
from kernelcup.errors import InvalidValue, StorageUnavailable

SCHEMA = "leaderboard"
NEEDED = ("user_info", "leaderboard", "gpu_type", "code_files", "submission", "runs")
OTHERS = (
    "templates",
    "submission_job_status",
    "leaderboard_invite",
    "leaderboard_invite_scope",
    "rate_limit",
)
"""Older databases lack some of them."""
OLDER = {"submission_job_status": "(SELECT 0 AS submission_id, '' AS status LIMIT 0)"}
"""What stands for a table that is read and that they lack."""

EXPELLED = "expelled at KernelBot"
FAILED, UNCONFIRMED = "failed a secret run at KernelBot", "no secret run of it passed at KernelBot"
IS_TIME = "score BETWEEN 1e-300 AND 1e300"
"""The condition for a score that can be a time in seconds; a column may hold 0, infinity and no number."""
SCORES = f"""
SELECT s.id, s.leaderboard_id, s.user_id, run.runner, run.score,
    CASE WHEN ({{status}} <> 'hacked') IS NOT TRUE OR expelled.id IS NOT NULL THEN '{EXPELLED}'
         WHEN secret.failed THEN '{FAILED}'
         WHEN secret.passed IS NOT TRUE THEN '{UNCONFIRMED}' END AS reason
FROM {{runs}} run JOIN {{submission}} s ON s.id = run.submission_id
LEFT JOIN (
    SELECT submission_id, runner, bool_or(NOT passed) AS failed, bool_or(passed AND mode = 'leaderboard') AS passed
    FROM {{runs}} WHERE secret GROUP BY submission_id, runner
) secret ON secret.submission_id = run.submission_id AND secret.runner = run.runner
LEFT JOIN (
    SELECT DISTINCT submission_id AS id FROM {{submission_job_status}} job WHERE status = 'hacked'
) expelled ON expelled.id = s.id
WHERE NOT run.secret AND run.passed AND run.score IS NOT NULL AND run.runner IS NOT NULL
"""
"""KernelBot's rule: the scores of public runs of any mode, each with the reason not to rank, null for one that ranks.

It is KernelBot's alone and asks nothing of ours, and it is all that says here what ranks there. It is written for
tables without an index on the submission of a run, and so that over our views no report has to be read.
"""
PLACES = f"""
SELECT leaderboard_id, runner, user_id, min(id) AS id, CAST(min(score) AS float) AS score_s,
    rank() OVER (PARTITION BY leaderboard_id, runner ORDER BY min(score)) AS place
FROM ({SCORES}) scores WHERE reason IS NULL AND {IS_TIME} AND {{which}}
GROUP BY leaderboard_id, runner, user_id
"""
"""Each user's place by that rule, among some submissions."""
Where = Sequence[sa.ColumnElement[bool]]


class Source:
    """Reads in one transaction, so that all its tables fit together.

    Raises:
        InvalidValue: The schema has no tables of KernelBot.
    """

    def __init__(self, connection: sa.Connection, schema: str = SCHEMA) -> None:
        self._connection = connection
        known = set(sa.inspect(connection).get_table_names(schema=schema))
        if missing := [name for name in NEEDED if name not in known]:
            raise InvalidValue(
                f"{connection.engine.url!r}: schema {schema!r} has no table {missing[0]!r}; "
                "name the database of KernelBot, and its schema with --schema if it was renamed."
            )
        here = [name for name in (*NEEDED, *OTHERS) if name in known]
        tables = sa.MetaData()
        tables.reflect(connection, schema=schema, only=here, resolve_fks=False)
        self.tables = {name: tables.tables[f"{schema}.{name}"] for name in here}

    def column(self, table: str, name: str) -> sa.ColumnElement[Any]:
        """Return a column, or a null of its name where an older schema has none."""
        found = self.tables[table].c.get(name)
        return sa.null().label(name) if found is None else found

    def rows(self, table: str, *names: str, where: Where = (), order: Sequence[str] = ()) -> list[Any]:
        """Return columns of all rows; nothing if there is no such table."""
        if table not in self.tables:
            return []
        return list(self._connection.execute(self._select(table, names, where, order)))

    def pages(
        self, table: str, *names: str, where: Where = (), order: Sequence[str] = ("id",), size: int
    ) -> Generator[Sequence[Any], None, None]:
        """Yield columns of all rows in an order, so many at a time; to be closed."""
        query = self._select(table, names, where, order).execution_options(yield_per=size)
        with self._connection.execute(query) as found:
            yield from found.partitions()

    def _select(self, table: str, names: Sequence[str], where: Where, order: Sequence[str]) -> sa.Select[Any]:
        query = sa.select(*(self.column(table, name) for name in names)).where(*where)
        return query.order_by(*(self.column(table, name) for name in order))

    def text(self, query: str, **words: str) -> sa.TextClause:
        """Return a statement in which names in braces stand for :attr:`tables`, or for these words."""
        names = {name: f'"{table.schema}"."{name}"' for name, table in self.tables.items()}
        has_status = "status" in self.tables["submission"].c  # else it is from before the first was expelled
        return sa.text(
            query.format(**{**OLDER, **names, "status": "s.status" if has_status else "'active'"}, **words)
        )

    def execute(self, query: Any, values: Any = None) -> Any:
        """Run a query over :attr:`tables`."""
        return self._connection.execute(query, values)

    def attempt(self) -> sa.NestedTransaction:
        """Begin a part that can be rolled back by itself."""
        return self._connection.begin_nested()


@contextmanager
def opened(url: str, schema: str = SCHEMA, *, writes: bool = False) -> Iterator[Source]:
    """Open KernelBot's database for reading; or for writing, which is stored at the end unless there is an error.

    Raises:
        InvalidValue: It is no PostgreSQL database, or not KernelBot's.
        StorageUnavailable: It cannot be reached.
    """
    engine = make_engine(url)
    if engine.dialect.name != "postgresql":
        raise InvalidValue(f"{engine.url!r}: KernelBot's database is PostgreSQL: postgresql://USER@HOST/NAME")
    reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    try:
        with engine.begin() if writes else reading.connect() as connection:
            yield Source(connection, schema)
    except OperationalError as error:
        raise StorageUnavailable(f"{engine.url!r}: {trouble_of(engine.url, error.orig)}") from error
    finally:
        engine.dispose()


def moment(value: datetime | None, otherwise: datetime) -> datetime:
    """Return a stored time in UTC; most of KernelBot's columns have no zone."""
    if value is None:
        return otherwise
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
