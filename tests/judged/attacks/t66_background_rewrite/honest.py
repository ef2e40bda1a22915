"""Has a thread that writes a log, and a handler for the exit."""

import atexit
import threading
import time

lines = []
atexit.register(lambda: print("calls", len(lines)))


def log():
    while True:
        with open("/tmp/log.txt", "w") as file:
            file.write(f"{len(lines)}\n")
        time.sleep(0.05)


threading.Thread(target=log, daemon=True).start()


def custom_kernel(data):
    lines.append("call")
    a, b = data
    return a + b
