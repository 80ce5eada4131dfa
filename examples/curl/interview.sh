#!/usr/bin/env bash
# Plays the skill `interview` over HTTP, with nothing but curl and python3 (to read JSON).
#
#   examples/curl/interview.sh                          asks you
#   examples/curl/interview.sh "A clock." "Us." "Soon"  answers with these words, in their order
#
# The service is the one of `make run`, unless TURNKEEPER_URL and TURNKEEPER_TOKEN say otherwise.
set -euo pipefail

URL=${TURNKEEPER_URL:-http://127.0.0.1:9813}
TOKEN=${TURNKEEPER_TOKEN:-$(cat .turnkeeper/token)}

# call PATH [BODY] [HEADER]: a POST if there is a body. A refusal is printed, and ends the script.
call() {
  local answer
  answer=$(curl --silent --show-error --fail-with-body "$URL/v1$1" \
    -H "Authorization: Bearer $TOKEN" -H "${3:-Accept: application/json}" \
    ${2:+-H "Content-Type: application/json" -d "$2"}) || { echo "$answer" >&2; exit 1; }
  echo "$answer"
}

# json PATH: a value of the JSON on stdin, such as `pending.prompt`.
json() {
  python3 -c '
import functools, json, sys
found = functools.reduce(lambda value, name: value[name], sys.argv[1].split("."), json.load(sys.stdin))
print(found if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False))' "$1"
}

# reply ID TEXT: the body of a reply; Python knows how to quote.
reply() { python3 -c 'import json, sys; print(json.dumps({"interaction_id": int(sys.argv[1]), "response": sys.argv[2]}))' "$@"; }

job='{"skill_id": "interview", "engine": "demo", "execution_mode": "interactive"}'
created=$(call /jobs "$job")
run=$(json run_id <<<"$created")
echo "run $run"

while :; do
  # Answered as soon as the run waits for a person or has ended, or after a minute.
  now=$(call "/jobs/$run" "" "Prefer: wait=60")
  case $(json status <<<"$now") in
    queued | running) ;;
    waiting_user)
      pending=$(call "/jobs/$run/interaction/pending")
      echo && json pending.prompt <<<"$pending"
      if [ $# -gt 0 ]; then answer=$1 && shift && echo "> $answer"; else read -rep "> " answer; fi
      call "/jobs/$run/interaction/reply" "$(reply "$(json pending.interaction_id <<<"$pending")" "$answer")" >/dev/null
      ;;
    succeeded) break ;;
    *) json error <<<"$now" >&2 && exit 1 ;;
  esac
done

result=$(call "/jobs/$run/result")
echo && json result <<<"$result"
