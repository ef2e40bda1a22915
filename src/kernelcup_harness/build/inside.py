"""The parts of a build that run inside the sandbox: import and pack, unpack and continue.

An archive is a line that names the format, for each file a line of JSON and its content, and a last
line with the number of files. Only plain files are packed. Outside of the sandboxes an archive is opaque
bytes: it is packed beside code of a submission, which may have forged it.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn

from kernelcup_harness.build import compilers
from kernelcup_harness.isolation import environments, processes
from kernelcup_harness.isolation.job_environment import BUILD_FOLDERS, CUDA_MARKS
from kernelcup_harness.protocol import is_plain_name

FORMAT = b"kernelcup-build 1\n"
MAX_LINE = 16 << 10
# torch waits for ever for a stale lock, and a packed build is not being worked on.
LEFT_OUT = "lock"


def main(archive_fd: str, file: str, parent: str, memory_bytes: str) -> None:
    """Import a submission in a separate process, then pack its build, even if the import failed."""
    processes.die_with_parent(int(parent))
    packer = os.getpid()
    importer = os.fork()
    if importer == 0:
        os.close(int(archive_fd))
        processes.die_with_parent(packer)
        import_submission(file, int(memory_bytes) or None)
    _, status = os.waitpid(importer, 0)
    with open(int(archive_fd), "wb") as target:
        pack(target, os.environ)
    sys.exit(1 if status else 0)


def import_submission(file: str, memory_bytes: int | None) -> NoReturn:
    """Import it as the contestant would, and exit."""
    from kernelcup_harness.submission import languages
    from kernelcup_harness.submission.cuda import inline, libraries

    processes.limit_resources(memory_bytes)
    sys.path.insert(0, os.getcwd())
    environments.use(os.environ)
    code = 0
    # User code may raise anything. Only `_exit` does not wait for its threads.
    try:
        if os.environ.get("KERNELCUP_EMULATED") == "1":
            from kernelcup_harness.device.emulated import emulation

            emulation.install()
            inline.install()
            if nvcc := libraries.find_nvcc(os.environ):
                os.environ["PYTORCH_NVCC"] = nvcc
        if any(mark in Path(file).read_text(encoding="utf-8") for mark in CUDA_MARKS):
            os.environ.update(compilers.install(compilers.folder_of(os.environ), os.environ))
        languages.of(file).build(Path(file))
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        os._exit(code)


def pack(target: IO[bytes], environ: Mapping[str, str]) -> None:
    """Write an archive of the folders of builds that ``environ`` names."""
    target.write(FORMAT)
    count = 0
    for variable in BUILD_FOLDERS:
        for path in plain_files(Path(environ[variable])):
            name = f"{variable}/{path.relative_to(environ[variable])}"
            count += pack_file(target, name, path)
    target.write(json.dumps({"files": count}).encode() + b"\n")


def plain_files(folder: Path) -> Iterator[Path]:
    """Return the files below a folder that are worth packing, in the order of their names."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(above, name) for name in sorted(names) if name != LEFT_OUT)


def pack_file(target: IO[bytes], name: str, path: Path) -> bool:
    """Write one file. Return False for links, pipes and other special files, which are left out."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as source:
        found = os.fstat(source.fileno())
        header = {
            "name": name,
            "size": found.st_size,
            "program": bool(found.st_mode & stat.S_IXUSR),
            # Builds are validated by the times of their files.
            "mtime_ns": found.st_mtime_ns,
        }
        target.write(json.dumps(header).encode() + b"\n")
        target.flush()
        offset = 0
        while offset < found.st_size:
            sent = os.sendfile(target.fileno(), source.fileno(), offset, found.st_size - offset)
            if sent == 0:
                raise OSError(f"{name} was truncated while it was packed")
            offset += sent
    return True


def unpack_and_go_on(archive_fd: str, *argv: str) -> None:
    """Unpack a build in this sandbox, then become the program ``argv``.

    A damaged build is skipped: the submission then builds by itself.
    """
    with open(int(archive_fd), "rb") as archive, contextlib.suppress(ValueError, OSError):
        unpack(archive, os.environ)
        os.environ.update(compilers.unpacked(os.environ))
    os.execv(argv[0], argv)


def unpack(archive: IO[bytes], environ: Mapping[str, str]) -> None:
    """Write the files of an archive. Raise ``ValueError`` before the first file if the archive is damaged."""
    for header, offset in list(entries(archive)):
        variable, _, inside = header["name"].partition("/")
        path = Path(environ[variable], inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.seek(offset)
        with path.open("wb") as target:
            copy_bytes(archive, target, header["size"])
        path.chmod(0o755 if header["program"] else 0o644)
        os.utime(path, ns=(header["mtime_ns"], header["mtime_ns"]))


def entries(archive: IO[bytes]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the line of each file and the offset of its content."""
    size = os.fstat(archive.fileno()).st_size
    if archive.readline(len(FORMAT)) != FORMAT:
        raise ValueError("not an archive of a build")
    count = 0
    while True:
        header = json.loads(archive.readline(MAX_LINE))
        if header == {"files": count}:
            return
        offset = archive.tell()
        check_header(header)
        if offset + header["size"] > size:
            raise ValueError("the archive is cut off")
        yield header, offset
        count += 1
        archive.seek(offset + header["size"])


def check_header(header: Any) -> None:
    """Raise ``ValueError`` for a line that :func:`pack_file` does not write."""
    types = {"name": str, "size": int, "program": bool, "mtime_ns": int}
    if not isinstance(header, dict) or {key: type(value) for key, value in header.items()} != types:
        raise ValueError("a file without a description")
    variable, _, inside = header["name"].partition("/")
    if variable not in BUILD_FOLDERS or not is_plain_name(inside) or header["size"] < 0:
        raise ValueError("a file outside of the build folders")


def copy_bytes(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy exactly ``size`` bytes."""
    while size:
        chunk = source.read(min(size, 1 << 20))
        if not chunk:
            raise ValueError("the archive is cut off")
        target.write(chunk)
        size -= len(chunk)
