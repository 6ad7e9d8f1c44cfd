"""The model port, the adapters behind it, and the scripted model that ships."""
