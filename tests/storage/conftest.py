"""The contract's assertions explain themselves like those of a test module."""

import pytest

pytest.register_assert_rewrite("tests.storage.contract")
