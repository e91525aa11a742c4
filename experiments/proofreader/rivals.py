"""Compare what people proofread with today, with one scorer on the same texts.

    python rivals.py TESTS DATA -o results/rivals.json --before CHECKOUT --base base
    python rivals.py TESTS DATA -o results/rivals.json --only proofreader --model base
    python page.py

Each rival runs with its default settings, and the first correction that it suggests is made. A
report without a correction is ignored. codespell and typos make the corrections that they make
with `--write-changes`: those of words with only one. Markup of Markdown files is locked: edits of
it do not count. Results are added to the output file, so rivals can be scored one at a time.
"""

import argparse
import atexit
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from letters import count, letters, verdicts
from scoring import (
    TEST_SETS,
    Check,
    Edit,
    Text,
    f05_over,
    of_words,
    page_blocks,
    paragraphs,
    run,
    score,
    score_clean,
    words_of,
)

from reviser.markup import chosen_spans
from reviser.markup.spans import Span
from reviser.proofreading import DEFAULT_JUDGE

HERE = Path(__file__).parent
PAGES = "3c2ed1c"
"""The commit whose docs are read, so that all rivals are given the same texts."""

Given = argparse.Namespace
Rival = tuple[str, Check]
"""The version of a rival, and the rival."""


def unlocked(check: Callable[[str], list[Edit]]) -> Check:
    """Return a proofreader that knows no locks; the scorer drops its edits of what is locked."""
    return lambda text, _: check(text)


# -- rivals -----------------------------------------------------------------------------------


def left_alone(_: Given) -> Rival:
    """Return a proofreader that changes nothing."""
    return "", unlocked(lambda _: [])


def harper(_: Given) -> Rival:
    """Return Harper, a rule-based checker, for plain text in American English."""
    from harper import Language, Linter, SuggestionKind

    linter = Linter()

    def check(text: str) -> list[Edit]:
        found = []
        for lint in linter.lint(text, language=Language.PLAINTEXT):
            for each in lint.suggestions[:1]:
                # A suggestion replaces the span, removes it, or is inserted after it.
                after = each.kind == SuggestionKind.INSERT_AFTER
                start = lint.span.end if after else lint.span.start
                found.append(Edit(start, lint.span.end, each.replacement_text or ""))
        return found

    return f"harper-py {version('harper-py')}", unlocked(check)


def quire(_: Given) -> Rival:
    """Return quire, rules and an edit tagger made from DistilBERT."""
    import quire_grammar
    from quire_grammar.model import predict

    predict("It loads the model.")  # an error here is better than rules alone

    def check(text: str) -> list[Edit]:
        found = quire_grammar.check(text)
        return [Edit(c.start, c.end, c.suggestions[0]) for c in found if c.suggestions]

    return f"quire-grammar {version('quire-grammar')}", unlocked(check)


