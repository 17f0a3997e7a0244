# browse.sh PAGE [FRAGMENT]: prints the page as it is once its script has run.
set -euo pipefail
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
browser=$(command -v chromium || command -v chromium-browser ||
  command -v google-chrome)
timeout 120 "$browser" --headless --no-sandbox --disable-gpu \
  --user-data-dir="$profile" --window-size=1200,900 \
  --virtual-time-budget=10000 --dump-dom "file://$1#${2:-}" \
  2>"$profile/errors" || { cat "$profile/errors" >&2; exit 1; }
