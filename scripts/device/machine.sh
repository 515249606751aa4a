#!/usr/bin/env bash
# machine.sh BUILD KIND: the devices of this machine, and when it was asked, as a JSON object. Where there are none: one line that says so, exit code 77.
set -euo pipefail
build=$1 kind=$2
said=$("$build/bin/probe_device" "$kind" 2>&1) || { tail -n 1 <<<"$said" >&2; exit 77; }
found=$(grep '^{' <<<"$said")
name=unknown driver=unknown
if [ "$kind" = cuda ] && command -v nvidia-smi >/dev/null; then
  IFS=, read -r name driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed -n 1p)
fi
printf '{"device":"%s","driver":"%s","date":"%s","found":%s}\n' "$name" "${driver# }" "$(date -u +%FT%TZ)" "$found"
