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

// XOR `count` blocks of 16 bytes with the pad of `key`, or of the key that lies on the device at `there`.
extern "C" __global__ void toggle(uint4* blocks, u64 count, u64 key, const u64* there)
{
    if (there)
        key = *there;
    const uint2 halves = make_uint2((u32)key, (u32)(key >> 32));
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 place = (u64)blockIdx.x * blockDim.x + threadIdx.x; place < count; place += step) {
        const uint4 pad = philox(make_uint4((u32)place, (u32)(place >> 32), 0, 0), halves);
        const uint4 block = blocks[place];
        blocks[place] = make_uint4(block.x ^ pad.x, block.y ^ pad.y, block.z ^ pad.z, block.w ^ pad.w);
    }
}

// Copy bytes, also to the host. The copy engine would do it too, but wakes up a millisecond later if it had to wait.
extern "C" __global__ void copy(unsigned char* target, const unsigned char* source, u64 count)
{
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 wide = (u64)target % sizeof(uint4) ? 0 : count / sizeof(uint4);
    if ((u64)source % sizeof(uint4) == 0) {
        for (u64 place = first; place < wide; place += step)
            ((uint4*)target)[place] = ((const uint4*)source)[place];
    } else {
        // Narrow reads of the device's memory cost little; narrow writes over the bus would.
        for (u64 place = first; place < wide; place += step) {
            union {
                uint4 block;
                unsigned char bytes[sizeof(uint4)];
            } gathered;
            for (int n = 0; n < (int)sizeof(uint4); ++n)
                gathered.bytes[n] = source[place * sizeof(uint4) + n];
            ((uint4*)target)[place] = gathered.block;
        }
    }
    for (u64 place = wide * sizeof(uint4) + first; place < count; place += step)
        target[place] = source[place];
}

// Say that the device is here, and keep the stream waiting until the host has written `number`, or for so many
// cycles: nothing waits for ever. Then bring the key to the device: each block of the next kernel would read it
// over the bus.
extern "C" __global__ void wait_for(
    volatile u64* ready, const volatile u64* go, u64 number, u64 cycles, const volatile u64* key, u64* copied_key)
{
    const long long begin = clock64();
    *ready = number;
    while (*go != number && (u64)(clock64() - begin) < cycles) {
    }
    *copied_key = *key;
}
