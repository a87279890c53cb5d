-- The name of the logger that wrote a line.
ALTER TABLE mainspring.log ADD COLUMN logger text NOT NULL DEFAULT '';
