// Package vz stands in for the real github.com/Code-Hex/vz/v3 in tests on Linux: it has the part of its API that the driver uses, and QEMU in place of Virtualization.framework.
//
// It is a module of its own with the real one's name; go.work in this folder
// puts it in the real one's place, and the build tag vzstandin lets the driver
// be built with it. internal/darwincheck compares the two by their types.
//
// Its devices for vsock and shares are those of the QEMU driver. It is a Mac
// with Apple silicon on macOS 15, so guests are arm64. What the real one does
// badly it does too, so that the driver meets it: v3.7.1's Accept hangs after
// Close, states go to one reader, goroutines stay,
// files are known by their numbers only, and where Apple raises an exception,
// which ends a real process, it panics.
package vz
