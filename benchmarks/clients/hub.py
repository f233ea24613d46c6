"""Download one file by huggingface_hub."""

import sys

from huggingface_hub import hf_hub_download

hf_hub_download("bench/model", sys.argv[1], local_dir=sys.argv[2])
