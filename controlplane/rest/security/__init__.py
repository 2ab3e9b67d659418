"""Authentication, authorization and limits: ASGI middleware around `controlplane.rest.app.App`.

    protection = Protection(AuthSettings(password_file="passwords"))
    app = protected(plane.app, protection)

From the outside in:

- `load_limits`: keeps requests small and few,
- `headers`: adds the configured response headers,
- `hosts`: refuses unknown `Host` headers where no login is required,
- `origins`: controls access from pages of other hosts (CORS),
- `authorization`: authenticates the caller and checks the role.

Each layer is a plain ASGI application around the next. Import from `middleware` and `settings`, not
from this package. So a program that only reads the settings does not load the middleware.
"""
