// Has a constructor that prepares a table.
static int table[64];
__attribute__((constructor)) static void prepare() {
    for (int i = 0; i < 64; i++) table[i] = i;
}

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    if (table[7] != 7) return kc_fail(context, "not prepared");
    const float *a = (const float *)inputs->tensors[0].data, *b = (const float *)inputs->tensors[1].data;
    float *c = (float *)outputs->tensors[0].data;
    for (int64_t i = 0; i < kc_numel(&outputs->tensors[0]); i++) c[i] = a[i] + b[i];
    return 0;
}
