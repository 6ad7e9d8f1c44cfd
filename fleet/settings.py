"""Settings, and the only place that reads the environment.

Precedence: command-line flag, FLEET_ variable, .env, fleet.toml, default.
"""

from pathlib import Path

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


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
    lease: PositiveFloat = Field(default=15.0, description="seconds until a silent worker's steps go to others")
    heartbeat: PositiveFloat = Field(default=3.0, description="seconds between a worker's heartbeats")
    slice: PositiveFloat = Field(default=5.0, description="seconds a slot goes on before it yields to Celery")
    losses: PositiveInt = Field(default=3, description="workers a step may take down before it is dead")
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
    time_scale: NonNegativeFloat = Field(default=1.0, description="factor on recorded delays of the scripted model")
    documents: Path | None = Field(default=None, description="folder that search and read look at")
    telemetry: str = Field(default="off", pattern="^(off|console|otlp)$", description="where spans go")
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    flower: bool = Field(default=True, description="whether `fleet up` starts Flower")
    crash_at: str = Field(default="", description="test only: named point at which a worker kills itself")
