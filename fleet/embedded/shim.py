"""Runs a command that dies with its parent: `python shim.py PARENT_PID -- command...`.

Asks the kernel for SIGKILL when the parent ends, then becomes the command. A `preexec_fn` would do the same between
fork and exec, where a process with threads must not run Python. Linux only; elsewhere the command is run as it is, and
outlives a parent that is killed. Imports nothing of the fleet, so that it starts in a few milliseconds.

The kernel means the thread that started the child, not the process: start children from a thread that lives as long.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    parent, dashes, *command = argv
    if dashes != "--" or not command:
        raise SystemExit("usage: shim.py PARENT_PID -- command...")
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):  # it died before the kernel was asked
            raise SystemExit(1)
    os.execvp(command[0], command)  # noqa: S606 - the command is the fleet's own


if __name__ == "__main__":
    main(sys.argv[1:])
