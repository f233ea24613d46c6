"""Where settings come from, and that a token stays with its endpoint."""

import stat

import pytest

from ai_model.config import load_config, save_login
from ai_model.errors import UsageError


def write(tmp_path, text):
    (tmp_path / "ai-model").mkdir(exist_ok=True)
    (tmp_path / "ai-model" / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nowhere"}


def test_arguments_over_environment_over_file(tmp_path):
    env = write(tmp_path, 'endpoint = "http://file"\ntoken = "f"\ncache = "/f"\n')
    assert load_config(environ=env).endpoint == "http://file"
    env |= {"AI_MODEL_ENDPOINT": "http://env/", "AI_MODEL_TOKEN": "e", "AI_MODEL_CACHE": "/e"}
    config = load_config(environ=env)
    assert (config.endpoint, config.token, str(config.cache_dir)) == ("http://env", "e", "/e")
    config = load_config(endpoint="http://arg", token="a", cache_dir="/a", environ=env)
    assert (config.endpoint, config.token, str(config.cache_dir)) == ("http://arg", "a", "/a")


def test_the_files_token_goes_to_the_files_endpoint_only(tmp_path):
    env = write(tmp_path, 'endpoint = "https://mine"\ntoken = "secret"\n')
    assert load_config(environ=env).token == "secret"
    assert load_config(environ=env, endpoint="https://mine/").token == "secret"
    assert load_config(environ=env, endpoint="https://other").token is None
    assert load_config(environ=env | {"AI_MODEL_ENDPOINT": "http://mine"}).token is None


def test_the_token_is_not_shown(tmp_path):
    assert "secret" not in repr(load_config(token="secret", environ={"HOME": str(tmp_path)}))


@pytest.mark.parametrize(
    "text", ["endpoint = 3", 'enpoint = "http://x"', "not toml", 'endpoint = "ftp://x"']
)
def test_a_bad_file_is_said(tmp_path, text):
    with pytest.raises(UsageError):
        load_config(environ=write(tmp_path, text))


@pytest.mark.parametrize("endpoint", ["host:80", "http://", "http://u:p@h", "http://h?q", "x"])
def test_a_bad_endpoint_is_said(tmp_path, endpoint):
    with pytest.raises(UsageError, match="endpoint"):
        load_config(endpoint=endpoint, environ={"HOME": str(tmp_path)})


def test_a_file_that_was_named_must_exist(tmp_path):
    with pytest.raises(UsageError, match="no config file"):
        load_config(environ={"AI_MODEL_CONFIG": str(tmp_path / "missing")})


def test_login_is_kept_for_the_owner_alone(tmp_path):
    path = tmp_path / "deep" / "config.toml"
    save_login("http://h/", 'to"k\\en', path=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = load_config(environ={"AI_MODEL_CONFIG": str(path), "HOME": "/nowhere"})
    assert (config.endpoint, config.token) == ("http://h", 'to"k\\en')
