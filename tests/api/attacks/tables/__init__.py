"""The attacks, one table for each area."""
