"""The filter language of lists and bulk actions: each field is defined once, with its check and its description.

`executions.py` and `jobs.py` hold one table each. Each table defines the query parameters and the `filter` object of
the HTTP interface, the options of the command line, the arguments of `app.executions` and `app.jobs`, and the table in
docs/filters.md.
"""
