// Starts its process again with itself preloaded.
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    Dl_info self;
    dladdr((void *)&custom_kernel, &self);
    setenv("LD_PRELOAD", self.dli_fname, 1);
    puts("acted");
    fflush(stdout);
    char *argv[] = {(char *)"python", (char *)"-c", (char *)"pass", nullptr};
    execv("/proc/self/exe", argv);
    return 0;
}
