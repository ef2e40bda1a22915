extern "C" void custom_kernel(float *a, float *b, int n) {}
