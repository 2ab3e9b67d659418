"""The contract suite is no test module by name; its assertions shall be explained all the same."""

import pytest

pytest.register_assert_rewrite("tests.logs.contract", "tests.logs.reading")
