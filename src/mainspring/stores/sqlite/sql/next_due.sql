$next_due
