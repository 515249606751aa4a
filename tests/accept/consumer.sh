#!/usr/bin/env bash
# consumer.sh BUILD: a project that has Torchweave as a subdirectory builds all that it needs, and runs.
set -euo pipefail
ctest --test-dir "$1" -C accept -R '^consumer\.whole$' --output-on-failure --no-tests=error
