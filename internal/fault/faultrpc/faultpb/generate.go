// Package faultpb is the schema of an error on the wire and the code generated from it (`make generate`; needs protoc).
package faultpb

//go:generate sh ../../../../scripts/protoc fault.proto
