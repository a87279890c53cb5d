"""Example applications; `python -m examples.demo` shows one at work."""
