"""Write what a repository needs to judge with GitHub Actions."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernelcup.errors import InvalidValue
from kernelcup.launchers import remote_job
from kernelcup.launchers.base import LauncherSettings
from kernelcup.launchers.bundle import kept_bundle

WORKFLOW = Path(__file__).with_name("workflow.yml")


def deploy(settings: LauncherSettings, folder: Path | None) -> list[str]:  # noqa: ARG001
    """Write into a checkout, and return the names of the files. Raise ``InvalidValue`` without a folder."""
    if folder is None:
        raise InvalidValue("FOLDER: expected a checkout of the repository")
    return [str(path.relative_to(folder)) for path in write_into(folder)]


def write_into(checkout: Path) -> list[Path]:
    """Write the workflow, the program that it runs and the current harness, and return the files.

    Harnesses that are there already stay, for the jobs that were queued with them.
    """
    workflow = checkout / ".github/workflows/kernelcup.yml"
    program = checkout / ".kernelcup/remote_job.py"
    for target, source in ((workflow, WORKFLOW), (program, remote_job.__file__)):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return [workflow, program, kept_bundle(program.parent)]
