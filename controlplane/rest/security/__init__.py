"""Who may ask, and how much: ASGI middleware around `controlplane.rest.app.App`.

    protection = Protection(AuthSettings(password_file="passwords"))
    app = protected(plane.app, protection)

From the outside in: `bounds` keep requests small and few, `headers` add what every answer is to
have, `origins` let browsers ask from pages of others, the `gate` asks who it is. Each is a plain
ASGI application around the next. Import what you need from `protecting` and `settings`: settings
are looked at by programs that serve nothing, too.
"""
