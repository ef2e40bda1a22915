// Reads the map of its own memory.
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {}
    if (maps) fclose(maps);
    const float *a = (const float *)inputs->tensors[0].data, *b = (const float *)inputs->tensors[1].data;
    float *c = (float *)outputs->tensors[0].data;
    for (int64_t i = 0; i < kc_numel(&outputs->tensors[0]); i++) c[i] = a[i] + b[i];
    return 0;
}
