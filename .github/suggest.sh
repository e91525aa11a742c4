# The inputs of action.yml, which are in the environment, as options of `reviser review`.
set -euo pipefail
set -f # the patterns are not for the shell
options=(-m "$REVISER_MODEL")
if [ -n "$REVISER_BASE" ]; then options+=(--base "$REVISER_BASE"); fi
if [ -n "$REVISER_PRECISION" ]; then options+=(--precision "$REVISER_PRECISION"); fi
for pattern in $REVISER_FILES; do options+=(--files "$pattern"); done
exec reviser review "$REVISER_PULL_REQUEST" "${options[@]}"
