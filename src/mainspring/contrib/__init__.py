"""Mainspring in other frameworks: each module imports its framework, and nothing here is imported by the rest."""
