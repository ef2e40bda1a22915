"""A task's own harness that judges the first case and then waits for something that never comes."""

import os
import sys
import threading


def main():
    from reference import check_implementation, generate_input
    from submission import custom_kernel

    _mode, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        line = file.readline().strip()
    case = {key.strip(): int(value) for key, value in (part.split(":") for part in line.split(";"))}
    data = generate_input(**case)
    error = check_implementation(data, custom_kernel(data.clone()))
    status = "fail" if error else "pass"
    text = f"test-count: 2\ntest.0.spec: {line}\ntest.0.status: {status}\ntest.0.error: {error}\n"
    os.write(int(os.environ["POPCORN_FD"]), text.encode())
    threading.Event().wait()


if __name__ == "__main__":
    main()
