# Pipes corrections of the files that a pull request changes into reviewdog; see action.yml, which
# puts the inputs into the environment.
set -euo pipefail
set -f # the patterns are not for the shell
options=(--format rdjson)
if [ -n "$REVISER_JUDGE" ]; then options+=(--judge "$REVISER_JUDGE"); fi
if [ -n "$REVISER_MIN_CONFIDENCE" ]; then options+=(--min-confidence "$REVISER_MIN_CONFIDENCE"); fi
listing="repos/{owner}/{repo}/pulls/$REVISER_PULL_REQUEST/files" # gh fills in the names
changed=$(gh api "$listing" --paginate --jq '.[] | select(.status != "removed") | .filename')
files=()
while IFS= read -r file; do
  for pattern in $REVISER_FILES; do
    # A link may lead out of the repository.
    if [[ $file == $pattern && -f $file && ! -L $file ]]; then
      files+=("$file")
      break
    fi
  done
done <<< "$changed"
if [ ${#files[@]} -eq 0 ]; then exit; fi
reviser proofread "${options[@]}" -- "${files[@]}" |
  reviewdog -f=rdjson -name=reviser -reporter=github-pr-review -filter-mode=added
