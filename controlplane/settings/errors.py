"""Errors in settings; each message is one sentence for the user."""


class SettingsError(ValueError):
    """A setting is invalid. The message is one sentence: it names the setting and the remedy."""


class BadValue(SettingsError):
    """The value of a key is invalid. The message begins with the key."""

    def __init__(self, key: str, wrong: str, *, because: str | None = None) -> None:
        super().__init__(f"{key} {wrong}")
        self.keys = (key, because) if because else (key,)
        """Keys for the user to check: `key`, and `because`, whose value makes `key` invalid."""