def hunspell(given: Given) -> Rival:
    """Return hunspell with the American English dictionary; it gets its text through a pipe."""
    command = [*shlex.split(given.hunspell), "-a", "-i", "utf-8"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout
    name = re.search(r"Hunspell [\d.]+", stdout.readline())

    def check(text: str) -> list[Edit]:
        # "^" marks the line as text. The answer ends with an empty line.
        stdin.write("^" + text.replace("\n", " ") + "\n")
        stdin.flush()
        found, at = [], 0
        for line in iter(stdout.readline, "\n"):
            # & word count offset: first, second, ...
            if line[0] in "&#":
                word = line.split()[1]
                match = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search(text, at)
                if match:
                    at = match.end()
                    if line[0] == "&":
                        new = line.split(": ", 1)[1].split(",")[0].strip()
                        found.append(Edit(*match.span(), new))
        return found

    return name[0] if name else "", unlocked(check)


def codespell(_: Given) -> Rival:
    """Return codespell with its default dictionaries."""
    from codespell_lib._codespell import word_regex_def
    from codespell_lib._spellchecker import Misspelling, build_dict
    from codespell_lib._text_util import fix_case

    words: dict[str, Misspelling] = {}
    for name in ("dictionary.txt", "dictionary_rare.txt"):
        build_dict(str(files("codespell_lib") / "data" / name), words, set())

    def check(text: str) -> list[Edit]:
        matches = re.finditer(word_regex_def, text)
        known = [(match, words[match[0].lower()]) for match in matches if match[0].lower() in words]
        return [Edit(*m.span(), fix_case(m[0], word.data)) for m, word in known if word.fix]

    return f"codespell {version('codespell')}", unlocked(check)


def typos(_: Given) -> Rival:
    """Return typos, with one process per text."""
    program = shutil.which("typos")
    if program is None:
        raise FileNotFoundError("There is no program named typos: pip install typos")

    def check(text: str) -> list[Edit]:
        data = text.replace("\n", " ").encode()
        command = [program, "--isolated", "--threads", "1", "--format", "json", "-"]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        found = []
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if row["type"] == "typo" and len(row["corrections"]) == 1:
                start = len(data[: row["byte_offset"]].decode())
                found.append(Edit(start, start + len(row["typo"]), row["corrections"][0]))
        return found

    return f"typos {version('typos')}", unlocked(check)


def languagetool(given: Given) -> Rival:
    """Return a LanguageTool server of version 2, which answers with XML."""
    if not given.languagetool:
        raise FileNotFoundError("Pass --languagetool with the class path of its jars.")
    port = 8765
    main = "org.languagetool.server.HTTPServer"
    command = ["java", "-Xmx1g", "-XX:ActiveProcessorCount=1", "-cp", given.languagetool, main]
    server = subprocess.Popen([*command, "-p", str(port)], stdout=subprocess.DEVNULL)
    atexit.register(server.terminate)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(text: str) -> ElementTree.Element:
        form = urllib.parse.urlencode({"language": "en-US", "text": text}).encode()
        with opener.open(f"http://localhost:{port}/", form, timeout=60) as answer:
            return ElementTree.fromstring(answer.read())

    def check(text: str) -> list[Edit]:
        found = []
        for row in ask(text).iter("error"):
            if row.get("replacements"):
                start, size = int(row.attrib["offset"]), int(row.attrib["errorlength"])
                new = row.attrib["replacements"].split("#")[0]
                found.append(Edit(start, start + size, new))
        return found

    for _ in range(60):  # until the server listens
        try:
            return f"LanguageTool {ask('It works.').get('version')}", unlocked(check)
        except OSError:
            time.sleep(1)
    raise TimeoutError("The LanguageTool server did not start within a minute.")


def before(given: Given) -> Rival:
    """Return our proofreader of 0.2.0, from a checkout of commit 42d8ecd, in its own process."""
    if given.before is None:
        raise FileNotFoundError("Pass --before with a checkout of commit 42d8ecd.")
    command = [sys.executable, str(HERE / "before.py"), str(given.before), str(given.base)]
    environment = os.environ | {"PYTHONPATH": str(given.before / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(process.terminate)
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout

    def check(text: str, locked: Sequence[Span]) -> list[Edit]:
        print(json.dumps([text, [*locked]]), file=stdin, flush=True)
        return [Edit(*each) for each in json.loads(stdout.readline())]

    check("It loads the model.", [])
    return "42d8ecd", check


def proofreader(given: Given) -> Rival:
    """Return our own proofreader, opened and used as anyone would."""
    import reviser

    model = reviser.proofreader(given.model)

    def check(text: str, locked: Sequence[Span]) -> list[Edit]:
        changes = model.revise(text, locked=list(locked)).changes
        return [Edit(each.start, each.end, each.after) for each in changes]

    check("It loads the model.", [])
    return f"reviser {version('reviser-lm')}", check


RIVALS: dict[str, Callable[[Given], Rival]] = {
    "left alone": left_alone,
    "codespell": codespell,
    "typos": typos,
    "hunspell": hunspell,
    "harper": harper,
    "quire": quire,
    "languagetool": languagetool,
    "reviser 0.2.0": before,
    "proofreader": proofreader,
}
OURS, BEFORE = "proofreader", "reviser 0.2.0"
"""Ours runs only if it is asked for, because it needs a judge."""


# -- results ----------------------------------------------------------------------------------


def score_marked(folder: Path, check: Check) -> dict[str, Any]:
    """Return what becomes of the marked mistakes of a folder, and the alarms in its clean texts."""
    marked = next(path for name in ("marked", "src") if (path := folder / name).is_dir())
    both = [sorted(each.iterdir()) for each in (marked, folder / "clean")]
    found = letters(marked)
    texts = [_locked(x.draft, path) for x, path in zip(found, both[0], strict=True)]
    edits, seconds = run(check, texts)
    total = sum(map(count, map(verdicts, found, edits)), Counter[str]())
    names = ("right", "wrong", "missed", "false")
    return {
        "mistakes": sum(len(each.mistakes) for each in found),
        **{name: total[name] for name in names},
        "words": words_of(texts),
        "seconds_per_1000_words": round(seconds, 3),
        "clean": score_clean(check, [_locked(path.read_text("utf-8"), path) for path in both[1]]),
    }


def _locked(text: str, path: Path) -> Text:
    return Text(text, chosen_spans(text, "auto", path))


def books(source: str, given: Given, check: Check) -> dict[str, Any]:
    """Score the paragraphs of held-out books."""
    from prepare import documents, is_held_out

    held_out = (
        lines
        for kind, name, lines in documents(given.data)
        if kind == source and is_held_out(kind, name)
    )
    return score_clean(check, of_words(paragraphs(held_out), given.words))


def pages(given: Given, check: Check) -> dict[str, Any]:
    """Score the pages of this repository's documentation at one commit."""
    archive = subprocess.run(
        ["git", "archive", PAGES, "docs"], cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        read = [files.extractfile(name) for name in files.getnames() if name.endswith(".md")]
        blocks = page_blocks(file.read().decode() for file in read if file is not None)
    return score_clean(check, of_words(blocks, given.words))


def _on_drafts(read: Callable[..., Any], given: Given, check: Check) -> dict[str, Any]:
    return score(check, read(given.tests, given.first))


def parts_of(given: Given) -> dict[str, Callable[[Check], dict[str, Any]]]:
    """Return all texts that rivals are scored on: what to call with a rival."""
    return {
        "letters": partial(score_marked, given.data / "letters"),
        "texts": partial(score_marked, HERE / "texts"),
        "blind": partial(score_marked, HERE / "blind"),
        "openstax": partial(books, "openstax", given),
        "docs": partial(pages, given),
        "novels": partial(books, "novels", given),
        **{name: partial(_on_drafts, read, given) for name, read in TEST_SETS.items()},
    }


PARTS = ("letters", "texts", "blind", "openstax", "docs", "novels", "jfleg-dev", "bea19-dev")
"""What is scored by default; the other test sets are for the end of a development."""


def scored(given: Given) -> None:
    """Score the rivals and add the results to the output file."""
    parts = parts_of(given)
    for name in given.only or [name for name in RIVALS if name != OURS]:
        try:
            release, check = RIVALS[name](given)
        except (ImportError, OSError) as error:
            print(f"{name} cannot run: {error}")
            continue
        for part in given.sets:
            found = parts[part](check)
            shown = {key: value for key, value in found.items() if key != "rows"}
            print(name, part, json.dumps(shown), flush=True)
            save(given.output, name, release, part, found)


def save(output: Path, name: str, release: str, part: str, found: dict[str, Any]) -> None:
    """Add a result to the output file, and compare our two versions if it has both."""
    # Another process may have added results since.
    results = json.loads(output.read_text("utf-8")) if output.exists() else {}
    row = results.setdefault(name, {})
    row["version"] = release
    row[part] = found
    rows = [results.get(each, {}).get(part, {}).get("rows", "") for each in (OURS, BEFORE)]
    if all(rows) and len(rows[0].split()) == len(rows[1].split()):
        results[OURS][part]["f05_over_before"] = f05_over(*rows)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the folder test-dir of gec-datasets")
    parser.add_argument("data", type=Path, help="the folder with openstax, novels100 and letters")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON file to add to")
    parser.add_argument("--only", choices=RIVALS, nargs="*", help="rivals to score")
    parser.add_argument("--sets", choices=[*PARTS, *TEST_SETS], nargs="*", default=PARTS)
    parser.add_argument("--first", type=int, default=200, help="sentences of each test set")
    parser.add_argument("--words", type=int, default=10_000, help="words of each clean source")
    parser.add_argument("--hunspell", default="hunspell -d en_US", help="command of hunspell")
    parser.add_argument("--languagetool", help="class path of LanguageTool's server")
    parser.add_argument("--before", type=Path, help="a checkout of 0.2.0")
    parser.add_argument("--base", type=Path, default=Path("base"), help="base of 0.2.0")
    parser.add_argument("--model", default=DEFAULT_JUDGE, help="judge of proofreader")
    scored(parser.parse_args())


if __name__ == "__main__":
    main()
