SELECT mainspring.keep_partitions()
