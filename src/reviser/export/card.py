"""The card of a model on the hub: what it is, how to run it, its data, scores and limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reviser.errors import CheckpointError, ConfigError
from reviser.files import read_object
from reviser.models import hub
from reviser.models.editing import Editing
from reviser.models.info import describe

_HEAD = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#|mailto:)[^)]*\)")
_USE = "## Run it"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card is made from."""

    name: str
    """Name of the repository on the hub."""
    licence: str
    own: str
    """The text of the folder's README.md without its head; empty if there is none."""
    head: dict[str, Any]
    """The head of that README.md."""
    facts: dict[str, Any]
    """The model as `reviser info` describes it; empty for an adapter."""
    base: str | None
    """The model that this one was made from."""
    is_editor: bool
    """True if the model was trained to revise drafts."""
    runs_on_vllm: bool
    """True if vLLM can run this folder: a whole model that needs only what vLLM gives it."""

    @classmethod
    def of(cls, folder: Path, name: str, *, licence: str | None) -> Card:
        """Read what a model folder says about itself; refuse one without a licence."""
        readme = folder / "README.md"
        text = readme.read_text("utf-8") if readme.is_file() else ""
        found = _HEAD.match(text)
        head = _read_head(found[1]) if found else {}
        licence = licence or head.get("license")
        if licence is None:
            raise ConfigError(
                "A model on the hub needs a licence that you may give it: pass --license, for"
                " example --license apache-2.0."
            )
        editing = Editing.load(folder)
        facts: dict[str, Any] = {}
        if hub.is_adapter(folder):
            config = read_object(folder / "adapter_config.json", CheckpointError)
            base = config.get("base_model_name_or_path")
        else:
            facts = describe(folder)
            base = (facts["training"] or {}).get("recipe", {}).get("base")
        return cls(
            name=name,
            licence=licence,
            own=text[found.end() :].strip() if found else text.strip(),
            head=head,
            facts=facts,
            base=base if isinstance(base, str) and not Path(base).exists() else None,
            is_editor=editing is not None,
            runs_on_vllm=bool(facts)
            and not hub.is_canvas_trunk(folder)
            and (editing is None or editing.runs_on_vllm),
        )

    def text(self) -> str:
        """Return the card: that of the folder if there is one, with how to run the model."""
        # Links to files outside the folder lead nowhere on the hub; their text stays.
        body = _LINK.sub(r"\1", self.own) or "\n\n".join(self._written())
        if _USE not in body:
            about, heading, rest = body.partition("\n## ")
            body = f"{about.rstrip()}\n\n{self._use()}\n{heading}{rest}"
        return f"---\n{self._head()}\n---\n\n{body}\n"

    def _head(self) -> str:
        import yaml

        fields: dict[str, Any] = dict(self.head, license=self.licence, library_name="reviser")
        if self.base:
            fields["base_model"] = self.base
        tags = fields.get("tags") or []
        tags = [*([tags] if isinstance(tags, str) else tags), "reviser"]
        fields["tags"] = list(dict.fromkeys(tags))
        text: str = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)
        return text.rstrip()

    def _use(self) -> str:
        what = "revise draft.txt -m" if self.is_editor else 'generate "Once" -m'
        parts = [
            _USE,
            "With the package `reviser-lm`, in a terminal or from Python"
            f' (`reviser.load("{self.name}")`):',
            f"```sh\npip install 'reviser-lm[hf]'\nreviser {what} {self.name}\n```",
        ]
        if self.runs_on_vllm:
            parts += [
                "With vLLM, through a plugin of `reviser-lm` that allows only valid actions:",
                f"```sh\npip install 'reviser-lm[vllm,serve]'\nreviser serve {self.name}"
                " --engine vllm\n```",
            ]
        return "\n\n".join(parts)

    def _written(self) -> list[str]:
        """Return the parts of a card for a folder that has none."""
        facts, parts = self.facts, [f"# {self.name.rpartition('/')[2]}"]
        if not facts:
            return [*parts, "This is an adapter that makes a causal LM revise text."]
        size = f"{facts['parameters'] / 1e6:,.1f} million"
        actions = ["insert a token", "move the cursor", "stop"]
        actions += ["leave a mark and go back to it"] * facts["marks"]
        actions += ["search"] * facts["search"]
        actions += [name.replace("_", " ") for name in facts["operators"]]
        parts.append(
            f"This language model writes by editing. It has {size} parameters"
            f" ({facts['architecture']}), and its actions are: {', '.join(actions)}."
        )
        parts += _training(facts["training"]) if facts["training"] else []
        parts += [
            "## Limits",
            "What it writes may be wrong. It has not been tested for bias. Describe here what it"
            " should not be used for.",
        ]
        return parts


def _read_head(text: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"The head of README.md is not YAML: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError("The head of README.md must have a key and a value on each line.")
    return found


def _training(record: dict[str, Any]) -> list[str]:
    recipe, seen, metrics = record["recipe"], record["seen"], record["metrics"]
    data = recipe["data"]
    sources = [*(data.get("text") or []), *(data.get("pairs") or [])]
    names = ", ".join(Path(str(source)).name for source in sources)
    parts = [
        "## Data and training",
        (f"It was trained on {names}. " if names else "")
        + f"It has seen {seen['text_tokens']:,} tokens of text in"
        f" {recipe['training']['steps']:,} steps, with the policy `{recipe['policy']['kind']}`.",
    ]
    rows = []
    for key, interval in metrics.items():
        if key.endswith("_nll_95"):
            held_out = key.removeprefix("eval_").removesuffix("_nll_95").replace("_", " ")
            value = metrics[key.removesuffix("_95")]
            rows.append(f"| {held_out}, nats per text token | {value:.3f} ± {interval:.3f} |")
    if rows:
        parts += ["## Evaluation", "\n".join(["| measure | value |", "|---|---:|", *rows])]
    return parts
