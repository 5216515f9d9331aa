#!/bin/sh
# Builds the test and runs it.
set -e
cd "$(dirname "$0")"
mkdir -p build
cc -std=c99 -Wall -Wextra -Werror -o build/test intervals.c test.c
./build/test
