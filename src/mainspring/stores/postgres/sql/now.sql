SELECT mainspring.now_micros()
