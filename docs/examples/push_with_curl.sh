#!/bin/sh
# Push one file with curl alone, as a training machine without the client would.
#
#   AI_MODEL_ENDPOINT=... AI_MODEL_TOKEN=... push_with_curl.sh FILE MODEL VERSION
#
# Run again after an interruption, it sends only the parts that have not arrived.
set -eu

file=$1 model=$2 version=$3
api=$AI_MODEL_ENDPOINT/v1
name=$(basename "$file")
size=$(wc -c <"$file" | tr -d ' ')
digest=sha256:$(sha256sum "$file" | cut -d ' ' -f 1)

call() { # METHOD PATH [BODY]
    curl --silent --show-error --fail-with-body --request "$1" \
        --header "Authorization: Bearer $AI_MODEL_TOKEN" \
        --header 'Content-Type: application/json' ${3:+--data "$3"} "$api$2"
}
field() { # NAME, of the JSON object on stdin
    python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# Begin. The same request again finds the same push.
push=$(call POST "/models/$model/pushes" "{
    \"version\": \"$version\",
    \"files\": [{\"path\": \"$name\", \"size\": $size, \"sha256\": \"$digest\"}]}")
push_id=$(printf '%s' "$push" | field push_id)

# Upload. The service says which parts it wants and where, up to 100 at a time.
while [ "$(printf '%s' "$push" | field bytes_missing)" != 0 ]; do
    targets=$(call POST "/pushes/$push_id/uploads" "{\"uploads\": [{
        \"digest\": \"$digest\", \"size\": $size,
        \"contents\": [{\"path\": \"$name\", \"first_chunk\": 0, \"last_chunk\": 1}]}]}" |
        python3 -c '
import json, sys
for target in json.load(sys.stdin)["uploads"][0]["targets"]:
    headers = "".join(f"header = \"{name}: {text}\"\\n" for name, text in target["headers"].items())
    print(target["offset"], target["size"], target["url"], headers, sep="\t")')
    [ -n "$targets" ] || break
    printf '%s\n' "$targets" | while IFS="$(printf '\t')" read -r offset length url headers; do
        tail -c "+$((offset + 1))" "$file" | head -c "$length" >"$file.part"
        printf '%b' "$headers" | curl --silent --show-error --fail --config - \
            --upload-file "$file.part" "$url"
    done
    rm -f "$file.part"
done

# Finish. The service hashes what has arrived, reads its structure and publishes it.
push=$(call POST "/pushes/$push_id/finish")
while [ "$(printf '%s' "$push" | field state)" = verifying ]; do
    push=$(call GET "/pushes/$push_id?wait_s=30")
done
printf '%s\n' "$push"
[ "$(printf '%s' "$push" | field state)" = ready ]
