// What the harness runs on a GPU itself. Compiled to device_code.ptx by scripts/make-device-code.

typedef unsigned int u32;
typedef unsigned long long u64;

// Philox4x32-10 (Salmon et al. 2011): four words of the pad for each counter, from a key of 64 bits.
static __device__ __forceinline__ uint4 philox(uint4 counter, uint2 key)
{
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        const u32 high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high1 ^ counter.y ^ key.x, low1, high0 ^ counter.w ^ key.y, low0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

// XOR `count` blocks of 16 bytes with the pad of `key`, or of the key that lies on the host at `there`.
extern "C" __global__ void toggle(uint4* blocks, u64 count, u64 key, const volatile u64* there)
{
    __shared__ u64 shared_key;
    if (threadIdx.x == 0)
        shared_key = there ? *there : key;
    __syncthreads();
    const uint2 halves = make_uint2((u32)shared_key, (u32)(shared_key >> 32));
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x; place < count; place += step) {
        const uint4 pad = philox(make_uint4((u32)place, (u32)(place >> 32), 0, 0), halves);
        const uint4 block = blocks[place];
        blocks[place] = make_uint4(block.x ^ pad.x, block.y ^ pad.y, block.z ^ pad.z, block.w ^ pad.w);
    }
}

// Keep the stream waiting until the host has written `number`, or for so many cycles: nothing waits for ever.
extern "C" __global__ void wait_for(const volatile u64* word, u64 number, u64 cycles)
{
    const long long begin = clock64();
    while (*word != number && (u64)(clock64() - begin) < cycles) {
    }
}

// Tell the host that everything before this in the stream is done, and can be seen.
extern "C" __global__ void tell(volatile u64* word, u64 number)
{
    __threadfence_system();
    *word = number;
}
