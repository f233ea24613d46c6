"""Move one file by hf-xet."""

import json
import sys

import hf_xet

verb, store, path = sys.argv[1:4]
session = hf_xet.XetSession()
if verb == "push":
    with session.new_upload_commit(endpoint=store) as commit:
        upload = commit.start_upload_file(path)
    info = upload.result().xet_info
    print(json.dumps({"hash": info.hash, "size": info.file_size}))
else:
    with session.new_file_download_group(endpoint=store) as group:
        group.start_download_file(hf_xet.XetFileInfo(sys.argv[4], int(sys.argv[5])), path)
