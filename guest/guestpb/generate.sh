#!/bin/sh
# Writes the Go code of guest.proto. The plugins are tools of go.mod, so that
# everyone generates the same bytes; protoc comes from the system.
set -eu
plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
go build -o "$plugins/" google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
PATH="$plugins:$PATH" protoc \
	--go_out=. --go_opt=paths=source_relative \
	--connect-go_out=. --connect-go_opt=paths=source_relative \
	guest.proto
