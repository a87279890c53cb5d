"""The dashboard: server-rendered pages over the same queries and commands as the API.

`visit` is one request for a page: its principal, the viewer's zone, links and the template environment. `routes/` has
one file per page; a page is a template in `templates/`, in the folder of its area. Forms are read by `forms` and shown
again by `refusals` if they are refused; charts are drawn by `charts`, texts for people made by `format`. `live` keeps
open pages up to date.
"""
