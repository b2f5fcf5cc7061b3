// Package guestpb is the guest protocol's schema and the code generated from it (`make generate`; needs protoc and its include files (libprotobuf-dev)).
package guestpb

//go:generate sh ../../scripts/protoc guest.proto
//go:generate sh ../../scripts/protoc rooms.proto
//go:generate sh ../../scripts/protoc shells.proto
//go:generate sh ../../scripts/protoc jobs.proto
//go:generate sh ../../scripts/protoc files.proto
//go:generate sh ../../scripts/protoc mounts.proto
