-- It runs for the first time, and nothing was told of it since it was claimed.
live.phase = 2 AND live.token = 1 AND live.tail IS NULL AND live.cancel_requested IS NULL
