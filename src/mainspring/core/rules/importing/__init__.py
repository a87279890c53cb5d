"""What jobs of other schedulers become: pure rules, none of which imports another scheduler."""
