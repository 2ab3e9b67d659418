"""Who may ask, and how much: ASGI middleware around `controlplane.rest.app.App`.

    app = protected(plane.app, Protection(auth=AuthSettings(password_file="passwords")))

From the outside in: `metrics` count (where they are asked for), `bounds` keep requests small,
`headers` add what every answer is to have, `origins` let browsers ask from elsewhere, the `gate`
asks who it is. Each is a plain ASGI application around the next, and none is needed by another.
"""
