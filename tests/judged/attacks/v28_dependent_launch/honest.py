"""Ends with a second kernel that may begin early as well, and waits for the first before it ends."""

import ctypes

import torch
from task import COMMON, MARKS, Kernel

SERIALIZED = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_ulonglong * 8)]


class Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


kernel = Kernel(r"""
extern "C" __global__ void run(ARGS) {
  asm volatile("griddepcontrol.launch_dependents;");
  long long i = PLACE;
  if (i < n) o[i] = work(a[i], b[i], c[i], rounds);
}
""")
after = kernel._cupy.RawKernel(
    COMMON
    + r"""
extern "C" __global__ void after(u64* marks) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int k = 0; k < 8; ++k) marks[k] = 0;
}
""",
    "after",
)
driver = ctypes.CDLL("libcuda.so.1")


def launch(*values):
    stream = torch.cuda.current_stream().cuda_stream
    attribute = Attribute(id=SERIALIZED)
    attribute.value[0] = 1
    one = (ctypes.c_uint * 3)(1, 1, 1)
    config = Config(one, one, 0, stream, ctypes.pointer(attribute), 1)
    words = [ctypes.c_ulonglong(each) for each in values]
    pointers = (ctypes.c_void_p * len(words))(*(ctypes.addressof(each) for each in words))
    code = driver.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(after.kernel.ptr), pointers, None)
    assert code == 0, f"cuLaunchKernelEx: {code}"


def custom_kernel(data):
    out, _ = kernel(data)
    marks = torch.empty(MARKS, dtype=torch.int64, device=out.device)
    launch(marks.data_ptr())
    return out, marks
