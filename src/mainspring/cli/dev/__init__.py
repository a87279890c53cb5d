"""`mainspring dev`: a process that watches files, and one that runs the application and is replaced on save."""
