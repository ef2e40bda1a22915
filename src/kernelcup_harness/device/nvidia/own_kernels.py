"""Kernels of the harness for any process with a context: to empty the cache, to last for some time, to fill memory."""

from __future__ import annotations

import ctypes

from kernelcup_harness.device.nvidia.driver import Driver, KernelNode, u64

PTX = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry sweep(.param .u64 from, .param .u64 bytes)
{
  .reg .u64 %at, %end, %step, %begin; .reg .u32 %n, %m, %i, %sum, %a, %b, %c, %d; .reg .pred %p;
  ld.param.u64 %begin, [from];
  ld.param.u64 %end, [bytes];
  add.u64 %end, %begin, %end;
  mov.u32 %n, %ctaid.x;
  mov.u32 %m, %ntid.x;
  mov.u32 %i, %tid.x;
  mad.lo.u32 %i, %n, %m, %i;
  mul.wide.u32 %at, %i, 16;
  add.u64 %at, %begin, %at;
  mov.u32 %n, %nctaid.x;
  mul.lo.u32 %n, %n, %m;
  mul.wide.u32 %step, %n, 16;
  mov.u32 %sum, 0;
again:
  setp.ge.u64 %p, %at, %end;
  @%p bra done;
  ld.global.v4.u32 {%a, %b, %c, %d}, [%at];
  or.b32 %a, %a, %b;
  or.b32 %c, %c, %d;
  or.b32 %sum, %sum, %a;
  or.b32 %sum, %sum, %c;
  add.u64 %at, %at, %step;
  bra again;
done:
  setp.eq.u32 %p, %sum, 0;
  @%p ret;
  mov.u32 %sum, 0;
  st.global.u32 [%begin], %sum;
  ret;
}
.visible .entry spin(.param .u64 ns)
{
  .reg .u64 %begin, %now, %until; .reg .pred %p;
  ld.param.u64 %until, [ns];
  mov.u64 %begin, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %p, %now, %until;
  @%p bra again;
  ret;
}
.visible .entry fill(.param .u64 to, .param .u64 value, .param .u64 width, .param .u64 bytes)
{
  .reg .u64 %at, %end, %width, %step; .reg .u32 %v, %i, %n; .reg .pred %p, %q;
  ld.param.u64 %at, [to];
  ld.param.u32 %v, [value];
  ld.param.u64 %width, [width];
  ld.param.u64 %end, [bytes];
  add.u64 %end, %at, %end;
  mov.u32 %i, %tid.x;
  cvt.u64.u32 %step, %i;
  mul.lo.u64 %step, %step, %width;
  add.u64 %at, %at, %step;
  mov.u32 %n, %ntid.x;
  cvt.u64.u32 %step, %n;
  mul.lo.u64 %step, %step, %width;
again:
  setp.ge.u64 %p, %at, %end;
  @%p ret;
  setp.eq.u64 %q, %width, 4;
  @%q st.global.u32 [%at], %v;
  setp.eq.u64 %q, %width, 2;
  @%q st.global.u16 [%at], %v;
  setp.eq.u64 %q, %width, 1;
  @%q st.global.u8 [%at], %v;
  add.u64 %at, %at, %step;
  bra again;
}
\0"""
"""``sweep`` reads zeros, and writes only where it finds something else. Works on every device since 2017."""
THREADS = 256
BLOCKS_A_MULTIPROCESSOR = 8
MULTIPROCESSORS = 16
"""``CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT``."""


class OwnKernels:
    """The kernels of one context.

    Args:
        driver: With a current context.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        module = driver.handle("cuModuleLoadData", PTX)
        self._sweep, self._spin, self.fill = (
            driver.handle("cuModuleGetFunction", u64(module), name) for name in (b"sweep", b"spin", b"fill")
        )
        found, device = ctypes.c_int(), ctypes.c_int()
        driver("cuCtxGetDevice", ctypes.byref(device))
        driver("cuDeviceGetAttribute", ctypes.byref(found), MULTIPROCESSORS, device)
        self._blocks = max(1, found.value) * BLOCKS_A_MULTIPROCESSOR

    def sweep(self, stream: int, address: int, nbytes: int) -> None:
        """Queue the emptying of the cache: read memory that holds zeros, more than twice the cache's size.

        The cache is clean afterwards. One that is full of written lines makes a call that reads from memory wait for
        their way there: up to 39 % of 20 us.
        """
        # Lines that a call has marked to stay would survive.
        self._driver("cuCtxResetPersistingL2Cache")
        size = {"blocks": self._blocks, "threads": THREADS}
        launch(self._driver, self._sweep, stream, address, nbytes, **size)

    def spin(self, stream: int, ns: int) -> None:
        """Queue a kernel of one thread that lasts that many nanoseconds."""
        launch(self._driver, self._spin, stream, ns)


def launch(
    driver: Driver, kernel: int, stream: int, *arguments: int, blocks: int = 1, threads: int = 1
) -> None:
    """Queue a kernel whose parameters are numbers of 64 bits."""
    values = [u64(each) for each in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    place = (blocks, 1, 1, threads, 1, 1, 0, u64(stream), pointers, None)
    driver("cuLaunchKernel", u64(kernel), *place)


def fill_node(kernel: int, target: int, value: int, width: int, nbytes: int) -> tuple[KernelNode, object]:
    """Return a node that fills memory with elements of ``width`` bytes, and what has to live until it is added."""
    values = [u64(each) for each in (target, value, width, nbytes)]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    params = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    return KernelNode(func=kernel, grid=(1, 1, 1), block=(1024, 1, 1), params=params), (values, pointers)
