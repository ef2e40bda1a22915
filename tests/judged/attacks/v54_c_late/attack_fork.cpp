// Splits into two processes that both answer.
#include <unistd.h>

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    puts("acted");
    fork();
    return 0;
}
