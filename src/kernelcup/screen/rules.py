"""The tables of names. A dotted name includes everything below it; the longest match decides."""

from __future__ import annotations

from typing import NamedTuple

from kernelcup.screen.findings import Tag


class Rule(NamedTuple):
    """Why a name is worth reviewing."""

    tag: Tag
    explanation: str


def _table(*entries: tuple[Tag, str, str]) -> dict[str, Rule]:
    return {name: Rule(tag, text) for tag, text, names in entries for name in names.split()}


# A module's name counts where it is imported; built-in functions are prefixed with `builtins.`.
NAMES = _table(
    (Tag.DYNAMIC_EXECUTION, "Runs code from a string.", "builtins.exec builtins.eval builtins.compile"),
    (Tag.DYNAMIC_EXECUTION, "Imports by the function instead of the statement.", "builtins.__import__"),
    (
        Tag.DYNAMIC_EXECUTION,
        "Loads or runs code from data or files.",
        (
            "marshal importlib runpy code codeop types.FunctionType types.CodeType types.LambdaType imp "
            "zipimport site.addsitedir torch.package torch.jit.CompilationUnit"
        ),
    ),
    (
        Tag.DYNAMIC_EXECUTION,
        "Unpickles, which can run any code.",
        "pickle _pickle cloudpickle dill shelve joblib.load",
    ),
    (
        Tag.FRAME_WALK,
        "Looks into callers' frames.",
        (
            "sys._getframe sys._current_frames sys._current_exceptions inspect.stack inspect.currentframe "
            "inspect.getouterframes inspect.getinnerframes inspect.trace inspect.getargvalues "
            "inspect.getclosurevars traceback.walk_stack traceback.extract_stack traceback.StackSummary"
        ),
    ),
    (
        Tag.FRAME_WALK,
        "Lists the objects of the interpreter.",
        "gc.get_objects gc.get_referrers gc.get_referents",
    ),
    (
        Tag.FRAME_WALK,
        "Has its own code called with other code's frames.",
        "sys.settrace sys.setprofile sys.monitoring sys.addaudithook threading.settrace threading.setprofile bdb",
    ),
    (
        Tag.PROCESS_MEMORY,
        "Reads or writes memory past Python.",
        (
            "ctypes.memmove ctypes.memset ctypes.string_at ctypes.wstring_at ctypes.cast ctypes.pythonapi "
            "ctypes.py_object ctypes.POINTER ctypes.pointer ctypes.CFUNCTYPE ctypes.PYFUNCTYPE "
            "ctypes.util mmap _ctypes"
        ),
    ),
    (
        Tag.THREADS,
        "Starts threads.",
        "threading _thread concurrent.futures asyncio torch.jit.fork torch.futures trio anyio gevent",
    ),
    (
        Tag.THREADS,
        "Has code run at another time than that of the call.",
        "signal atexit sched weakref.finalize",
    ),
    (
        Tag.NETWORK,
        "Uses the network.",
        (
            "socket _socket socketserver ssl urllib urllib3 requests http httpx aiohttp websocket "
            "websockets ftplib smtplib telnetlib xmlrpc paramiko huggingface_hub torch.hub "
            "torch.distributed.rpc torch.distributed.TCPStore asyncio.open_connection wandb boto3 grpc "
            "zmq"
        ),
    ),
    (
        Tag.SUBPROCESS,
        "Starts processes.",
        (
            "subprocess _posixsubprocess multiprocessing torch.multiprocessing pty pexpect os.system "
            "os.popen os.fork os.forkpty os.posix_spawn os.posix_spawnp os.execl os.execle os.execlp "
            "os.execlpe os.execv os.execve os.execvp os.execvpe os.spawnl os.spawnle os.spawnlp "
            "os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe "
            "concurrent.futures.ProcessPoolExecutor posix.system posix.fork pip"
        ),
    ),
    (
        Tag.SUBPROCESS,
        "Acts on other processes.",
        "os.kill os.killpg os.getppid os.pidfd_open os.setsid os.ptrace psutil",
    ),
    (
        Tag.HARNESS_ACCESS,
        "Imports what belongs to the judging.",
        "kernelcup_harness kernelcup eval reference __main__",
    ),
    (
        Tag.HARNESS_ACCESS,
        "Reaches for other modules of the process.",
        "sys.modules sys.meta_path sys.path_hooks",
    ),
    (Tag.TIMER_PATCH, "Replaces parts of other modules by mocking.", "unittest.mock mock pytest"),
    (
        Tag.TENSOR_SUBCLASS,
        "Changes what operations on tensors do.",
        (
            "torch.Tensor._make_subclass torch.Tensor._make_wrapper_subclass torch.overrides "
            "torch.utils._python_dispatch torch._C._disabled_torch_function_impl "
            "torch.UntypedStorage._new_shared"
        ),
    ),
    (
        Tag.FILES,
        "Writes, makes or removes files, or uses descriptors.",
        (
            "os.open os.write os.writev os.pwrite os.sendfile os.fdopen os.dup os.dup2 os.pipe os.pipe2 "
            "os.close os.closerange os.remove os.unlink os.rename os.renames os.replace os.makedirs "
            "os.mkdir os.mkfifo os.mknod os.rmdir os.removedirs os.symlink os.link os.chmod os.chown "
            "os.truncate os.ftruncate os.memfd_create shutil tempfile torch.save numpy.save numpy.savez "
            "numpy.memmap fcntl posix.open posix.write sqlite3 multiprocessing.shared_memory"
        ),
    ),
    (
        Tag.ENVIRONMENT,
        "Reads or sets environment variables, or reads the command line.",
        "os.environ os.environb os.getenv os.getenvb os.putenv os.unsetenv posix.environ sys.argv sys.orig_argv",
    ),
    (
        Tag.STREAMS,
        "Makes or chooses a CUDA stream of its own.",
        (
            "torch.cuda.Stream torch.cuda.ExternalStream torch.cuda.stream torch.cuda.set_stream "
            "torch.cuda.StreamContext torch.Stream torch.cuda.streams.Stream torch.xpu.Stream "
            "cupy.cuda.Stream cupy.cuda.ExternalStream cuda.core.Stream numba.cuda.stream"
        ),
    ),
    (
        Tag.NATIVE_CODE,
        "Builds or loads native code.",
        (
            "torch.utils.cpp_extension ctypes.CDLL ctypes.cdll ctypes.PyDLL ctypes.LibraryLoader cffi "
            "cupy.RawKernel cupy.RawModule cupy.cuda.compiler torch.cuda._compile_kernel "
            "torch.ops.load_library torch.classes.load_library pycuda cuda.bindings cuda.core cuda.cuda "
            "cuda.nvrtc nvrtc pybind11 cppyy"
        ),
    ),
    (
        Tag.OBFUSCATION,
        "Decodes data that the text does not show.",
        (
            "base64 binascii zlib lzma bz2 gzip codecs.decode codecs.getdecoder quopri uu "
            "builtins.bytes.fromhex builtins.bytearray.fromhex"
        ),
    ),
)

