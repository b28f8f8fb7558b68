"""Further sets of the scoreboard: tasks over real servers, requests in ten languages, and skills with and without their instructions."""

import json
import re
import statistics
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LANGUAGES = ["en", "de", "it", "nl", "tr", "id", "zh", "ja", "pt", "ko"]
REAL, SKILLS, BODIES = "real", "skills", "skills-bodies"
NO_PARAMETERS = {"type": "object", "properties": {}}


def folders(benchmarks, skills, work):
    """The folders of the sets that can be made; `skills` is the folder of the fetched package, if there is one."""
    made = [benchmarks / "talk/real", *language_folders(work)]
    return [*made, *skill_folders(skills, work)] if skills.is_dir() else made


def language_folders(work):
    """A set for each language out of fixtures/catalogs/languages, where a request's id begins with its language."""
    fixture = ROOT / "fixtures/catalogs/languages"
    tools = [json.loads(line) for line in (fixture / "tools.jsonl").read_text(encoding="utf-8").splitlines()]
    for language in LANGUAGES:
        folder = work / language
        folder.mkdir()
        write_lines(folder / "tools.jsonl", [{"id": f"{tool['source']}/{tool['name']}", **tool} for tool in tools])
        queries = (fixture / "queries.jsonl").read_text(encoding="utf-8").splitlines(True)
        chosen = [line for line in queries if json.loads(line)["id"].startswith(f"{language}-")]
        (folder / "queries.jsonl").write_text("".join(chosen), encoding="utf-8")
        judgments = (fixture / "qrels.tsv").read_text(encoding="utf-8").splitlines(True)
        (folder / "qrels.tsv").write_text("".join(line for line in judgments if line.startswith(f"{language}-")), encoding="utf-8")
        yield folder


def skill_folders(package, work):
    """Two sets of the same skills and requests: descriptions only, and descriptions with instructions. To picktools they are
    skills, in the folder `skills` of the set; to the others each skill is a tool without parameters."""
    read = [skill_from(path) for path in sorted(package.rglob("SKILL.md"))]
    skills = [skill for skill in read if skill]
    rows = [line.split("\t") for line in (HERE / "skills.tsv").read_text(encoding="utf-8").splitlines()]
    for name in (SKILLS, BODIES):
        folder = work / name
        for skill in skills:
            target = folder / "skills" / skill["name"]
            target.mkdir(parents=True)
            body = skill["body"] if name == BODIES else f"# {skill['name']}\n"  # picktools refuses a skill without a text
            (target / "SKILL.md").write_text(f"---\n{skill['front']}\n---\n{body}", encoding="utf-8")
        tools = [tool_from(skill, name == BODIES) for skill in skills]
        write_lines(folder / "tools.jsonl", tools)
        write_lines(folder / "queries.jsonl", [{"id": row[0], "text": row[1]} for row in rows])
        (folder / "qrels.tsv").write_text("".join(f"{row[0]}\t{row[2]}\t1\n" for row in rows), encoding="utf-8")
        yield folder


def skill_from(path):
    """Name, description, front matter and instructions of a SKILL.md; none if name or description is missing."""
    parts = re.match(r"---\n(.*?)\n---\n(.*)", path.read_text(encoding="utf-8"), re.DOTALL)
    values = dict(re.findall(r"^(name|description):\s*(.*\S)", parts[1], re.MULTILINE)) if parts else {}
    if len(values) < 2:
        return None
    name, description = (values[key].strip("'\"") for key in ("name", "description"))
    # JSON is valid YAML, so that all read the same description.
    return {"name": name, "description": description, "body": parts[2], "front": f"name: {name}\ndescription: {json.dumps(description)}"}


def tool_from(skill, with_body):
    description = f"{skill['description']}\n\n{skill['body']}" if with_body else skill["description"]
    return {"id": skill["name"], "name": skill["name"], "description": description, "parameters": NO_PARAMETERS, "source": "skills"}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def pick_skills(launch, program, options, folder, run, k):
    """Writes a run of skills, picked by `picktools pick` in a process for each request; returns the largest peak memory."""
    catalog = ROOT / "fixtures/catalogs/terminal"
    peaks = []
    with open(run, "w", encoding="utf-8") as file:
        for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            query = json.loads(line)
            out = ["--skills", folder / "skills", "--catalog", catalog, "-k", k, "--min-score", "0", "--json"]
            printed, peak = launch([program, "pick", query["text"], *out, *options])
            names = [skill["name"] for skill in json.loads(printed)["skills"]][:k]
            file.writelines(f"{query['id']} Q0 {name} {place} {1 / place:.6f} picktools\n" for place, name in enumerate(names, 1))
            peaks.append(peak)
    return max(peaks)


def table(rows):
    """A row for each ranking: real servers, languages, skills; nDCG@10 unless the head says something else."""
    heads = ["ranking", "real servers", "real servers, R@5", *LANGUAGES, "nine, mean", "skills, descriptions", "skills, instructions too"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows.values():
        figure = lambda name, measure="nDCG@10": row["sets"][name]["measures"][measure] if name in row["sets"] else None
        others = [figure(language) for language in LANGUAGES[1:]]
        cells = [figure(REAL), figure(REAL, "R@5"), *map(figure, LANGUAGES)]
        cells += [None if None in others else statistics.mean(others), figure(SKILLS), figure(BODIES)]
        lines.append(f"| {row['title']} | " + " | ".join("" if cell is None else f"{cell:.3f}" for cell in cells) + " |")
    return "\n".join(lines)
