INSERT INTO mainspring_slots (key, seq) VALUES /*rows*/(?, ?)/*end*/
