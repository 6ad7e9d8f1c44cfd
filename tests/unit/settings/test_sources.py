"""Where settings come from, which one wins, and what is refused."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from fleet.errors import BadSetting
from fleet.settings import Settings, child_environment, load_settings, mask, sources


@pytest.fixture(autouse=True)
def _empty_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in child_environment(Settings()):
        if variable.startswith("FLEET_"):
            monkeypatch.delenv(variable, raising=False)


def test_a_flag_wins_over_the_environment_over_dotenv_over_toml_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_settings().slots == 16
    Path("fleet.toml").write_text("[fleet]\nslots = 1\nworkers = 7\n")
    assert load_settings().slots == 1
    Path(".env").write_text("FLEET_SLOTS=2\nPOSTGRES_PASSWORD=of-another\n")
    assert load_settings().slots == 2
    monkeypatch.setenv("FLEET_SLOTS", "3")
    assert load_settings().slots == 3
    assert load_settings(slots=4).slots == 4
    assert load_settings(slots=None).slots == 3
    origin = {each.name: each.source for each in sources(lease=1.0)}
    assert (origin["slots"], origin["workers"]) == ("environment", "fleet.toml")
    assert (origin["lease"], origin["namespace"]) == ("flag", "default")


def test_toml_may_be_written_without_a_table() -> None:
    Path("fleet.toml").write_text("workers = 5\n")
    assert load_settings().workers == 5


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("FLEET_SLOT", "FLEET_SLOT is no setting: did you mean FLEET_SLOTS?"),
        ("FLEET_REDIS", "FLEET_REDIS is no setting: did you mean FLEET_REDIS_URL?"),
        ("FLEET_MODEL_KEYFILE", "FLEET_MODEL_KEYFILE is no setting: did you mean FLEET_MODEL_KEY_FILE?"),
        ("FLEET_XYZZY", "FLEET_XYZZY is no setting: see `fleet config show` for those that are"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    variable: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(BadSetting) as refused:
        load_settings()
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        (".env", "FLEET_SLOT=1", "FLEET_SLOT (in .env) is no setting: did you mean FLEET_SLOTS?"),
        ("fleet.toml", "[fleet]\nslot = 1", "slot (in fleet.toml) is no setting: did you mean slots?"),
        ("fleet.toml", "slots = ", "fleet.toml is not TOML"),
        ("fleet.toml", "fleet = 1", "fleet in fleet.toml must be a table"),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_the_files_name(file: str, text: str, sentence: str) -> None:
    Path(file).write_text(text)
    with pytest.raises(BadSetting) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence)


def test_a_misspelt_flag_is_refused() -> None:
    with pytest.raises(BadSetting, match="--slot is no setting: did you mean --slots"):
        load_settings(slot=1)


def test_each_bad_value_is_a_sentence_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_SLOTS", "many")
    Path(".env").write_text("FLEET_LEASE=-1\n")
    with pytest.raises(BadSetting) as refused:
        load_settings(workers=0)
    workers, slots = sorted(str(refused.value).split("; "))[2], sorted(str(refused.value).split("; "))[1]
    assert "FLEET_LEASE (from .env) is '-1': input should be greater than 0" in str(refused.value)
    assert slots.startswith("FLEET_SLOTS (from environment) is 'many': input should be a valid integer")
    assert workers.startswith("FLEET_WORKERS (from flag) is '0': input should be greater than 0")


def test_an_empty_variable_leaves_a_number_alone_and_empties_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleet.toml").write_text('slots = 3\ntools = "mine"\nredis_url = "redis://h/0"\n')
    for variable in ("FLEET_SLOTS", "FLEET_TOOLS", "FLEET_REDIS_URL"):
        monkeypatch.setenv(variable, "")
    settings = load_settings()
    assert (settings.slots, settings.tools) == (3, "")
    assert settings.redis_url is not None


def test_a_secret_may_be_in_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("key").write_text("sk-1234\n")
    monkeypatch.setenv("FLEET_MODEL_KEY_FILE", "key")
    assert load_settings().model_key == SecretStr("sk-1234")
    monkeypatch.setenv("FLEET_MODEL_KEY", "sk-5678")
    with pytest.raises(BadSetting, match="model_key and model_key_file are both set in environment"):
        load_settings()


def test_a_secret_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_MODEL_KEY_FILE", "nowhere")
    with pytest.raises(BadSetting, match="model_key_file in environment names nowhere"):
        load_settings()


def test_no_secret_is_ever_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """R38"""
    monkeypatch.setenv("FLEET_REDIS_URL", "rediss://user:hush@redis.internal:6380/1")
    monkeypatch.setenv("FLEET_DATABASE_URL", "postgresql+psycopg://fleet:hush@db/fleet?sslpassword=hush")
    monkeypatch.setenv("FLEET_MODEL_KEY", "sk-hush")
    monkeypatch.setenv("FLEET_MODEL_BASE_URL", "http://me:hush@models.internal/v1")
    shown = {each.name: each.value for each in sources()}
    assert "hush" not in str(shown)
    assert "hush" not in repr(load_settings().model_copy(update={"model_base_url": ""}))
    assert shown["redis_url"] == "rediss://user:***@redis.internal:6380/1"
    assert shown["model_key"] == "***"
    assert shown["model_base_url"] == "http://me:***@models.internal/v1"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("redis://:p@h/0", "redis://:***@h/0"),
        ("redis://u:p@w/o?r#d@h:1/0", "redis://u:***@h:1/0"),
        ("redis://h:6379/0?password=p&db=1", "redis://h:6379/0?password=***&db=1"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("no url at all: 1@2", "no url at all: 1@2"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, masked: str) -> None:
    assert mask(url) == masked


def test_a_child_process_gets_exactly_these_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("fleet.toml").write_text('tools = "mine"\n')
    Path("key").write_text("sk-1234")
    monkeypatch.setenv("FLEET_MODEL_KEY_FILE", "key")
    settings = load_settings(slots=3, tools="", data=Path("here"), redis_url="redis://:p@h/0")
    environment = child_environment(settings)
    for variable in [name for name in environment if name.startswith("FLEET_")]:
        monkeypatch.setenv(variable, environment[variable])
    monkeypatch.delenv("FLEET_MODEL_KEY_FILE")
    assert "FLEET_MODEL_KEY_FILE" not in environment
    assert "PATH" in environment
    assert load_settings() == settings.model_copy(update={"data": Path("here").absolute()})


def test_the_record_is_a_file_in_the_data_folder_unless_a_url_says_otherwise() -> None:
    assert Settings(data=Path("/d")).record_url == "sqlite:////d/fleet.db"
    assert Settings(database_url=SecretStr("sqlite:///x")).record_url == "sqlite:///x"


@pytest.mark.parametrize("url", ["unix:///run/redis.sock", "localhost:6379", "http://:s3cret@example.org"])
def test_a_redis_url_of_another_kind_is_refused_without_showing_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_REDIS_URL", url)
    with pytest.raises(BadSetting, match=r"FLEET_REDIS_URL .*: it must be redis://HOST:PORT/NUMBER") as refused:
        load_settings()
    assert url not in str(refused.value)
