"""Built-in tools, one file each. Heavy libraries are imported by the call that needs them."""
