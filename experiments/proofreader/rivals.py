"""Compare what people proofread with today, with one scorer on the same test sets.

    python rivals.py TESTS units -o results/rivals.json
    python rivals.py TESTS units -o results/rivals.json --only proofreader
    python rivals.py --table results/rivals.json

Each rival runs with its default settings, and the first correction that it suggests is made. A
report without a correction is ignored. codespell and typos make the corrections that they make
with `--write-changes`: those of words with only one. Results are added to the output file, so
rivals can be scored one at a time.
"""

import argparse
import atexit
import json
import re
import shlex
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from scoring import (
    TEST_SETS,
    Check,
    Edit,
    clean_pages,
    clean_units,
    score,
    score_clean,
)

from reviser.proofreading import DEFAULT_JUDGE

PAGES = Path(__file__).parents[2] / "docs"

Given = argparse.Namespace
Rival = tuple[str, Check]
"""The version of a rival, and the rival."""


# -- rivals -----------------------------------------------------------------------------------


def left_alone(_: Given) -> Rival:
    """Return a proofreader that changes nothing."""
    return "", lambda _: []


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

    return f"harper-py {version('harper-py')}", check


def quire(_: Given) -> Rival:
    """Return quire, rules and an edit tagger made from DistilBERT."""
    import quire_grammar
    from quire_grammar.model import predict

    predict("It loads the model.")  # an error here is better than rules alone

    def check(text: str) -> list[Edit]:
        found = quire_grammar.check(text)
        return [Edit(c.start, c.end, c.suggestions[0]) for c in found if c.suggestions]

    return f"quire-grammar {version('quire-grammar')}", check


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

    return name[0] if name else "", check


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

    return f"codespell {version('codespell')}", check


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

    return f"typos {version('typos')}", check


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
            return f"LanguageTool {ask('It works.').get('version')}", check
        except OSError:
            time.sleep(1)
    raise TimeoutError("The LanguageTool server did not start within a minute.")


def proofreader(given: Given) -> Rival:
    """Return our own proofreader, opened and used as anyone would."""
    import torch

    import reviser

    torch.set_num_threads(1)
    model = reviser.proofreader(given.model)

    def check(text: str) -> list[Edit]:
        changes = model.revise(text).changes
        return [Edit(each.start, each.end, each.after) for each in changes]

    return f"reviser {version('reviser-lm')}", check


RIVALS: dict[str, Callable[[Given], Rival]] = {
    "left alone": left_alone,
    "codespell": codespell,
    "typos": typos,
    "hunspell": hunspell,
    "harper": harper,
    "quire": quire,
    "languagetool": languagetool,
    "proofreader": proofreader,
}
OURS = "proofreader"
"""Runs only if it is asked for, because it needs a judge."""


# -- results ----------------------------------------------------------------------------------


def scored(given: Given) -> None:
    """Score the rivals and add the results to the output file."""
    sets: dict[str, Callable[[Check], dict[str, Any]]] = {
        name: partial(_on_drafts, read, given) for name, read in TEST_SETS.items()
    }
    sets["clean units"] = lambda check: score_clean(check, clean_units(given.units, given.first))
    sets["clean docs"] = lambda check: score_clean(check, clean_pages(PAGES, given.first))
    for name in given.only or [name for name in RIVALS if name != OURS]:
        try:
            release, check = RIVALS[name](given)
        except (ImportError, OSError) as error:
            print(f"{name} cannot run: {error}")
            continue
        for part in given.sets or sets:
            found = sets[part](check)
            print(name, part, json.dumps(found), flush=True)
            # Another process may have added results since.
            results = json.loads(given.output.read_text()) if given.output.exists() else {}
            row = results.setdefault(name, {})
            row["version"] = release
            row[part] = found
            given.output.parent.mkdir(parents=True, exist_ok=True)
            given.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def _on_drafts(read: Callable[..., Any], given: Given, check: Check) -> dict[str, Any]:
    return score(check, read(given.tests, given.first))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, nargs="?", help="the folder test-dir of gec-datasets")
    parser.add_argument("units", type=Path, nargs="?", help="what prepare.py wrote")
    parser.add_argument("-o", "--output", type=Path, help="JSON file to add the results to")
    parser.add_argument("--only", choices=RIVALS, nargs="*", help="rivals to score")
    parser.add_argument("--sets", choices=[*TEST_SETS, "clean units", "clean docs"], nargs="*")
    parser.add_argument("--first", type=int, default=400, help="texts of each set")
    parser.add_argument("--hunspell", default="hunspell -d en_US", help="command of hunspell")
    parser.add_argument("--languagetool", help="class path of LanguageTool's server")
    parser.add_argument("--model", default=DEFAULT_JUDGE, help="judge of proofreader")
    parser.add_argument("--table", type=Path, help="print the tables of a JSON file, and stop")
    given = parser.parse_args()
    if given.table:
        from page import tables

        print(tables(json.loads(given.table.read_text(encoding="utf-8"))))
        return
    if not (given.tests and given.units and given.output):
        parser.error("pass the test sets, the units and -o, or --table")
    scored(given)


if __name__ == "__main__":
    main()
