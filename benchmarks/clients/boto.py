"""Move one file by boto3's managed transfers."""

import sys

import boto3

verb, path, bucket, key = sys.argv[1:]
client = boto3.client("s3")
if verb == "push":
    client.upload_file(path, bucket, key)
else:
    client.download_file(bucket, key, path)
