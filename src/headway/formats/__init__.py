"""Kinds of files that hold text: bytes to segments, and translated segments to edits of those bytes."""
