"""The command line: thin commands over fleet.client and fleet.embedded, each importing what it needs when it runs."""
