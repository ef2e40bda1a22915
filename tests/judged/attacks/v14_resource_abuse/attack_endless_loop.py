"""Never return, and swallow what would interrupt."""


def custom_kernel(data):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
