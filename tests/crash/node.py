"""A process that takes part: python -m tests.crash.node FOLDER worker lease=2s concurrency=4"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.crash.handlers import build
from tests.crash.processes import end_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("roles")
    parser.add_argument("settings", nargs="*", help="name=value")
    arguments = parser.parse_args()
    end_with_parent()
    settings = dict(setting.split("=", 1) for setting in arguments.settings)
    app = build(arguments.folder, roles=arguments.roles, **settings)
    app.run()


if __name__ == "__main__":
    main()
