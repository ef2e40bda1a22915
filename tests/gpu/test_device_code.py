"""The harness's kernels on a real GPU: ``python -m pytest tests/gpu/test_device_code.py`` on a machine with one."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from kernelcup_harness import device_code, graphs, masks, pages, pinning
from kernelcup_harness.protocol import NotCaptured

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10, as it is published."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def pad(seed: int, blocks: int) -> bytes:
    key = [seed & 0xFFFFFFFF, seed >> 32]
    return b"".join(struct.pack("<4I", *philox([place, 0, 0, 0], key)) for place in range(blocks))


def test_the_reference_is_philox() -> None:
    # Known answers of Random123.
    ones = 0xFFFFFFFF
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([ones] * 4, [ones] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


@pytest.fixture
def code() -> device_code.DeviceCode:
    return device_code.DeviceCode()


@pytest.mark.parametrize("blocks", [0, 1, 255, 256, 257, 3000])
def test_the_pad_is_that_of_the_key(code: device_code.DeviceCode, blocks: int) -> None:
    buffer = torch.zeros(blocks * 16, dtype=torch.uint8, device="cuda")
    seed = 0xFEDCBA9876543210
    code.toggle(buffer, seed)
    assert bytes(buffer.cpu().tolist()) == pad(seed, blocks)


def test_covering_twice_uncovers_also_what_is_large(code: device_code.DeviceCode) -> None:
    before = torch.randint(0, 255, (50 << 20,), dtype=torch.uint8, device="cuda")
    buffer, seed = before.clone(), masks.draw_seed()
    code.toggle(buffer, seed)
    assert (buffer == before).float().mean() < 0.01
    code.toggle(buffer, seed)
    assert torch.equal(buffer, before)


def test_the_device_waits_for_the_word_and_says_when_it_is_done(
    code: device_code.DeviceCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELCUP_BACKEND", "cuda")
    page = pages.Page()
    address = page.arena.bytes.data_ptr()
    assert pinning.pin(address, pages.BYTES)
    seed, number = masks.draw_seed(), (1 << 63) + 7
    buffer = torch.zeros(1 << 16, dtype=torch.uint8, device="cuda")
    answer = torch.zeros(1 << 16, dtype=torch.uint8, pin_memory=True)
    code.make_room(buffer.numel())
    for _ in range(5):
        page.clear()
        buffer.zero_()
        answer.zero_()
        code.wait_for(address + pages.READY, address + pages.GO, address + pages.KEY, number)
        code.toggle(buffer, None)
        answer.copy_(buffer, non_blocking=True)
        code.absorb(buffer)
        code.tell(address + pages.DONE, number, address + pages.DIGEST)
        page.wait_until_ready(number, 10.0, lambda: None)
        with pytest.raises(pages.ChannelTimeout):
            page.go(seed, number + 1, 0.002, lambda: None)
        assert not answer.any()
        _wall_ns, digest = page.go(seed, number, 10.0, lambda: None)
        assert digest == code.digest([answer]) == tree([pad(seed, 1 << 12)])
        assert bytes(answer[:1600].tolist()) == pad(seed, 100)
    pinning.unpin(address)


def test_who_is_never_told_anything_is_let_go(
    code: device_code.DeviceCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELCUP_BACKEND", "cuda")
    monkeypatch.setattr(device_code, "LONGEST_WAIT_CYCLES", 10_000_000)
    page = pages.Page()
    address = page.arena.bytes.data_ptr()
    assert pinning.pin(address, pages.BYTES)
    code.wait_for(address + pages.READY, address + pages.GO, address + pages.KEY, 1)
    done = threading.Event()
    threading.Thread(target=lambda: (torch.cuda.synchronize(), done.set())).start()
    began = time.monotonic()
    assert done.wait(10.0)
    assert time.monotonic() - began < 10.0
    pinning.unpin(address)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 5_000_003])
@pytest.mark.parametrize("shift", [0, 3])
def test_bytes_are_copied_to_the_host(code: device_code.DeviceCode, count: int, shift: int) -> None:
    source = torch.randint(0, 255, (count + shift,), dtype=torch.uint8, device="cuda")[shift:]
    target = torch.full((count + 2,), 7, dtype=torch.uint8, pin_memory=True)
    code.copy(target[1 : count + 1], source)
    torch.cuda.synchronize()
    assert torch.equal(target[1 : count + 1], source.cpu())
    assert target[0] == target[count + 1] == 7


def node(data: bytes) -> bytes:
    return hashlib.blake2s(data, digest_size=16).digest()


def grown(nodes: list[bytes]) -> bytes:
    while len(nodes) > 1:
        nodes = [node(b"".join(nodes[at : at + 4])) for at in range(0, len(nodes), 4)]
    return nodes[0] if nodes else bytes(16)


def tree(parts: list[bytes]) -> bytes:
    """What commits to some bytes, by RFC 7693."""
    chunks = [
        grown([node(part[at : at + 128]) for at in range(begin, min(begin + (32 << 10), len(part)), 128)])
        for part in parts
        for begin in range(0, len(part), 32 << 10)
    ]
    return grown(chunks)


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize(
    "count", [0, 1, 63, 64, 65, 127, 128, 129, 512, 513, 32 << 10, (32 << 10) + 1, 1_000_003, 50_000_017]
)
def test_what_commits_to_bytes_is_their_tree(code: device_code.DeviceCode, count: int, shift: int) -> None:
    source = torch.randint(0, 255, (count + shift,), dtype=torch.uint8, device="cuda")[shift:]
    assert code.digest([source]) == tree([source.cpu().numpy().tobytes()])
    assert code.digest([source.cpu()]) == code.digest([source])


def test_a_commitment_is_to_all_parts_in_their_order(code: device_code.DeviceCode) -> None:
    sizes = (5, 70_000, 128, 33_000) * 300
    parts = [torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda") for size in sizes]
    assert code.digest(parts) == tree([part.cpu().numpy().tobytes() for part in parts])
    assert code.digest(parts[::-1]) != code.digest(parts)
    parts[700][3] += 1
    assert code.digest(parts) == tree([part.cpu().numpy().tobytes() for part in parts])


HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Launched:
    """Queues a function of the host on the stream in use, which counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._function = HOST_FUNCTION(self._count)
        self._driver = ctypes.CDLL("libcuda.so.1")

    def __call__(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert self._driver.cuLaunchHostFunc(stream, self._function, None) == 0

    def _count(self, _data: int | None) -> None:
        self.calls += 1


def test_what_is_recorded_is_replayed_on_what_lies_there_then() -> None:
    source = torch.ones(1000, device="cuda")
    recording = graphs.CudaRecorder().record([lambda: source + 1, lambda: source * 3])
    source.fill_(5.0)
    recording.replay()
    torch.cuda.synchronize()
    assert [value[0].item() for value in recording.values] == [6.0, 15.0]


def test_a_recording_with_a_function_of_the_host_is_refused() -> None:
    source, launched = torch.ones(1000, device="cuda"), Launched()

    def call() -> torch.Tensor:
        launched()
        return source + 1

    with pytest.raises(graphs.NotRecorded) as refused:
        graphs.CudaRecorder().record([call])
    assert refused.value.reason == NotCaptured.HOST_FUNCTION
    # Once, to warm up.
    assert launched.calls == 1
    call()
    torch.cuda.synchronize()
    assert launched.calls == 2


def test_a_function_of_the_host_in_a_graph_within_is_found() -> None:
    inner, launched, source = (
        torch.cuda.CUDAGraph(keep_graph=True),
        Launched(),
        torch.ones(1000, device="cuda"),
    )
    with torch.cuda.graph(inner):
        launched()
        source.add_(1)
    driver, outer, node = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    within = ctypes.c_void_p(inner.raw_cuda_graph())
    assert driver.cuGraphCreate(ctypes.byref(outer), 0) == 0
    assert graphs.has_host_function(outer.value or 0, driver) is False
    added = driver.cuGraphAddChildGraphNode(ctypes.byref(node), outer, None, ctypes.c_size_t(0), within)
    assert added == 0
    assert graphs.has_host_function(outer.value or 0, driver) is True


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_graph_of_its_own_cannot_be_replayed_in_a_recording() -> None:
    inner, source = torch.cuda.CUDAGraph(), torch.ones(1000, device="cuda")
    with torch.cuda.graph(inner):
        source.add_(1)
    with pytest.raises(Exception) as raised:
        graphs.CudaRecorder().record([inner.replay])
    assert graphs.reason_of(raised.value) == NotCaptured.WAITS
    # The device is as good as before.
    source.fill_(1.0)
    inner.replay()
    assert source[0].item() == 2.0


def add_on_default_stream(source: torch.Tensor, out: torch.Tensor) -> None:
    """Work elsewhere than everything else."""
    with torch.cuda.stream(torch.cuda.default_stream()):
        torch.add(source, 1, out=out)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_what_works_on_the_default_stream_is_not_in_the_recording() -> None:
    source, out = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    recording = graphs.CudaRecorder().record([lambda: add_on_default_stream(source, out)] * 2)
    torch.cuda.synchronize()
    source.fill_(5.0)
    recording.replay()
    torch.cuda.synchronize()
    assert out[0].item() == 2.0


@pytest.fixture
def on_the_stream_of_this_thread() -> Iterator[None]:
    """Work where CUDA C++ that is compiled for it works unless told otherwise."""
    before = torch.cuda.current_stream()
    torch.cuda.synchronize()
    graphs.use_per_thread_stream()
    yield
    torch.cuda.synchronize()
    torch.cuda.set_stream(before)


@pytest.mark.usefixtures("on_the_stream_of_this_thread")
def test_what_works_on_the_stream_of_its_thread_is_recorded() -> None:
    source, driver = torch.ones(1000, device="cuda"), ctypes.CDLL("libcuda.so.1")
    out, nbytes = torch.zeros(1000, device="cuda"), ctypes.c_size_t(4000)

    def call() -> torch.Tensor:
        more = source + 1
        # As calls that name no stream are compiled: this one copies more.
        to, source_of_it = (ctypes.c_uint64(each.data_ptr()) for each in (out, more))
        assert driver.cuMemcpyDtoDAsync_v2_ptsz(to, source_of_it, nbytes, None) == 0
        return out * 2

    recording = graphs.CudaRecorder().record([call, call])
    assert torch.cuda.current_stream().cuda_stream == graphs.PER_THREAD_STREAM
    source.fill_(5.0)
    recording.replay()
    torch.cuda.synchronize()
    assert [value[0].item() for value in recording.values] == [12.0, 12.0]


@pytest.mark.usefixtures("on_the_stream_of_this_thread")
def test_what_works_on_the_default_stream_beside_that_is_told_as_such() -> None:
    source, out = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    with pytest.raises(Exception) as raised:
        graphs.CudaRecorder().record([lambda: add_on_default_stream(source, out)] * 2)
    assert graphs.reason_of(raised.value) == NotCaptured.ELSEWHERE
    add_on_default_stream(source, out)
    torch.cuda.synchronize()
    assert out[0].item() == 2.0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda data: data.sum().item(), NotCaptured.WAITS),
        (lambda data: data.cpu(), NotCaptured.WAITS),
        (lambda _data: torch.cuda.synchronize(), NotCaptured.WAITS),
    ],
)
def test_what_waits_for_the_device_is_told_as_such(
    call: Callable[[torch.Tensor], object], reason: str
) -> None:
    data = torch.ones(1000, device="cuda")
    with pytest.raises(Exception) as raised:
        graphs.CudaRecorder().record([lambda: call(data)])
    assert graphs.reason_of(raised.value) == reason
    # The device is as good as before.
    assert data.sum().item() == 1000.0


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
def test_cupy_is_recorded_where_it_works_on_the_stream_in_use() -> None:
    cupy = pytest.importorskip("cupy")
    source = torch.ones(1000, device="cuda")

    def call() -> torch.Tensor:
        out = torch.empty_like(source)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            cupy.add(cupy.from_dlpack(source), 1, out=cupy.from_dlpack(out))
        return out

    recording = graphs.CudaRecorder().record([call, call])
    source.fill_(5.0)
    recording.replay()
    torch.cuda.synchronize()
    assert [value[0].item() for value in recording.values] == [6.0, 6.0]


def test_what_jax_does_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    # Before JAX takes the device: it would take most of its memory.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    source = torch.ones(1000, device="cuda")

    def call() -> torch.Tensor:
        return torch.from_dlpack(jax.dlpack.from_dlpack(source) + 1)

    for _ in range(3):
        call()
    with pytest.raises(graphs.NotRecorded) as refused:
        graphs.CudaRecorder().record([call])
    assert refused.value.reason == NotCaptured.RUNTIME
    assert call()[0].item() == 2.0
