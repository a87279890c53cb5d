SELECT p.page_count * s.page_size FROM pragma_page_count p, pragma_page_size s
