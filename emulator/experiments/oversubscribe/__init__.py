PAPER = None
