"""The data flow of a pick: the values, the stages that make them, what goes in, and what happens if a stage fails."""

from .flow import LEFT, MIDDLE, WIDTH, Flow, headed, headings, legend, note
from .svg import arrow, box, card, picture, text

TITLE = "The data flow of a pick, from the request to the selection."
HEIGHT = 964
# The values and the functions that the picture shows.
NAMES = [
    ("src/engine/request.rs", "ResolvedRequest::new"),
    ("src/engine/retrieval.rs", "RequestRetriever::retrieve"),
    ("src/engine/retrieval.rs", "Retrieval"),
    ("src/engine/ranking.rs", "RequestRanking"),
    ("src/engine/ranking.rs", "rank"),
    ("src/engine/ranking.rs", "FusedRanking"),
    ("src/engine/ranking.rs", "ScorerRanking"),
    ("src/engine/ranking.rs", "CatalogOrder"),
    ("src/engine/ranking.rs", "extended"),
    ("src/engine/skills.rs", "SkillIndex::pick"),
    ("src/engine/shortlist.rs", "Shortlist::new"),
    ("src/engine/rerank.rs", "rerank"),
    ("src/engine/decisions.rs", "Decisions::new"),
    ("src/engine/outcome.rs", "PickOutcome::into_selection"),
]
LEGEND = [
    (20, "value", "an immutable value"),
    (190, "stage", "a stage, with its file in src/engine"),
    (454, "stop", "the pick ends"),
    (590, "warning", "it goes on; Selection.degraded says why"),
]
RANKINGS = [("FusedRanking", "retrievers"), ("ScorerRanking", "custom scorer"), ("CatalogOrder", "last resort")]


def value(flow, name, *lines):
    return flow.step([(name, "name"), *note(*lines)[0]], "value")


def stage(flow, function, file):
    return flow.step([(function, "mono")], "stage", aside=file)


def ranking(flow):
    """Draws the ranking with its implementations. Returns the place of its centre."""
    middle = value(flow, "RequestRanking", "a value and a score per tool, in one of three forms:", "", "", "")
    for place, (name, detail) in enumerate(RANKINGS):
        x = MIDDLE[0] + 9 + 113 * place
        flow.parts += [box(x, middle - 7, 107, 36), text(x + 7, middle + 8, name, "mono"), text(x + 7, middle + 22, detail, "small")]
    flow.parts.append(text(MIDDLE[0] + 10, middle + 43, "extended() also scores skill and required tools", "small"))
    return middle


def skills(flow, start, end):
    """Draws the way over the skills, from the ranking to the shortlist."""
    lines = [("SkillIndex::pick", "mono"), *note("skills.rs: the same stages", "over an index of skills; adds", "the tools of picked skills")[0]]
    top = start - 16
    flow.parts += card(LEFT[0], top, LEFT[1], lines, "stage")
    flow.parts.append(arrow([(MIDDLE[0], start), (LEFT[0] + LEFT[1] + 3, start)]))
    flow.parts.append(arrow([(LEFT[0] + LEFT[1] / 2, top + 80), (LEFT[0] + LEFT[1] / 2, end), (MIDDLE[0] - 3, end)]))


def draw(_root):
    flow = Flow(48)
    value(flow, "Query, PickOptions", "the request, its context, access, limits, budget")
    y = stage(flow, "ResolvedRequest::new", "request.rs")
    flow.inputs(y, headed("Catalog", "names, policies, sources"))
    flow.ends(y, note("PickError: an invalid option, policy", "or pattern, or an unknown tool", style="stop"))
    value(flow, "ResolvedRequest", "options, eligible and named tools, subqueries")
    y = stage(flow, "RequestRetriever::retrieve", "retrieval.rs")
    flow.inputs(y, headed("Index, examples", "terms, vectors, statistics"), headed("Embedder", "vectors of the request"))
    flow.ends(y, note("A model fails or is too late:", "the other signals remain", style="warning"))
    value(flow, "Retrieval", "signals, and the tools that they score")
    y = stage(flow, "ranking::rank", "ranking.rs")
    flow.inputs(y, headed("Custom scorer", "replaces the signals, if set"), headed("Sequences", "raise tools that go together"))
    flow.ends(y, note("The scorer fails: FusedRanking if", "it has a shortlist, else CatalogOrder.", "No signals: CatalogOrder", style="warning"))
    start = ranking(flow)
    y = stage(flow, "Shortlist::new", "shortlist.rs")
    skills(flow, start, y)
    value(flow, "Shortlist", "candidates above min_score, and protected tools")
    y = stage(flow, "rerank::rerank", "rerank.rs")
    flow.inputs(y, headed("Reranker", "if the order is unclear"))
    flow.ends(y, note("It fails, pauses or is too late:", "the order stays", style="warning"))
    value(flow, "Shortlist", "in the order of the reranker")
    y = stage(flow, "Decisions::new", "decisions.rs")
    flow.inputs(y, headed("Catalog, index", "required tools, duplicates"))
    value(flow, "Decisions", "picks, and the tools that a limit excluded")
    y = stage(flow, "PickOutcome::into_selection", "outcome.rs")
    flow.inputs(y, headed("Token counter", "for a token budget"))
    flow.ends(y, note("PickError: no token counter, or", "an unreadable definition", style="stop"))
    value(flow, "Selection", "picks with reasons, exclusions, stages, timings")
    parts = headings("From outside", "Engine::pick", "If a stage fails")
    return picture(WIDTH, HEIGHT, TITLE, parts + flow.parts + legend(HEIGHT - 20, LEGEND))
