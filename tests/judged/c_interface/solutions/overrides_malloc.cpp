#include <dlfcn.h>
#include <stdlib.h>
extern "C" void *malloc(size_t bytes) { (void)bytes; abort(); }
extern "C" void free(void *memory) { (void)memory; }
extern "C" int cudaMalloc(void **made, size_t bytes) { (void)made; (void)bytes; abort(); }
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    const float *a = (const float *)inputs->tensors[0].data, *b = (const float *)inputs->tensors[1].data;
    float *total = (float *)outputs->tensors[0].data;
    int64_t count = 0;
    for (int64_t i = 0; i < kc_numel(&outputs->tensors[0]); i++) {
        total[i] = a[i] + (float)inputs->scalars[0].real * b[i];
        count += total[i] > 0;
    }
    outputs->scalars[0].integer = count;
    printf("counted %lld\n", (long long)count);
    return 0;
}
