"""Runs a command on a terminal on which a person answers the first question with `y`, and prints what it shows."""

import os
import pty
import sys

shown = b""
answered = False
process, terminal = pty.fork()
if process == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    shown += part
    if b"[y/N]" in shown and not answered:
        answered = True
        os.write(terminal, b"y\n")
os.waitpid(process, 0)
sys.stdout.buffer.write(shown)
