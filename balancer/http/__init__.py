"""The WSGI application and the server in front of it."""
