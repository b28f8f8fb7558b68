"""The signatures of the compiled module."""

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, final

Json: TypeAlias = dict[str, Any]
StrPath: TypeAlias = str | os.PathLike[str]
Provider: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "ollama", "mcp"]
Query: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
"""A request, or a transcript in a provider's format, whose last user message is the request."""

class EncodesTexts(Protocol):
    """A model such as those of sentence-transformers."""

    def encode(self, sentences: list[str], /) -> Any: ...

Model: TypeAlias = Literal["static", "tuned"] | Callable[[list[str]], Any] | EncodesTexts | None
"""The embedding model. A callable takes texts and returns one vector per text: a numpy array of texts × dimensions, or
lists of numbers. None ranks by keywords only."""

Scorer: TypeAlias = Callable[[str, list["Tool"]], Iterable[float | tuple[float, str]]]
"""A ranking. It takes the text of a request and the eligible tools, and returns one score from 0 to 1 per tool, in order,
or one pair of a score and a reason. An exception is not raised, but reported in `Selection.degraded`."""

class AccessDict(TypedDict, total=False):
    """The access policy of the caller. A missing member has its strict default."""

    allow_unsafe: bool
    roles: Sequence[str]
    execution_mode: str | None
    capabilities: Sequence[str]
    max_cost: float | None
    max_threat_level: Literal["low", "medium", "high", "critical"] | None
    quotas: Mapping[str, int]
    allow_sources: Sequence[str]
    deny_sources: Sequence[str]
    exclude: Sequence[str]
    quarantine: Sequence[str]

__version__: str

@final
class Tool:
    """A tool of a catalog."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def description(self) -> str: ...
    @property
    def source(self) -> str | None: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def parameters(self) -> Json | None: ...
    @property
    def untrusted(self) -> bool: ...
    @property
    def is_unsafe(self) -> bool: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Json: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Pick:
    """A picked tool with its score and reason."""

    @property
    def tool(self) -> Tool: ...
    @property
    def score(self) -> float: ...
    @property
    def reason(self) -> str: ...
    @property
    def provenance(self) -> Json: ...
    @property
    def same_as(self) -> list[str]: ...
    @property
    def shown(self) -> Tool: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Json: ...

@final
class Selection:
    """The result of a pick."""

    @property
    def picks(self) -> list[Pick]: ...
    @property
    def required(self) -> list[Pick]: ...
    @property
    def shown(self) -> list[Tool]: ...
    @property
    def version(self) -> int: ...
    @property
    def catalog_digest(self) -> str: ...
    @property
    def scorer(self) -> str: ...
    @property
    def scorer_errors(self) -> list[str]: ...
    @property
    def answerable(self) -> float | None: ...
    @property
    def above_threshold(self) -> int: ...
    @property
    def below_threshold(self) -> int: ...
    @property
    def nothing_fits(self) -> Json | None: ...
    @property
    def uncalibrated(self) -> str | None: ...
    @property
    def ineligible(self) -> Json: ...
    @property
    def blocked(self) -> Json | None: ...
    @property
    def skills(self) -> list[Json] | None: ...
    @property
    def dropped(self) -> list[Json]: ...
    @property
    def degraded(self) -> list[Json]: ...
    @property
    def unknown_values(self) -> list[Json]: ...
    @property
    def tokens(self) -> Json | None: ...
    @property
    def timings(self) -> dict[str, float]: ...
    def to_json(self, *, pretty: bool = False) -> str: ...
    def to_dict(self) -> Json: ...
    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Pick]: ...
    def __getitem__(self, index: int, /) -> Pick: ...

@final
class Translation:
    """Tools in a provider's format."""

    @property
    def provider(self) -> Provider: ...
    @property
    def tools(self) -> list[Json]: ...
    @property
    def names(self) -> dict[str, str]: ...
    @property
    def changes(self) -> list[Json]: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Json: ...

