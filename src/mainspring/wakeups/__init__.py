"""Ways to wake up other processes besides the store's own."""
