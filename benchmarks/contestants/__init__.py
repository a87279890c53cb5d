"""Mainspring itself and the raw loops beside it, each with the command line of `benchmarks.command`."""
