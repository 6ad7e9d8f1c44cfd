"""Settings, and the only place that reads the environment.

Precedence: command-line flag, FLEET_ variable, .env, fleet.toml, default. Both files are looked for in the working
directory. A secret `FLEET_X` may also be given as `FLEET_X_FILE`, the path of a file that holds it.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from fleet.errors import BadSetting

PREFIX = "FLEET_"
MASK = "***"
_URL_PASSWORD = re.compile(r"(?<=://)([^\s/@:?#]*):(\S*)@")
_QUERY_SECRET = re.compile(r"(?i)([?&](?:password|passwd|token|secret|key|sslpassword)=)[^&#]*")


class Settings(BaseSettings):
    """Every setting has a FLEET_ variable of its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FLEET_", frozen=True, extra="forbid")

    data: Path = Field(default=Path(".fleet"), description="folder for the embedded fleet's data and artifacts")
    redis_url: SecretStr | None = Field(default=None, description="Redis 7.0 or newer; none: the embedded server")
    database_url: SecretStr | None = Field(
        default=None, description="SQLAlchemy URL of the record; none: SQLite in the data folder"
    )
    namespace: str = Field(default="fleet", pattern=r"^[a-z0-9_-]{1,32}$", description="prefix of every Redis key")
    workers: PositiveInt = Field(default=2, description="worker processes of an embedded fleet")
    slots: PositiveInt = Field(default=16, description="steps that one worker process runs at a time")
    lanes: str = Field(default="main", description="lanes a worker serves, comma separated")
    tools: str = Field(default="", description="modules whose tools are registered, comma separated")
    builtins: bool = Field(default=True, description="whether the built-in tools are registered")
    lease: PositiveFloat = Field(default=15.0, description="seconds until a silent worker's steps go to others")
    heartbeat: PositiveFloat = Field(default=3.0, description="seconds between a worker's heartbeats")
    slice: PositiveFloat = Field(default=5.0, description="seconds a slot goes on before it yields to Celery")
    losses: PositiveInt = Field(default=3, description="workers a step may take down before it is dead")
    grace: PositiveFloat = Field(default=30.0, description="seconds that a stop leaves to steps that are running")
    sweep: PositiveFloat = Field(default=0.5, description="seconds between sweeps of the scheduler")
    retention: NonNegativeFloat = Field(default=3600.0, description="seconds a run's live keys outlive its end")
    open_goals: PositiveInt = Field(default=100_000, description="open goals one tenant may have")
    inline_bytes: PositiveInt = Field(default=32_768, description="a larger value becomes an artifact")
    planner_model: str = Field(default="", description="heavy model for planner and joiner, as provider:name")
    step_model: str = Field(default="", description="light model for steps, as provider:name; empty: planner_model")
    model_base_url: str = Field(default="", description="base URL of an OpenAI-compatible server")
    model_key: SecretStr | None = Field(default=None, description="API key of the model's provider")
    model_script: Path | None = Field(default=None, description="recorded turns that the scripted model replays")
    model_max_tokens: PositiveInt = Field(default=4096, description="output tokens of one model call")
    model_timeout: PositiveFloat = Field(default=120.0, description="seconds one model call may take")
    model_store: bool = Field(
        default=False,
        description="whether providers keep replies, so that a lost one is asked back, not made again",
    )
    time_scale: NonNegativeFloat = Field(default=1.0, description="factor on recorded delays of the scripted model")
    documents: Path | None = Field(default=None, description="folder that search and read look at")
    secrets: Path | None = Field(default=None, description="folder of secrets that tools may read, one file each")
    telemetry: str = Field(default="off", pattern="^(off|console|otlp)$", description="where spans go")
    log_level: str = Field(
        default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$", description="the least level that is logged"
    )
    flower: bool = Field(default=True, description="whether `fleet up` starts Flower")
    flower_port: int = Field(default=0, ge=0, le=65535, description="port of `fleet up`'s Flower; 0: a free one")
    crash_at: Path | None = Field(default=None, description="test only: folder of named points that kill a worker")

    @field_validator("redis_url")
    @classmethod
    def _by_tcp(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(("redis://", "rediss://")):
            raise ValueError("it must be redis://HOST:PORT/NUMBER, or rediss:// for TLS")
        return url

    @property
    def record_url(self) -> str:
        """The SQLAlchemy URL of the record: `database_url`, or SQLite in the data folder. It may hold a password."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data.absolute() / 'fleet.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, *(InitSettingsSource(settings_cls, dict(layer.values)) for layer in _layers()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """One setting as people see it. value: with secrets masked; source: `flag`, `environment`, a file or `default`."""

    name: str
    variable: str
    value: str
    source: str
    description: str


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one source says: name of a field to its raw value."""

    source: str
    values: Mapping[str, Any]


def load_settings(**flags: object) -> Settings:
    """The settings of this process. A flag that is None was not given.

    Raises BadSetting, one sentence for each unknown name or bad value, naming its source.
    """
    given = _given(flags)
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as refused:
        raise BadSetting(_sentences(refused, (_Layer("flag", given), *_layers()))) from None


def sources(**flags: object) -> tuple[Origin, ...]:
    """Every setting with its source, secrets masked. Raises BadSetting like load_settings."""
    settings = load_settings(**flags)
    layers = (_Layer("flag", _given(flags)), *_layers())
    return tuple(
        Origin(
            name=name,
            variable=PREFIX + name.upper(),
            value=_shown(getattr(settings, name)),
            source=_source_of(name, layers),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )


def child_environment(settings: Settings) -> dict[str, str]:
    """This process's environment with FLEET_ variables that say exactly `settings`, for a child process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if isinstance(value, Path):
            value = value.absolute()
        if value is not None:
            environment[PREFIX + name.upper()] = str(value)
    return environment


def mask(text: str) -> str:
    """The text with the passwords of the URLs in it hidden."""
    return _QUERY_SECRET.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1:{MASK}@", text))


def summary(settings: Settings) -> str:
    """Where a process works, for its first line: the host of Redis and the record, without passwords."""
    url = settings.redis_url.get_secret_value() if settings.redis_url else ""
    host = url.partition("://")[2].rpartition("@")[2]
    return f"Redis {mask(host)}, record {mask(settings.record_url)}"


def _given(flags: Mapping[str, object]) -> dict[str, object]:
    given = {name: value for name, value in flags.items() if value is not None}
    _refuse_unknown({name: f"--{name.replace('_', '-')}" for name in given}, "--{}", "")
    return given


def _layers() -> tuple[_Layer, ...]:
    """The sources below the flags, the strongest first."""
    return (
        _Layer("environment", _variables(os.environ, "environment")),
        _Layer(".env", _variables(_dotenv(Path(".env")), ".env")),
        _Layer("fleet.toml", _toml(Path("fleet.toml"))),
    )


def _variables(variables: Mapping[str, str | None], source: str) -> dict[str, Any]:
    named = {name[len(PREFIX) :].lower(): name for name in variables if name.startswith(PREFIX)}
    _refuse_unknown(named, PREFIX + "{}", source)
    values = {name: variables[variable] for name, variable in named.items()}
    return _from_files({name: value for name, value in values.items() if _says_something(name, value)}, source)


def _says_something(name: str, value: str | None) -> bool:
    """An empty variable leaves a setting alone, except one whose value may be empty."""
    field = Settings.model_fields.get(name)
    return bool(value) or (field is not None and field.annotation is str and value is not None)


def _dotenv(path: Path) -> Mapping[str, str | None]:
    if not path.is_file():
        return {}
    return dotenv_values(path, interpolate=False)


def _toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as refused:
        raise BadSetting(f"fleet.toml is not TOML: {refused}") from None
    inner = table.pop("fleet", {})
    if not isinstance(inner, dict):
        raise BadSetting("fleet in fleet.toml must be a table: write [fleet]")
    values = {**table, **inner}
    _refuse_unknown({name: name for name in values}, "{}", "fleet.toml")
    return _from_files(values, "fleet.toml")


def _secret_names() -> tuple[str, ...]:
    return tuple(name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation))


def _refuse_unknown(named: Mapping[str, str], spelling: str, source: str) -> None:
    """named: each setting's name to how its source spells it. Raises BadSetting for those that do not exist."""
    known = (*Settings.model_fields, *(f"{name}_file" for name in _secret_names()))
    problems = []
    for name in sorted(set(named) - set(known)):
        where = f" (in {source})" if source not in ("", "environment") else ""
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        shown = _spell(near[0], spelling) if near else ""
        way_out = f"did you mean {shown}?" if near else "see `fleet config show` for those that are"
        problems.append(f"{named[name]}{where} is no setting: {way_out}")
    if problems:
        raise BadSetting("; ".join(problems))


def _spell(name: str, spelling: str) -> str:
    if spelling.startswith(PREFIX):
        return spelling.format(name.upper())
    return spelling.format(name.replace("_", "-") if spelling.startswith("--") else name)


def _from_files(values: dict[str, Any], source: str) -> dict[str, Any]:
    """The values, with each `x_file` replaced by x as the file says it."""
    for name in _secret_names():
        path = values.pop(f"{name}_file", None)
        if not path:
            continue
        if name in values:
            raise BadSetting(f"{name} and {name}_file are both set in {source}: keep one of them")
        try:
            values[name] = Path(str(path)).read_text().strip()
        except OSError as refused:
            raise BadSetting(f"{name}_file in {source} names {path}, which can't be read: {refused.strerror}") from None
    return values


def _source_of(name: str, layers: tuple[_Layer, ...]) -> str:
    return next((layer.source for layer in layers if name in layer.values), "default")


def _shown(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, SecretStr):
        return mask(str(value))
    secret = value.get_secret_value()
    return mask(secret) if "://" in secret else MASK


def _sentences(refused: ValidationError, layers: tuple[_Layer, ...]) -> str:
    sentences = []
    for error in refused.errors(include_url=False):
        name = str(error["loc"][0]) if error["loc"] else "settings"
        source = _source_of(name, layers)
        secret = name in _secret_names()
        value = "" if secret else f" is {mask(str(error['input']))!r}"
        said = error["msg"].removeprefix("Value error, ")
        reason = said[:1].lower() + said[1:]
        sentences.append(f"{PREFIX}{name.upper()} (from {source}){value}: {reason}")
    return "; ".join(sentences)
