#!/usr/bin/env bash
# The structure of the code, drawn from its own includes: which folder uses which.
#
#   bash tools/structure.sh           writes the picture into docs/design/structure.md
#   bash tools/structure.sh --check   fails when the picture is an old one, or an arrow runs back up
#
# `layers` is the order: a folder includes headers of folders before it only. The picture leaves out arrows that
# follow from others. Public headers (FOLDER/include/loopgrad) count as a folder of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/design/structure.md

layers="dsl/include dsl/ir dsl/symbolic dsl/poly dsl/frontend
  tape/include transforms/include backends/include tools/include
  tape
  transforms/pass transforms/analysis transforms/bounds transforms/loops transforms/storage transforms/sums
  transforms/schedule transforms/locality transforms/map/cpu transforms/map/gpu transforms
  backends/c_text backends/runtime backends/jit backends/interface backends/emit backends/interpreter backends/openmp backends/cuda backends
  tools/support tools/programs tools/fuzz tools/cli tools/report tools"

# "FILE HEADER" for every include of the project's own headers.
includes() {
  grep -rE '^#include ["<](dsl|tape|transforms|backends|tools|loopgrad)/' --include='*.h' --include='*.cpp' \
    dsl tape transforms backends tools | sed -E 's/^([^:]+):#include ["<]([^">]+)[">].*/\1 \2/'
}

public_headers() { find dsl tape transforms backends tools -path '*/include/loopgrad/*' | sed -E 's/(.*\/)(loopgrad\/.*)/\2 \1\2/'; }

draw() {
  { public_headers | sed 's/^/public /'; includes | sed 's/^/use /'; } | awk -v layers="$layers" '
    BEGIN { count = split(layers, name, /[ \n]+/); for (i = 1; i <= count; ++i) rank[name[i]] = i }
    # The longest folder of the list that holds the file.
    function folder(file,  path) {
      for (path = file; sub(/\/[^\/]*$/, "", path);) if (path in rank) return path
      print file ": in no folder of the list in tools/structure.sh" > "/dev/stderr"; bad = 1; return ""
    }
    function reaches(from, to,  k) {  # by more than the arrow itself
      for (k = rank[to] + 1; k < rank[from]; ++k)
        if ((from, name[k]) in arrow && ((name[k], to) in arrow || reaches(name[k], to))) return 1
      return 0
    }
    $1 == "public" { at[$2] = $3; next }
    {
      a = folder($2); b = folder($3 in at ? at[$3] : $3)
      if (a == "" || b == "" || a == b) next
      if (rank[b] > rank[a]) { print $2 ": includes " $3 ", which is above it" > "/dev/stderr"; bad = 1 }
      arrow[a, b] = 1
    }
    END {
      if (bad) exit 1
      for (i = 1; i <= count; ++i)
        for (k = i - 1; k >= 1; --k)
          if ((name[i], name[k]) in arrow && !reaches(name[i], name[k])) print "    " name[i] " --> " name[k]
    }'
}

picture() {
  sed '/^```mermaid$/q' "$page"
  echo "graph TD"
  draw
  echo '```'
}

wanted=$(picture)
if [[ ${1:-} == --check ]]; then
  diff <(echo "$wanted") "$page" || { echo "structure: the picture is an old one; run tools/structure.sh"; exit 1; }
else
  echo "$wanted" > "$page"
fi
