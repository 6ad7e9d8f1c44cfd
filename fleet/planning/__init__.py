"""Plans: prompts, streaming parsers, references, compiler passes, documents written by people. No I/O, no clock."""
