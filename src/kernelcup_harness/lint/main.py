"""The process that tests a task: it gives null submissions to the task's own checker.

There is no contestant. As in the judge, the task's code is not trusted: it runs in the judge's sandbox,
and findings go to the runner one by one, so that none is lost when the process is cut off.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.job_environment import compiler_environment
from kernelcup_harness.lint.messages import MAX_TEXT, Fault, LintJob
from kernelcup_harness.submission import languages
from kernelcup_harness.submission.cuda import libraries, options
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import End, pack, unpack

MAX_JOB_FRAME = 256 << 20


def main(runner_fd: str, parent: str) -> None:
    """Test one task; ``runner_fd`` is the socket to the runner."""
    processes.die_with_parent(int(parent))
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_JOB_FRAME)
    job = unpack(LintJob, runner.receive())
    spec = job.spec
    sys.path.insert(0, os.getcwd())
    if not languages.of(spec.reference_module).runs_code:
        architecture = compiler_environment(spec.backend, os.environ)
        os.environ |= architecture | options.of_leaderboard(spec.cuda, spec.sources[spec.reference_module])
        os.environ[libraries.VARIABLE] = ",".join(spec.libraries)
    if os.environ.get("KERNELCUP_EMULATED") == "1":
        from kernelcup_harness.device.emulated import emulation

        emulation.install()
    with processes.uncollected():
        from kernelcup_harness.core.task import TaskCode, TaskFault
        from kernelcup_harness.explain import chips
        from kernelcup_harness.lint.task_lint import TaskLint
        from kernelcup_harness.submission import salt

    salt.install()
    try:
        task = TaskCode(
            spec.reference_module,
            spec.check_style,
            Path.cwd(),
            load=languages.task_functions,
            lacks=chips.missing,
            salted=salt.salted,
        )
    except TaskFault as fault:
        runner.send(pack(Fault(text=str(fault)[:MAX_TEXT])))
    else:
        TaskLint(task, spec, runner).run(nulls=job.nulls)
    runner.send(pack(End()))
