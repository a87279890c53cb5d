"""Attacks on the HTTP interface, each with the answer that it must get. One table for each area;
`test_attacks.py` sends them all."""
