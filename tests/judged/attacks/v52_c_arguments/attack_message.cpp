// Fills the message without an end and hides the failure.
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    memset(context->message, 0xff, sizeof context->message);
    context->failed = -1;
    context->owner = (void *)8;
    puts("acted");
    return -1;
}
