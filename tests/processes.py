"""Processes that tests start: wait for what they do, and see which are left."""

import os
import time
from pathlib import Path


def wait_until(condition: object, seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def session_members(session: int) -> list[int]:
    members = []
    for entry in os.listdir("/proc"):
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            members.append(int(entry))
    return members
