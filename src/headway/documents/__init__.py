"""Documents in, documents out: only the text is translated. Terms, memories and checks of quality."""
