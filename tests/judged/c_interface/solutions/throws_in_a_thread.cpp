#include <stdexcept>
#include <thread>
int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    std::thread([] { throw std::runtime_error("in a thread"); }).join();
    return 0;
}
