"""What pages draw: charts, lanes of the timeline, the life of an execution, the calendar of windows."""