BUILTINS_IMPORT = Rule(Tag.DYNAMIC_EXECUTION, "Reaches for the built-in functions by their module.")

# Harmless exceptions below a name in NAMES.
HARMLESS = frozenset(
    "threading.local threading.Lock threading.RLock importlib.util.find_spec importlib.metadata importlib.resources "
    "importlib.import_module ctypes.util.find_library "
    " torch.overrides.is_tensor_like".split()
)

MIXED_MODULES = frozenset(name.rpartition(".")[0] for name in HARMLESS)

# Attributes of any object.
ATTRIBUTES = _table(
    (
        Tag.FRAME_WALK,
        "Goes from an object to frames, globals or other classes.",
        (
            "f_back f_globals f_locals f_builtins f_code tb_frame gi_frame cr_frame ag_frame __globals__ "
            "__closure__ cell_contents __subclasses__ __builtins__ _getframe get_objects get_referrers"
        ),
    ),
    (Tag.PROCESS_MEMORY, "Reads or writes memory past Python.", "from_address memmove pythonapi"),
    (
        Tag.HARNESS_ACCESS,
        "Names a function of the judging.",
        (
            "check_implementation generate_input ref_kernel calculate_stats run_single_benchmark "
            "_run_single_benchmark run_single_test _run_single_test wrap_check_implementation _clone_data "
            "clear_l2_cache"
        ),
    ),
    (
        Tag.TENSOR_SUBCLASS,
        "Makes something that passes for a tensor.",
        "_make_subclass _make_wrapper_subclass as_subclass __torch_function__ __torch_dispatch__",
    ),
    (
        Tag.FILES,
        "Writes, makes or removes files.",
        "write_text write_bytes touch unlink symlink_to hardlink_to rmdir",
    ),
    (Tag.DYNAMIC_EXECUTION, "Reads or replaces the body of a function.", "__code__ co_code co_consts"),
    (Tag.DYNAMIC_EXECUTION, "Has code run where the object is unpickled.", "__reduce__ __reduce_ex__"),
)

