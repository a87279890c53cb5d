SELECT $totals FROM mainspring_totals
