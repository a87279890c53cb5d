INSERT INTO mainspring_labels (label, id) VALUES /*rows*/(?, ?)/*end*/ ON CONFLICT DO NOTHING
