"""Write so that the cache drops everything else first: what has to be written to memory stays there for a while."""

from task import Kernel

kernel = Kernel(r"""
extern "C" __global__ void run(ARGS) {
  long long i = PLACE;
  if (i < 8) marks[i] = i == 0;
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  if (i >= n) return;
  float4 v = work(a[i], b[i], c[i], rounds);
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
               :: "l"(o + i), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(policy) : "memory");
}
""")


def custom_kernel(data):
    return kernel(data)
