#!/usr/bin/env bash
# Headers of transforms/ that no test includes and whose pass or function no test names; and how many there are.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0 all=0
for header in $(find transforms -name '*.h' -not -path '*/include/*' | sort); do
  stem=$(basename "$header" .h)
  all=$((all + 1))
  grep -rqE "\"$header\"|\"([a-z_]+,)*$stem(,[a-z_]+)*\"|\b$stem\(" tests --include='*.cpp' --include='*.h' && continue
  count=$((count + 1))
  echo "$header"
done
echo "$count of $all headers are in no test"
