"""Compiler passes, one small file each. A pass gives problems, never an exception."""
