-- Small durable records beside jobs and executions. Texts are compared byte by byte, which is the order of code points.
CREATE TABLE mainspring_shelf (
    kind    TEXT NOT NULL,
    scope   TEXT NOT NULL,
    key     TEXT NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (kind, scope, key)
) WITHOUT ROWID;
