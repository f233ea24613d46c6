#!/bin/sh
# Make the bucket and the registry's own user. May run again at any time.
set -eu

mc alias set store http://minio:9000 "$MINIO_ROOT_USER" "$MINIO_ROOT_PASSWORD"
mc mb --ignore-existing "store/$BUCKET"
mc anonymous set none "store/$BUCKET"

sed "s/BUCKET/$BUCKET/g" /init/policy.json >/tmp/policy.json
mc admin policy create store ai-model-registry /tmp/policy.json
mc admin user add store "$ACCESS_KEY_ID" "$SECRET_ACCESS_KEY"
mc admin policy attach store ai-model-registry --user "$ACCESS_KEY_ID" || true # attached before
