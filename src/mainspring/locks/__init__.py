"""Where named locks may be kept besides the store."""
