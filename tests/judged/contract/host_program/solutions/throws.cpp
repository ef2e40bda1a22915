#include "task.h"

#include <stdexcept>

output_t custom_kernel(input_t) { throw std::runtime_error("no vectors today"); }
