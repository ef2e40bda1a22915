"""The process that decides: started by the runner, serves one job."""

from __future__ import annotations

import os

from kernelcup_harness.judge.main import Judge
from kernelcup_harness.run import startup
from kernelcup_harness.wire.channel import Channel

MAX_CONTESTANT_FRAME = 16 << 20


# Imported before a job arrives.
AHEAD = (
    "kernelcup_harness.audit.bench",
    "kernelcup_harness.device.calibration",
    "kernelcup_harness.judge.answers",
    "kernelcup_harness.judge.caller",
    "kernelcup_harness.judge.checks",
    "kernelcup_harness.device.memory",
    "kernelcup_harness.device.machine",
    "kernelcup_harness.judge.task",
)


# Imported while the judge waits. ``torch.use_deterministic_algorithms``, which most references call, imports it
# and 900 modules with it: three to seven seconds of the first job that needs it. What it imports comes first, in parts:
# a job that arrives meanwhile waits for one of them.
NEEDED = "torch._inductor.config"
WHILE_IDLE = (
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
    job = startup.wait_as_judge(runner_fd, parent, *contestant_fds, ahead=AHEAD, while_idle=WHILE_IDLE)
    channels = {
        role: Channel.from_fd(fd, max_bytes=MAX_CONTESTANT_FRAME, max_fds=0)
        for role, fd in job.contestants.items()
    }
    from kernelcup_harness.audit.bench import Bench

    Judge(job.spec, job.secret, job.runner, channels, Bench).judge()
