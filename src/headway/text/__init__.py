"""Text and tokens: tokenizers. No torch."""
