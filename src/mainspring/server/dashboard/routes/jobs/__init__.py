"""The list of jobs, the page of one, and the pages and forms that belong to it."""
