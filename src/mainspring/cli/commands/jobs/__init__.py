"""Jobs, their schedules, and what they run."""
