"""Training: the loop on one page (loop.py), and the stories it leaves to others."""