@final
class Call:
    """The result of the validation of a model's call."""

    @property
    def status(self) -> Literal["ready", "needs_approval", "refused"]: ...
    @property
    def id(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def tool(self) -> Tool | None: ...
    @property
    def arguments(self) -> Json | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def awaits(self) -> str | None: ...
    def result(self, output: Any) -> CallResult: ...
    def failed(self, message: str | None = None) -> CallResult: ...
    def to_json(self) -> str: ...
    def to_dict(self) -> Json: ...

@final
class CallResult:
    """The result of one call, for the model."""

@final
class Approvals:
    """Calls that wait for a person's approval, for a limited time."""

    def __new__(cls, lifetime: float | None = None) -> Approvals: ...
    def add(self, call: Call) -> int: ...
    @property
    def waiting(self) -> list[tuple[int, Call]]: ...
    def approve(self, ticket: int) -> Call: ...
    def deny(self, ticket: int) -> Call: ...

@final
class Catalog:
    """An immutable set of tools."""

    @staticmethod
    def open(
        *paths: StrPath,
        source: str | None = None,
        untrusted_sources: Iterable[str] = (),
        aliases: StrPath | Mapping[str, str] | None = None,
        conflicts: Literal["strict", "warn"] = "strict",
        allow_no_schema: Literal["read-only", "human-approval", "full"] | None = None,
    ) -> Catalog: ...
    @staticmethod
    def from_tools(
        tools: Iterable[Any],
        *,
        source: str | None = None,
        untrusted_sources: Iterable[str] = (),
        aliases: StrPath | Mapping[str, str] | None = None,
        conflicts: Literal["strict", "warn"] = "strict",
        allow_no_schema: Literal["read-only", "human-approval", "full"] | None = None,
    ) -> Catalog: ...
    @staticmethod
    def from_mcp(
        tools: Any,
        *,
        source: str | None = None,
        untrusted_sources: Iterable[str] = (),
        aliases: StrPath | Mapping[str, str] | None = None,
        conflicts: Literal["strict", "warn"] = "warn",
        allow_no_schema: Literal["read-only", "human-approval", "full"] | None = None,
    ) -> Catalog: ...
    @staticmethod
    def from_openapi(
        document: StrPath | Mapping[str, Any],
        *,
        source: str | None = None,
        untrusted_sources: Iterable[str] = (),
        aliases: StrPath | Mapping[str, str] | None = None,
        conflicts: Literal["strict", "warn"] = "strict",
    ) -> Catalog: ...
    @property
    def digest(self) -> str: ...
    @property
    def notices(self) -> list[str]: ...
    @property
    def tools(self) -> list[Tool]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tool]: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __getitem__(self, id: str, /) -> Tool: ...

@final
class Engine:
    """An immutable engine that picks tools from an indexed catalog."""

    def __new__(
        cls,
        catalog: Catalog,
        model: Model = "static",
        *,
        model_name: str | None = None,
        cache_dir: StrPath | None = None,
        skills: StrPath | None = None,
        examples: StrPath | Iterable[tuple[str, str]] | None = None,
        sequences: StrPath | Iterable[Sequence[str]] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
    ) -> Engine: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def stats(self) -> Json: ...
    @property
    def skill_notices(self) -> list[str]: ...
    def pick(
        self,
        query: Query,
        k: int = 3,
        *,
        access: AccessDict | None = None,
        scorer: Scorer | None = None,
        shortlist: int | None = None,
        **options: Any,
    ) -> Selection: ...
    def apick(
        self,
        query: Query,
        k: int = 3,
        *,
        access: AccessDict | None = None,
        scorer: Scorer | None = None,
        shortlist: int | None = None,
        **options: Any,
    ) -> Awaitable[Selection]: ...
    def pick_batch(
        self,
        queries: Iterable[Query],
        k: int = 3,
        *,
        access: AccessDict | None = None,
        scorer: Scorer | None = None,
        shortlist: int | None = None,
        **options: Any,
    ) -> list[Selection]: ...
    def resolve(self, name: str) -> Json: ...
    def translate(
        self,
        provider: Provider,
        tools: Selection | Iterable[Tool | str] | None = None,
        *,
        strict: bool | None = None,
        deferred: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> Translation: ...
    def validate(
        self,
        calls: Any,
        *,
        translation: Translation | None = None,
        access: AccessDict | None = None,
        text_calls: bool = False,
    ) -> list[Call]: ...
    def tool_call(
        self,
        query: Query,
        ask: Callable[[list[Json]], Any],
        provider: Provider = "openai",
        k: int = 3,
        *,
        access: AccessDict | None = None,
        scorer: Scorer | None = None,
        shortlist: int | None = None,
        **options: Any,
    ) -> list[Call]: ...
    def update(self, put: Iterable[Any] = (), remove: Iterable[str] = ()) -> Engine: ...
    def learn(self, served: Iterable[tuple[str, str]]) -> Engine: ...
    def save(self, folder: StrPath) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def check(tools: Any, *, untrusted_sources: Iterable[str] = ()) -> Json: ...
def evaluate(
    engine: Engine,
    queries: Mapping[str, Query],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    measures: Iterable[str] = ("nDCG@10", "R@5", "Success@1"),
    access: AccessDict | None = None,
    scorer: Scorer | None = None,
    shortlist: int | None = None,
    **options: Any,
) -> Json: ...
def results(provider: Provider, results: Iterable[CallResult]) -> list[Json]: ...
