#!/bin/sh
# venv.sh [FOLDER]: a virtual environment with a current PyTorch, transformers and Lightning from the package
# registry, for the tests that are skipped or use stand-ins without them. About 6 GB, GPU libraries included.
#   SHOAL_PYTHON=$(tests/python/venv.sh) tests/run.sh test-gcc
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-out/venv}
python=$PWD/$folder/bin/python
case $folder in /*) python=$folder/bin/python ;; esac
if ! "$python" -c 'import torch, transformers, pytorch_lightning, safetensors' >/dev/null 2>&1; then
    python3 -m venv "$folder" >&2
    "$python" -m pip install --quiet --disable-pip-version-check \
        torch numpy transformers pytorch-lightning safetensors >&2
fi
echo "$python"
