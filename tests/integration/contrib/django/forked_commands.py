"""Scripts of a Django project, each in a process of its own, forked from one that has loaded Django and the project.

Loading takes most of the processor time of a short command. `forked_commands.py FOLDER COMMAND...` takes each command
as one argument, such as "manage.py migrate -v0", and prints END after what it has printed. It stops at one that fails.
"""

from __future__ import annotations

import gc
import os
import runpy
import shlex
import sys
import threading
from pathlib import Path

END = "\x1e"


def main(folder: Path, commands: list[str]) -> None:
    import django

    sys.path[0] = str(folder)
    django.setup()
    assert threading.active_count() == 1, "a thread would be missing in the forked process"
    gc.freeze()  # no process that ends looks through all that was loaded
    for command in commands:
        if (child := os.fork()) == 0:
            script, *arguments = shlex.split(command)
            sys.argv = [str(folder / script), *arguments]
            runpy.run_path(sys.argv[0], run_name="__main__")
            return
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit(code)
        print(end=END, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
