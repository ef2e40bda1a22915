"""``kernelcup serve``: the HTTP API and the dispatcher."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelcup.cli import wiring
from kernelcup.cli.operate.bot import BotThread
from kernelcup.cli.options import ConfigOption
from kernelcup.cli.show.output import plain
from kernelcup.errors import Conflict, InvalidValue, KernelCupError, StorageUnavailable

if TYPE_CHECKING:
    from kernelcup.app.queue.progress import Progress
    from kernelcup.config.settings import Config
    from kernelcup.engine.database import Database
    from kernelcup.http.server import WebServer, Workers
    from kernelcup.http.state import Platform

WATCH_S = 1.0
CHECK_IN_S = 15.0
"""How often a server without a judge gives a sign of life."""
HTTP_PATIENCE_S = 5.0
"""How long requests wait for a busy database; the dispatcher waits longer."""


def serve(
    config: ConfigOption = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Only judge, and exit when the queue is empty.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default: [server] host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; default: [server] port. 0 picks a free port.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Processes that serve HTTP; default: [server] processes."),
    ] = None,
    http: Annotated[bool, typer.Option("--http/--no-http", help="Serve the HTTP API.")] = True,
    judge: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Judge on this machine's devices.")
    ] = True,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="On a stop signal, let running jobs finish; on a second one, hand them back."
        ),
    ] = False,
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
    fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve the HTTP API and judge submissions, until stopped.

    Serves all devices of this machine. Several servers may share one database, each on its own
    port or with --no-http. If a server is killed, another one takes over its jobs.
    """
    if log_format not in ("text", "json"):
        raise InvalidValue(f"--log-format {log_format}: expected text or json")
    settings = wiring.load_config(config)
    given = settings.server
    server = replace(
        given,
        host=given.host if host is None else host,
        port=given.port if port is None else port,
        processes=processes or given.processes,
    )
    settings = replace(settings, server=server)
    with wiring.open_database(settings) as db:
        if until_idle:
            dispatcher = wiring.make_dispatcher(settings, db, log)
            announce(settings, db)
            dispatcher.run_until_idle()
            return
        if fd is not None:
            serve_socket(settings, fd, as_json=log_format == "json")
            return
        service = Service(settings, db, with_http=http, as_json=log_format == "json", config_file=config)
        service.run(judge=judge, drain=drain)


