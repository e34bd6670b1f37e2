#!/usr/bin/env bash
# The page of `report` in a real browser: every section is shown, nothing is wider than the window (390 px: a phone),
# light and dark differ, a line can be chosen, nothing is fetched, and nothing is said in the console (errors are).
# Usage: report_page.sh PATH_OF_LOOPGRAD
# Skips (77) where there is no Chromium (Debian: apt install chromium), or fails where LOOPGRAD_REQUIRE_CHROMIUM is set.
# LOOPGRAD_SCREENSHOTS=FOLDER keeps pictures.
set -uo pipefail
loopgrad=$1
browser=""
for name in chromium chromium-headless-shell chromium-browser google-chrome; do
  [ -z "$browser" ] && browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  echo "no Chromium here (Debian: apt install chromium)"
  [ -z "${LOOPGRAD_REQUIRE_CHROMIUM:-}" ] && exit 77
  exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# visit WIDTH SCHEME FILE ARGUMENT...: runs the browser on the page, in a frame, as windows are 500 px wide at least. 0 is
# dark and 1 light. What the page finds about itself (probe.html) is in attributes of the frame's page.
visit() {
  local width=$1 scheme=$2 file=$3
  shift 3
  cat > "$folder/frame.html" <<FRAME
<!doctype html><body style="margin:0"><iframe src="$file" style="width:${width}px;height:2400px;border:0"></iframe>
<script>onmessage = (event) => Object.assign(document.body.dataset, event.data);</script></body>
FRAME
  timeout 100 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$folder/profile" \
    --no-first-run --disable-background-networking --blink-settings=preferredColorScheme="$scheme" \
    --virtual-time-budget=5000 --window-size="$width",2400 --enable-logging=stderr "$@" "file://$folder/frame.html" \
    2> "$folder/log"
  grep ':CONSOLE' "$folder/log" > "$folder/console"
}

# A probe at the end of the page.
cat > "$folder/probe.html" <<'PROBE'
<script>
const found = {}, root = document.documentElement;
found.width = innerWidth;
found.overflow = root.scrollWidth - innerWidth;
found.sections = [...document.querySelectorAll("section")].filter((s) => s.offsetHeight > 40).length;
found.dots = document.querySelectorAll("#loops svg circle").length;
found.bars = [...document.querySelectorAll("#tape .bar u")].filter((u) => u.offsetWidth > 0).length;
found.paper = getComputedStyle(document.body).backgroundColor;
found.small = [...document.querySelectorAll("p, td, li")].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 12).length;
const line = document.querySelector("#code .code div[data-line]");
line.click();
found.marked = document.querySelectorAll("#code .same").length;
line.click();
found.unmarked = document.querySelectorAll("#code .same").length;
found.fetched = performance.getEntriesByType("resource").length;
parent.postMessage(found, "*");
</script>
PROBE

value() { sed -n "s/.*<body[^>]* data-$1=\"\([^\"]*\)\".*/\1/p" "$folder/dom" | head -1; }

# expect WHAT VALUE TEST...: as in `test VALUE TEST..`.
expect() {
  local what=$1 value=$2
  shift 2
  if ! test "$value" "$@"; then
    echo "FAILED: $program, $width px, scheme $scheme: $what is '$value', not $*"
    failed=1
  fi
}

# What the console says is seen at all.
program="a page with a mistake"
echo '<!doctype html><script>nothing.there();</script>' > "$folder/wrong.html"
visit 390 0 "$folder/wrong.html" --dump-dom > /dev/null
expect "what the console says" "$(grep -c 'nothing is not defined' "$folder/console")" -eq 1

for program in gmm heat2d rsbench; do
  "$loopgrad" report $program --out "$folder/$program.html" > /dev/null || exit 1
  sed "/<\/body>/{
    r $folder/probe.html
    N
  }" "$folder/$program.html" > "$folder/probed.html"
  papers=""
  for scheme in 0 1; do
    for width in 390 1280; do
      visit $width $scheme "$folder/probed.html" --dump-dom > "$folder/dom"
      expect "the window" "$(value width)" -eq $width
      expect "the overflow" "$(value overflow)" -le 0
      expect "sections that are seen" "$(value sections)" -eq 7
      expect "points of the roofline" "$(value dots)" -ge 2
      expect "bars of the tape" "$(value bars)" -ge 1
      expect "texts too small to read" "$(value small)" -eq 0
      expect "lines marked" "$(value marked)" -ge 2
      expect "lines marked after the second click" "$(value unmarked)" -eq 0
      expect "what was fetched" "$(value fetched)" -eq 0
      expect "what the console says" "$(cat "$folder/console")" = ""
      if [ -n "${LOOPGRAD_SCREENSHOTS:-}" ]; then
        mkdir -p "$LOOPGRAD_SCREENSHOTS"
        visit $width $scheme "$folder/$program.html" --screenshot="$LOOPGRAD_SCREENSHOTS/$program.$width.$scheme.png"
      fi
    done
    papers="$papers $(value paper)"
  done
  [ "$(echo "$papers" | sed 's/) /)\n/' | sort -u | wc -l)" -eq 2 ] ||
    { echo "FAILED: $program: light and dark are alike: $papers"; failed=1; }
done
exit $failed
