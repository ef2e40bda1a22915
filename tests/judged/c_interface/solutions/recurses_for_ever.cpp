static int deeper(volatile char *before) {
    volatile char here[4096];
    here[0] = before[0];
    return deeper(here) + here[1];
}
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    volatile char first = 1;
    return deeper(&first);
}
