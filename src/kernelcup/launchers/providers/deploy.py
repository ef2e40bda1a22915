"""Write what a repository needs to judge with GitHub Actions."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernelcup.launchers.bundle import kept_bundle

HERE = Path(__file__).parent


def deploy_github(folder: Path) -> list[Path]:
    """Write the workflow, the program that it runs and the current harness into a checkout.

    Harnesses that are there already stay, for the jobs that were queued with them. Return the files.
    """
    workflow = folder / ".github/workflows/kernelcup.yml"
    program = folder / ".kernelcup/remote_job.py"
    for target, source in ((workflow, HERE / "workflow.yml"), (program, HERE / "remote_job.py")):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return [workflow, program, kept_bundle(program.parent)]
