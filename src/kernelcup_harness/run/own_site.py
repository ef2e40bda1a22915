"""The code that Python runs at its start under a task's own harness."""

from __future__ import annotations

# Runs in every Python process below: emulation if it is asked for; in the first process also the
# limits and the tie to the runner. It replaces nothing of the task's.
SITE_CUSTOMIZE = """\
import os, sys
if os.environ.pop("KERNELCUP_PARENT", None) in ("0", str(os.getppid())):
    import ctypes, resource
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = int(os.environ["KERNELCUP_MEMORY"])
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if os.environ.get("KERNELCUP_ENVIRONMENT"):
    import site
    site.addsitedir(os.path.join(os.environ["KERNELCUP_ENVIRONMENT"], "site"))
if os.environ.get("KERNELCUP_EMULATED") == "1":
    sys.path.insert(0, os.environ["KERNELCUP_HARNESS"])
    from kernelcup_harness.device.emulated import emulation
    sys.path.remove(os.environ["KERNELCUP_HARNESS"])
    emulation.install()
"""
