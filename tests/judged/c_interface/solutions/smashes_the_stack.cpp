int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    volatile char small[8];
    for (int i = 0; i < (1 << 20); i++) ((volatile char *)small)[i] = 65;
    return small[3];
}
