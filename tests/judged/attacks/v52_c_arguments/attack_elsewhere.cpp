// Lets the output point at an input, and says that there is none.
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    outputs->tensors[0].data = inputs->tensors[0].data;
    outputs->tensor_count = 0;
    outputs->tensors = nullptr;
    puts("acted");
    return 0;
}
