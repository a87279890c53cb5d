SELECT id, label FROM mainspring_labels WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY id, label
