"""Write where later jobs, or the judge, would read; right only if one of them worked. Cleans up."""

import os
import sys
import sysconfig

import torch


def can_write(folder):
    path = os.path.join(folder, "kernelcup_attack_was_here.py")
    try:
        with open(path, "w") as file:
            file.write("# planted\n")
        os.unlink(path)
    except OSError:
        return False
    print("wrote to", folder)
    return True


def can_change(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError:
        return False
    print("could change", path)
    return True


def found():
    harness = os.path.dirname(sys.modules["kernelcup_harness"].__file__)
    folders = [*sysconfig.get_paths().values(), harness, sys.prefix, sys.base_prefix, "/usr/lib", "/usr/local/lib"]
    folders += [path for path in sys.path if os.path.isdir(path) and path != os.getcwd()]
    files = [torch.__file__, os.path.join(harness, "judge.py"), "/etc/ld.so.cache", sys.executable]
    return any([can_write(folder) for folder in folders] + [can_change(file) for file in files])


FOUND = found()


def custom_kernel(data):
    a, b = data
    return a + b if FOUND else torch.zeros_like(a)
