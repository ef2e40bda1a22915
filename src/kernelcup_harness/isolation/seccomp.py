"""A seccomp filter that denies system calls that neither user code nor CUDA needs.

It is a denylist: an allowlist breaks the CUDA driver. The filter is assembled here from tables of
system call numbers; :func:`program` returns the bytes that ``bwrap --seccomp`` and the kernel take.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence

# Allowed sockets: to other processes of the sandbox; for several GPUs also over its own loopback,
# which torch.distributed and NCCL use, with netlink to list the interfaces.
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
LOCAL_FAMILIES = (AF_UNIX,)
NETWORK_FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
# The bit is set in SOCK_DGRAM and SOCK_RAW, not in SOCK_STREAM and SOCK_SEQPACKET.
DATAGRAM_BIT = 2

LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
JUMP_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
JUMP_SET = 0x45  # BPF_JMP | BPF_JSET | BPF_K
JUMP_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERROR = 0x00050000

# Places in `struct seccomp_data`: number, architecture, low halves of the first, the second and the last argument.
NUMBER_AT, ARCHITECTURE_AT, ARGUMENT_AT, SECOND_ARGUMENT_AT, LAST_ARGUMENT_AT = 0, 4, 16, 24, 56
X32_BIT = 0x40000000

# CLONE_NEWTIME, CLONE_PIDFD, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
CLONE_FLAGS = (
    0x80 | 0x1000 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)

# The numbers that all architectures share since Linux 5.0.
COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    # The inode number of a process counts all processes of the machine.
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "process_mrelease": 448,
    "cachestat": 451,
    "statmount": 457,
    "listmount": 458,
}

DENIED: dict[str, dict[str, int]] = {
    "x86_64": COMMON
    | {
        "mincore": 27,
        "ptrace": 101,
        "syslog": 103,
        "pivot_root": 155,
        "adjtimex": 159,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "sethostname": 170,
        "setdomainname": 171,
        "iopl": 172,
        "ioperm": 173,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "clock_settime": 227,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "inotify_init": 253,
        "inotify_add_watch": 254,
        "unshare": 272,
        "inotify_init1": 294,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "fanotify_mark": 301,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "clock_adjtime": 305,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "finit_module": 313,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
    "aarch64": COMMON
    | {
        "inotify_init1": 26,
        "inotify_add_watch": 27,
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "chroot": 51,
        "quotactl": 60,
        "acct": 89,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "clock_settime": 112,
        "syslog": 116,
        "ptrace": 117,
        "reboot": 142,
        "sethostname": 161,
        "setdomainname": 162,
        "settimeofday": 170,
        "adjtimex": 171,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "swapon": 224,
        "swapoff": 225,
        "mincore": 232,
        "perf_event_open": 241,
        "fanotify_init": 262,
        "fanotify_mark": 263,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "clock_adjtime": 266,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "finit_module": 273,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
    },
}

# Calls that act on a process by its id, where there is no namespace around the ids: number, and the first arguments
# that pass, which name the caller. Where a thread of the C library's names another one by its id, which cannot be told
# from the id of a process outside, the call succeeds without an effect: threads are started pinned to processors.
OF_THE_CALLER: dict[str, dict[str, tuple[int, ...]]] = {
    "x86_64": {
        "setpriority": (141, 0, 0),
        "ioprio_set": (251, 1, 0),
        "migrate_pages": (256, 0),
        "move_pages": (279, 0),
        "prlimit64": (302, 0),
    },
    "aarch64": {
        "ioprio_set": (30, 1, 0),
        "setpriority": (140, 0, 0),
        "migrate_pages": (238, 0),
        "move_pages": (239, 0),
        "prlimit64": (261, 0),
    },
}
OF_THREADS: dict[str, dict[str, int]] = {
    "x86_64": {
        "sched_setparam": 142,
        "sched_setscheduler": 144,
        "sched_setaffinity": 203,
        "sched_setattr": 314,
    },
    "aarch64": {
        "sched_setparam": 118,
        "sched_setscheduler": 119,
        "sched_setaffinity": 122,
        "sched_setattr": 274,
    },
}

# Calls that reach other processes through shared names, if there is no namespace around them.
SHARED_NAMES: dict[str, dict[str, int]] = {
    "x86_64": {"shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "mq_open": 240, "mq_unlink": 241},
    "aarch64": {"mq_open": 180, "mq_unlink": 181, "msgget": 186, "semget": 190, "shmget": 194, "shmat": 196},
}

# Denied if the CUDA driver needs a socket in a sandbox without namespaces. It binds one to an abstract name and listens
# there, for processes that share its memory, and CUDA does not start without. Nothing may connect or be answered.
CONNECTING: dict[str, dict[str, int]] = {
    "x86_64": {"connect": 42, "accept": 43, "accept4": 288},
    "aarch64": {"accept": 202, "connect": 203, "accept4": 242},
}

# Files of the system are the same inodes in all sandboxes, and these have state that others see. Locks of whole files
# and advice about the page cache succeed without an effect: caches of compilers take such locks, and write by renaming.
WITHOUT_EFFECT: dict[str, dict[str, int]] = {
    "x86_64": {"flock": 73, "fadvise64": 221},
    "aarch64": {"flock": 32, "fadvise64": 223},
}
FCNTL = {"x86_64": 72, "aarch64": 25}
# Commands about descriptors, pipes and files without a name. All others (record locks, leases, notification, hints of
# how it will be written) concern an inode.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 8, 9, 1027, 1030, 1031, 1032, 1033, 1034)
# preadv2, pwritev2: a flag shows what is in the page cache.
WITH_FLAGS = {"x86_64": (327, 328), "aarch64": (286, 287)}

# clone, clone3, socket, socketpair
FILTERED: dict[str, tuple[int, int, int, int]] = {
    "x86_64": (56, 435, 41, 53),
    "aarch64": (220, 435, 198, 199),
}
AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def is_supported(machine: str | None = None) -> bool:
    """Return whether there is a table for this processor."""
    return (machine or platform.machine()) in DENIED


def program(
    machine: str | None = None, *, network: bool = False, isolated: bool = True, gpu: bool = False
) -> bytes:
    """Return the filter as an array of ``struct sock_filter``. Raise ``KeyError`` without a table.

    With ``network`` it allows sockets of the internet families, for a sandbox with a network
    namespace of its own. A sandbox without namespaces is not ``isolated``: a socket with an address
    would reach services of the host, so only connected pairs are allowed; with a ``gpu`` also sockets that
    can only listen.
    """
    machine = machine or platform.machine()
    listens = gpu and not isolated
    denied = DENIED[machine] | ({} if isolated else SHARED_NAMES[machine])
    denied |= CONNECTING[machine] if listens else {}
    clone, clone3, socket, socketpair = FILTERED[machine]
    code = [
        instruction(LOAD_WORD, ARCHITECTURE_AT),
        instruction(JUMP_EQUAL, AUDIT_ARCHITECTURE[machine], 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD_WORD, NUMBER_AT),
        # Numbers of the x32 interface would pass a table of native ones.
        instruction(JUMP_AT_LEAST, X32_BIT, 0, 1),
        instruction(RETURN, ERROR | errno.ENOSYS),
    ]
    for number in sorted(denied.values()):
        code += [instruction(JUMP_EQUAL, number, 0, 1), instruction(RETURN, ERROR | errno.EPERM)]
    for number in WITHOUT_EFFECT[machine].values():
        code += [instruction(JUMP_EQUAL, number, 0, 1), instruction(RETURN, ERROR)]
    code += one_of(FCNTL[machine], FCNTL_COMMANDS, error=errno.ENOLCK, at=SECOND_ARGUMENT_AT)
    for number in WITH_FLAGS[machine]:
        code += without_flags(number, 0xFFFFFFFF, error=errno.EOPNOTSUPP, at=LAST_ARGUMENT_AT)
    # The flags of clone3 lie behind a pointer; without it the C library falls back to clone.
    code += [instruction(JUMP_EQUAL, clone3, 0, 1), instruction(RETURN, ERROR | errno.ENOSYS)]
    code += without_flags(clone, CLONE_FLAGS, error=errno.EPERM)
    if isolated:
        code += one_of(socket, NETWORK_FAMILIES if network else LOCAL_FAMILIES, error=errno.EAFNOSUPPORT)
    else:
        for number, *arguments in OF_THE_CALLER[machine].values():
            code += only_with(number, *arguments, error=errno.EPERM)
        for number in OF_THREADS[machine].values():
            code += only_with(number, 0, error=0)
        for number in (socket, socketpair) if listens else (socketpair,):
            code += without_flags(
                number, DATAGRAM_BIT, error=errno.EPROTONOSUPPORT, at=SECOND_ARGUMENT_AT, then_on=True
            )
        code += one_of(socket, LOCAL_FAMILIES if listens else (), error=errno.EAFNOSUPPORT)
    code += one_of(socketpair, LOCAL_FAMILIES, error=errno.EAFNOSUPPORT)
    code.append(instruction(RETURN, ALLOW))
    return b"".join(code)


def without_flags(
    number: int, flags: int, *, error: int, at: int = ARGUMENT_AT, then_on: bool = False
) -> list[bytes]:
    """Return code that denies one call if an argument has a flag; others keep their number.

    A call that passes is allowed, or with ``then_on`` checked further.
    """
    passed = instruction(LOAD_WORD, NUMBER_AT) if then_on else instruction(RETURN, ALLOW)
    return [
        instruction(JUMP_EQUAL, number, 0, 4),
        instruction(LOAD_WORD, at),
        instruction(JUMP_SET, flags, 0, 1),
        instruction(RETURN, ERROR | error),
        passed,
    ]


def only_with(number: int, *arguments: int, error: int) -> list[bytes]:
    """Return code that denies one call unless its first arguments are these; others keep their number."""
    checks: list[bytes] = []
    for place, argument in enumerate(arguments):
        left = 2 * (len(arguments) - place) - 1
        checks += [
            instruction(LOAD_WORD, ARGUMENT_AT + 8 * place),
            instruction(JUMP_EQUAL, argument, 0, left),
        ]
    passed, denied = instruction(RETURN, ALLOW), instruction(RETURN, ERROR | error)
    return [instruction(JUMP_EQUAL, number, 0, len(checks) + 2), *checks, passed, denied]


def one_of(number: int, allowed: Sequence[int], *, error: int, at: int = ARGUMENT_AT) -> list[bytes]:
    """Return code that denies one call unless an argument (the first) is allowed; others keep their number."""
    count = len(allowed)
    return [
        instruction(JUMP_EQUAL, number, 0, count + 3),
        instruction(LOAD_WORD, at),
        *(instruction(JUMP_EQUAL, value, count - place, 0) for place, value in enumerate(allowed)),
        instruction(RETURN, ERROR | error),
        instruction(RETURN, ALLOW),
    ]


def instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Pack one ``struct sock_filter``."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