class Service:
    """Everything that one `kernelcup serve` runs: HTTP in this process or in others, and the dispatcher."""

    def __init__(
        self, settings: Config, db: Database, *, with_http: bool, as_json: bool, config_file: Path | None
    ) -> None:
        self._settings = settings
        self._db = db
        self._with_http = with_http
        self._as_json = as_json
        self._config_file = config_file
        self._stop = threading.Event()
        self._at_once = threading.Event()
        self._door_closed = False
        self._port = settings.server.port

    def run(self, *, judge: bool, drain: bool) -> None:
        """Serve until a signal comes. Raise ``ConfigError``, ``KernelCupError`` if the web server dies."""
        from kernelcup.http import logs
        from kernelcup.http.server import raise_file_limit

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        raise_file_limit()
        if self._with_http or self._as_json:
            logs.set_up(as_json=self._as_json)
        told = partial(log, as_json=self._as_json)
        with contextlib.ExitStack() as parts:
            dispatcher = None
            if judge:
                dispatcher = wiring.make_dispatcher(self._settings, self._db, told, serving=parts)
            if self._with_http:
                self._open_doors(parts)
            self._open_newsroom(parts)
            if dispatcher is not None:
                announce(self._settings, self._db)
                at_once, gently = (self._at_once, self._stop) if drain else (self._stop, None)
                dispatcher.run_forever(at_once, drain=gently)
            else:
                self._check_in_until_stopped()
        if self._door_closed:
            raise KernelCupError("the web server stopped unexpectedly; see the end of the log")

    def _check_in_until_stopped(self) -> None:
        """Record that a server without a judge uses the database, so that no backup is restored meanwhile."""
        from kernelcup.app.machines import dispatchers
        from kernelcup.app.machines.process_identity import current_owner

        owner, began = current_owner(), datetime.now(UTC)
        while not self._stop.is_set():
            with contextlib.suppress(StorageUnavailable):  # the next one comes soon
                dispatchers.check_in(
                    self._db, owner=owner, devices=(), started_at=began, draining=False, now=datetime.now(UTC)
                )
            self._stop.wait(CHECK_IN_S)
        with contextlib.suppress(StorageUnavailable):
            dispatchers.check_out(self._db, owner)

    def _on_signal(self, *_: object) -> None:
        if self._stop.is_set():
            self._at_once.set()
        self._stop.set()

    def _open_doors(self, parts: contextlib.ExitStack) -> None:
        from kernelcup.http.server import WebServer, listen, url_of
        from kernelcup.http.state import cookie_secret

        server = self._settings.server
        cookie_secret(self._settings)
        _ = self._settings.signin  # report configuration errors before listening
        sock = listen(server.host, server.port, shared=server.processes > 1)
        parts.callback(sock.close)
        self._port = sock.getsockname()[1]
        parts.enter_context(wiring.saying_address(self._settings, url_of(sock)))
        if server.processes == 1:
            db = parts.enter_context(open_for_http(self._settings))
            web = WebServer(make_platform(self._settings, db, sock), sock)
            parts.callback(web.stop)
            web.wait_until_ready()
            self._watch_over(web, parts)
        else:
            self._start_workers(parts, sock)
        typer.echo(f"listening on {url_of(sock)}")
        address = wiring.address_of(
            replace(self._settings, server=replace(server, port=self._port)), typer.echo
        )
        typer.echo(f"web site: {address}/")
        offer_sign_in(self._settings, self._db, address)
        self._start_bot(parts, url_of(sock))

    def _open_newsroom(self, parts: contextlib.ExitStack) -> None:
        from kernelcup.app import upkeep
        from kernelcup.app.news.delivery import Postman
        from kernelcup.app.news.newsroom import Newsroom
        from kernelcup.http.outgoing import HttpSender
        from kernelcup.http.state import utc_now

        postman = Postman(
            db=self._db,
            sender=HttpSender(),
            clock=utc_now,
            public_url=replace(self._settings.server, port=self._port).public_url,
            own_networks=self._settings.webhook_networks,
        )
        chat, folder = self._settings.environ.get("KERNELCUP_ALERTS"), self._settings.data_dir
        send = partial(postman.tell, chat) if chat else None
        tell = partial(upkeep.tell, self._db, server=postman.public_url, home=folder, send=send)
        newsroom = Newsroom(self._db, postman, clock=utc_now, tell_problems=tell)
        newsroom.start()
        parts.callback(newsroom.stop)

    def _start_bot(self, parts: contextlib.ExitStack, url: str) -> None:
        from kernelcup.bot.context import is_configured

        if is_configured(self._settings.environ):
            parts.callback(BotThread(self._settings, url).stop)
            typer.echo("the Discord bot has started")

    def _watch_over(self, web: WebServer, parts: contextlib.ExitStack) -> None:
        watcher = threading.Thread(target=self._end_with, args=[web], name="web-watcher", daemon=True)
        watcher.start()
        parts.callback(watcher.join)
        parts.callback(self._stop.set)

    def _end_with(self, web: WebServer) -> None:
        """Stop everything if the web server dies, so that the service manager restarts it."""
        while not self._stop.wait(WATCH_S):
            if not web.is_alive:
                self._door_closed = True
                self._stop.set()

    def _start_workers(self, parts: contextlib.ExitStack, sock: socket.socket) -> None:
        from kernelcup.http.server import Workers, listen

        given = ["--config", str(self._config_file)] if self._config_file is not None else []
        server = self._settings.server
        command = ["serve", *given, "--host", server.host, "--port", str(sock.getsockname()[1])]
        command += ["--log-format", "json" if self._as_json else "text", "--fd", "{fd}"]
        port = sock.getsockname()[1]
        others = [listen(server.host, port, shared=True) for _ in range(server.processes - 1)]
        for other in others:
            parts.callback(other.close)
        workers = Workers(command=command, socks=[sock, *others])
        parts.callback(workers.stop)
        workers.start()
        watcher = threading.Thread(target=self._watch, args=[workers], name="workers", daemon=True)
        watcher.start()
        parts.callback(watcher.join)
        parts.callback(self._stop.set)

    def _watch(self, workers: Workers) -> None:
        while not self._stop.wait(WATCH_S):
            workers.look()