# Words that count inside strings, too: `getattr(x, "f_back")`, `E.__dict__["elapsed_time"]`.
IN_STRINGS = {
    name: rule
    for name, rule in ATTRIBUTES.items()
    if rule.tag in (Tag.FRAME_WALK, Tag.PROCESS_MEMORY, Tag.TENSOR_SUBCLASS, Tag.HARNESS_ACCESS)
} | {"elapsed_time": Rule(Tag.TIMER_PATCH, "Names a method of the timer in a string.")}

CLOCKS = frozenset(
    "elapsed_time perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns time_ns "
    "synchronize do_bench".split()
)
TIMING_MODULES = ("time", "timeit", "torch.cuda", "torch.Event", "torch.utils.benchmark", "triton.testing",
                  "torch.profiler", "torch.accelerator", "torch.mtia", "torch.xpu")  # fmt: skip

# Settings that honest kernels set on modules.
SETTINGS = ("backends", "config", "_dynamo", "_inductor", "knobs", "autotune")

TENSOR_METHODS = frozenset(
    "detach clone cpu cuda double float half contiguous to numpy tolist item equal allclose __class__ "
    "__eq__ is_cuda untyped_storage".split()
)

DECODERS = ("base64", "binascii", "zlib", "lzma", "bz2", "gzip", "codecs", "marshal", "builtins.bytes")


def find(dotted: str) -> Rule | None:
    """Return the rule for the longest part of a dotted name that has one."""
    name = dotted
    while name:
        if name in HARMLESS:
            return None
        if (rule := NAMES.get(name)) is not None:
            return rule
        name = name.rpartition(".")[0]
    return None


def of_store(dotted: str) -> Rule | None:
    """Return the rule for setting or deleting an attribute; ``?`` begins the name of an unknown object."""
    owner, _, last = dotted.rpartition(".")
    known = not dotted.startswith("?")
    if last in CLOCKS or (known and _within(owner, TIMING_MODULES) and not _is_setting(dotted)):
        return Rule(Tag.TIMER_PATCH, "Replaces what measures time.")
    if last in ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__"):
        return Rule(Tag.DYNAMIC_EXECUTION, "Replaces the body of a function.")
    if last == "__class__" or (last in TENSOR_METHODS and (not known or owner.endswith("Tensor"))):
        return Rule(Tag.TENSOR_SUBCLASS, "Replaces the class or a method of an object that others will use.")
    if known and owner and not _is_setting(dotted):
        return Rule(Tag.MODULE_PATCH, "Replaces a part of a module that others use as well.")
    return None


def _within(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _is_setting(dotted: str) -> bool:
    return any(part in SETTINGS for part in dotted.split(".")[:-1])
