#!/bin/sh
# with_torch.sh SCRIPT [ARGUMENT...]: runs a test with an interpreter that has PyTorch, by name or by path: that of
# $SHOAL_PYTHON, python3 on the PATH, Debian's. Without one it says so and skips (status 77).
for python in "${SHOAL_PYTHON:-}" python3 /usr/bin/python3; do
    [ -n "$python" ] || continue
    if "$python" -c 'import torch' >/dev/null 2>&1; then
        exec "$python" "$@"
    fi
done
echo "SKIPPED: no python3 here can import torch; apt-get install python3-torch, or set SHOAL_PYTHON" >&2
exit 77
