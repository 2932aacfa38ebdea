#!/usr/bin/env bash
# docs/reference/coverage.md says what of PyTorch is here. Each name in its column "here" is declared in a public header, each "no" has a
# reason; and each layer, differentiable function and optimizer of the headers is on the page.
#   coverage.sh [PAGE [SOURCES]]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
page=${1:-$root/docs/reference/coverage.md} sources=${2:-$root/src/lockstep}
failures=0
fail() {
  echo "coverage.md: $*" >&2
  failures=$((failures + 1))
}

# Names in the headers and on the page, read once: a search for each of some hundred names takes seconds.
declare -A declared named
while read -r name; do declared[$name]=1; done < <(cat "$sources"/autograd/{backward,functional/*}.hpp "$sources"/nn/*.hpp \
  "$sources"/nn/layers/*.hpp "$sources"/optim/{,schedules/}*.hpp "$sources"/parallel/{,*/}*.hpp \
  "$sources"/comm/*.hpp "$sources"/rpc/*.hpp "$sources"/checkpoint/{,*/}*.hpp "$sources"/tensor/state_dict.hpp \
  "$sources"/data/batches/{batch_source,loader,sampler}.hpp |
  grep -oP '(class|struct|using) \K\w+|(?<=[ &])\w+(?=\()|^ +\K\w+(?=,)|(?<= )\w+(?= =)' | sort -u)
# shellcheck disable=SC2016  # the page's own marks
while read -r name; do named[$name]=1; done < <(grep -oP '`([a-zA-Z]+::)*\K\w+(?=`)' "$page" | sort -u)
is_declared() {
  local name=${1##*::} verb
  if [[ $name == 'lockstep '* ]]; then  # a verb of the program
    verb=${name#lockstep }
    grep -q "\"${verb%% *}\"" "$root/apps/lockstep/main.cpp"
    return
  fi
  [[ -n ${declared[$name]-} ]]
}

rows=0
while IFS='|' read -r _ pytorch here note _; do
  pytorch=${pytorch# } here=${here# } note=${note# }
  pytorch=${pytorch% }
  [[ $pytorch == PyTorch || $pytorch == ---* || -z ${pytorch// /} ]] && continue
  rows=$((rows + 1))
  if [[ $here == 'no ' ]]; then
    [[ -n ${note// /} ]] || fail "$pytorch is \"no\" without a reason"
    continue
  fi
  [[ $here == *'`'?*'`'* ]] || { fail "$pytorch names nothing that is here, nor \"no\""; continue; }
  while [[ $here == *'`'*'`'* ]]; do
    here=${here#*'`'}
    name=${here%%'`'*} here=${here#*'`'}
    is_declared "$name" || fail "$pytorch: $name is declared nowhere"
  done
done < <(grep '^|' "$page")
((rows > 200)) || fail "only $rows rows were read"

# The other way round.
while read -r name; do
  [[ -n ${named[$name]-} ]] || fail "the function $name is not on the page"
done < <(sed -nE "s|^#include <lockstep/(.*)>|$sources/\\1|p" "$sources"/autograd/functional.hpp | xargs cat | grep -oE '^\[\[nodiscard\]\]( inline)? Variable [a-z0-9_]+\(' |
  sed -E 's/.* ([a-z0-9_]+)\(/\1/' | sort -u)
while read -r name; do
  case $name in
    BatchNorm | RecurrentLayer | RecurrentCell | ConvTranspose | ConstantPad | PadLayer | MaxPool | AvgPool | AdaptiveMaxPool | \
      AdaptiveAvgPool) continue ;; # what others are made of
  esac
  [[ -n ${named[$name]-} ]] || fail "the layer $name is not on the page"
done < <(cat "$sources"/nn/layers/*.hpp "$sources"/nn/{sequential,module_list}.hpp |
  sed -nE 's/^class ([A-Za-z0-9]+) : public .*/\1/p; s/^using ([A-Za-z0-9]+) = .*<.*/\1/p' | sort -u)
while read -r name; do
  [[ $name == OptimizerOf ]] && continue # what others are made of
  [[ -n ${named[$name]-} ]] || fail "the optimizer $name is not on the page"
done < <(cat "$sources"/optim/*.hpp | sed -nE 's/^class ([A-Za-z0-9]+) : public (Optimizer|OptimizerOf<.*>|Adam) .*/\1/p' | sort -u)
((failures == 0))
