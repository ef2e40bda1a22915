"""The process that decides: started by the runner, serves one job."""

from __future__ import annotations

import os
import socket

from kernelcup_harness.judge.fork_server import ForkServer
from kernelcup_harness.run import startup
from kernelcup_harness.wire.channel import Channel

MAX_CONTESTANT_FRAME = 16 << 20


# Imported before a job arrives. What only a timed job needs comes with it, or while the judge waits.
AHEAD = ("kernelcup_harness.judge.main",)


# Imported while the judge waits: the clocks, then what ``torch.use_deterministic_algorithms`` imports, which most
# references call: 900 modules, three to seven seconds of the first job that needs them. What these import comes first,
# in parts: a job that arrives meanwhile waits for one of them.
NEEDED = "torch._inductor.config"
WHILE_IDLE = (
    "kernelcup_harness.judge.timed",
    "mpmath",
    "sympy",
    "torch.fx.experimental.symbolic_shapes",
    "triton.language",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    NEEDED,
)


def main(runner_fd: str, parent: str, *contestant_fds: str) -> None:
    """Judge one job: the runner on one socket, each contestant on one of the others."""
    # Threads that wait for work must not keep the contestant from the processors that it is timed on.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    servers: list[ForkServer] = []
    job = startup.wait_as_judge(
        runner_fd,
        parent,
        *contestant_fds,
        ahead=AHEAD,
        while_idle=WHILE_IDLE,
        before_device=lambda: servers.append(ForkServer(check_answers)),
    )
    channels = {
        role: Channel.from_fd(fd, max_bytes=MAX_CONTESTANT_FRAME, max_fds=0)
        for role, fd in job.contestants.items()
    }
    if job.spec.multi_gpu:
        from kernelcup_harness.ranks import main as ranks

        ranks.judge(job.spec, job.secret, job.runner, channels)
        return
    from kernelcup_harness.judge.main import judge

    judge(job.spec, job.secret, job.runner, channels, *servers)


def check_answers(end: socket.socket) -> None:
    """Be the judge's checker."""
    from kernelcup_harness.judge.checker import serve

    serve(end)
