"""What is measured, one family in each file. `catalogue.py` names them all."""