def open_for_http(settings: Config) -> Database:
    """Return the database for HTTP requests."""
    from kernelcup.engine.database import Database

    files = wiring.files_of(settings)
    return Database.open(settings.database_url, patience_s=HTTP_PATIENCE_S, files=files)


def announce(settings: Config, db: Database) -> None:
    """Log which devices and which database are served."""
    names = ", ".join(device.name for device in settings.devices)
    typer.echo(f"serving {names} from {db.engine.url!r}")


def serve_socket(settings: Config, fd: int, *, as_json: bool) -> None:
    """Serve HTTP from a socket of the parent process, and end with it."""

    from kernelcup.http import logs
    from kernelcup.http.server import WebServer

    parent = os.getppid()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    logs.set_up(as_json=as_json)
    sock = socket.socket(fileno=fd)
    with open_for_http(settings) as db:
        web = WebServer(make_platform(settings, db, sock), sock)
        while not stop.wait(WATCH_S) and web.is_alive and os.getppid() == parent:
            pass
        web.stop()


def make_platform(settings: Config, db: Database, sock: socket.socket) -> Platform:
    """Return the state of the routes; port 0 becomes the port that the socket got."""

    from kernelcup.http.state import Platform, Steps, cookie_secret

    server = replace(settings.server, port=sock.getsockname()[1])
    steps = Steps()
    return Platform(
        db=db,
        config=replace(settings, server=server),
        secret=cookie_secret(settings),
        trial=wiring.make_trial(settings, steps.say),
        steps=steps,
    )


def offer_sign_in(settings: Config, db: Database, url: str) -> None:
    """Without a sign-in provider, print a one-time link that signs in as the admin.

    Where others reach the server too, say which command prints it: what is printed here may go to a log.
    """
    from kernelcup.app.people import login_links

    if settings.signin:
        return
    if not settings.server.is_loopback:
        typer.echo("sign in as admin: `kernelcup admin user link` on this machine prints a link")
        return
    try:
        link = login_links.make_admin_link(db, now=datetime.now(UTC), server=url)
    except Conflict as error:  # the service does not depend on a name
        typer.echo(f"no link to sign in: {error} `kernelcup admin user link NAME` prints one for an admin")
        return
    typer.echo(f"sign in as admin, once, within 15 minutes: {link.url}")


def log(progress: Progress, *, as_json: bool = False) -> None:
    """Print one line for each step of a job, or log a structured record."""
    if (told := step_text(progress)) is None:
        return
    job = getattr(progress, "job", None)
    if as_json:
        import structlog

        facts = (
            {} if job is None else {"job": job.id, "attempt": job.attempt, "submission": job.submission_id}
        )
        structlog.get_logger("kernelcup.jobs").info(told, **facts)
        return
    if job is not None:
        where = f"submission {job.submission_id}, {job.device}, {job.mode.value}"
        told = f"job {job.id}.{job.attempt} ({where}): {told}"
    typer.echo(plain(told))


def step_text(progress: Progress) -> str | None:
    """Describe a step; None if it is not worth a line."""
    from kernelcup.app.queue import progress as steps

    match progress:
        case steps.JobStarted():
            return "started"
        case steps.JobProgress(event={"event": "stage_end", "stage": stage, "verdict": verdict}):
            return f"{stage} stage: {verdict}"
        case steps.JobFinished(run=run):
            return f"{run.verdict.value} after {run.report.duration_s:.1f} s"
        case steps.JobRetried(reason=reason):
            return f"will be tried again: {reason}"
        case steps.JobReturned(reason=reason):
            return f"waits again: {reason}"
        case steps.GpuOut(fault=fault):
            return f"GPU {fault.gpu} is out of service: {fault.reason}"
        case steps.GpuBack(fault=fault):
            return f"GPU {fault.gpu} is in service again"
        case steps.JobDropped():
            return "dropped: it was cancelled, deleted or taken over"
        case _:
            return None
