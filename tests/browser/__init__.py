"""A package, so that pytest ends its fixtures before it goes on to another suite: see `browser` in conftest.py."""
