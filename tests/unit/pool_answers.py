"""What the processes of `test_jobs.py` do: they import it by name."""

import os
import time
from contextlib import contextmanager


@contextmanager
def planted(*ends):
    """Answers a number with its square. An entry of `ends` ends the process at this number: `start` before it is ready."""
    if "start" in ends:
        os._exit(7)

    def answer(number):
        if number in ends:
            os._exit(9)
        if number < 0:
            raise ValueError("negative")
        time.sleep(0.05 if number % 7 == 0 else 0)
        return number * number

    yield answer


@contextmanager
def sleeping(path):
    """Writes a file when it begins an item, and answers after a minute."""

    def answer(number):
        with open(f"{path}.{number}", "w", encoding="utf-8") as file:
            file.write("begun")
        time.sleep(60)

    yield answer
