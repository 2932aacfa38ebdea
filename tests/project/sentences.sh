#!/usr/bin/env bash
# No sentence of README.md, docs/README.md, docs/tutorials and docs/guide has more than 40 words. Code blocks, indented formulas and
# tables are not counted. Argument: a tree other than this one (project.source_checks_can_fail).
set -euo pipefail
cd "${1:-$LOCKSTEP_SOURCE_DIR}"
most=40
exceptions=() # a sentence's beginning, as it stands in the page, with a reason behind it

pages=()
for page in README.md docs/README.md docs/tutorials/*.md docs/guide/*.md; do
  [ -e "$page" ] && pages+=("$page")
done
if [ ${#pages[@]} -eq 0 ]; then
  echo "0 pages were found in $PWD"
  exit 1
fi

# A sentence ends at . ! ? : or ; before a space, at a list's item, a heading, a table or an empty line.
printf '%s\n' ${exceptions[@]+"${exceptions[@]}"} | awk -v most="$most" '
  function close_sentence() {
    if (words > most && !excused(sentence)) {
      printf "%s:%d: %d words: %.100s ...\n", page, from, words, sentence
      long++
    }
    if (words) sentences++
    sentence = ""
    words = 0
  }
  function excused(text, i) {
    for (i in exceptions) if (index(text, exceptions[i]) == 1) return 1
    return 0
  }
  FILENAME == "-" { if ($0 != "") exceptions[FNR] = $0; next }
  FNR == 1 { close_sentence(); page = FILENAME; block = 0 }
  /^ *```/ { close_sentence(); block = !block; next }
  block || /^    / || /^ *\|/ || /^ *<!--/ { close_sentence(); next }
  /^#/ || /^ *([-*]|[0-9]+\.) / || /^ *$/ { close_sentence() }
  {
    for (i = 1; i <= NF; i++) {
      if ($i ~ /^([-*#]+|[0-9]+\.)$/ && i == 1) continue
      if (!words) from = FNR
      sentence = sentence (words ? " " : "") $i
      words++
      if ($i ~ /[.!?:;]["\047)*`]*$/) close_sentence()
    }
    if (/^#/) close_sentence()
  }
  END {
    close_sentence()
    printf "%d pages, %d sentences, %d of more than %d words\n", ARGC - 2, sentences, long, most
    exit long > 0
  }' - "${pages[@]}"
