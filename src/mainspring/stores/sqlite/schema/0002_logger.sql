-- The name of the logger that wrote a line.
ALTER TABLE mainspring_logs ADD COLUMN logger TEXT NOT NULL DEFAULT '';
