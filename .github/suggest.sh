# Pipes corrections of the files that a pull request changes into reviewdog; see action.yml, which
# puts the inputs into the environment.
set -euo pipefail
set -f # the patterns are not for the shell
options=(-m "$REVISER_MODEL" --format rdjson)
if [ -n "$REVISER_PRECISION" ]; then options+=(--precision "$REVISER_PRECISION"); fi
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
reviser revise "${options[@]}" -- "${files[@]}" |
  reviewdog -f=rdjson -name=reviser -reporter=github-pr-review -filter-mode=added
