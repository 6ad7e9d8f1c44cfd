"""Several processes on one record, some of which are killed."""

import subprocess
import sys

from fleet.core.ids import StepId

PUT = """
import os, signal, sys, time
from fleet.core.outcome import Outcome, Status
from fleet.store.sql.record import Record

url, run, name, count, end = sys.argv[1:]
record = Record.open(url)
done = Outcome(status=Status.SUCCEEDED, value="x" * 100)
record.outcomes.put(run, f"{name}.ready", done, "1.1")
print("ready", flush=True)
sys.stdin.readline()
longest = 0.0
for n in range(int(count)):
    begin = time.perf_counter()
    record.outcomes.put(run, f"{name}.{n}", done, "1.1")
    longest = max(longest, time.perf_counter() - begin)
    if end != "close":
        print(f"{name}.{n}", flush=True)
if end == "die":
    os.kill(os.getpid(), signal.SIGKILL)
record.close()
print(longest)
"""


def start(url: str, run: str, name: str, count: int, end: str) -> "subprocess.Popen[str]":
    line = [sys.executable, "-c", PUT, url, run, name, str(count), end]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(process: "subprocess.Popen[str]") -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def test_four_processes_write_one_database_and_none_starves(record, run, database_url):
    writers = [start(database_url, run, str(n), 200, "close") for n in range(4)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        go(writer)
    longest = [float(writer.communicate(timeout=60)[0]) for writer in writers]
    print("longest wait of a write in each process:", [f"{wait * 1000:.0f} ms" for wait in longest])  # noqa: T201
    assert record.outcomes.count(run) == 4 * 201
    assert max(longest) < 5.0


def test_what_was_answered_before_a_kill_is_there(record, run, database_url):
    """R1: the process dies by SIGKILL as soon as the write has returned."""
    writer = start(database_url, run, "w", 1, "die")
    out, _ = writer.communicate("go\n", timeout=60)
    assert (writer.returncode, out) == (-9, "ready\nw.0\n")
    assert record.outcomes.get(run, StepId("w.0")) is not None


def test_a_process_killed_in_the_middle_of_writes_blocks_nobody(record, run, database_url):
    """R1, R5: its lock goes with it, and all that it was answered is there."""
    writer = start(database_url, run, "w", 1_000_000, "never")
    assert writer.stdout.readline() == "ready\n"
    go(writer)
    answered = [writer.stdout.readline().strip() for _ in range(50)]
    writer.kill()
    rest, _ = writer.communicate(timeout=60)
    answered += [line for line in rest.splitlines() if line.startswith("w.")][:-1]
    assert record.outcomes.put(run, StepId("mine"), record.outcomes.get(run, StepId("w.0")), "1.1")
    kept = {step for page in record.outcomes.pages(run) for step, _ in page}
    assert set(answered) <= kept
