#include <stdexcept>
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    throw std::runtime_error("thrown through C");
}
