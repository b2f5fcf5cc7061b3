// Package vz stands in for the real github.com/Code-Hex/vz/v3 in tests on Linux: it has the part of its API that the driver uses, on top of the QEMU driver.
//
// It is a module of its own with the real one's name. go.work in this folder puts it in the
// real one's place, and the build tag vzstandin builds the driver with it.
// internal/darwincheck compares the types of both.
//
// It is a Mac with Apple silicon on macOS 15, so guests are arm64. It has the faults of the
// real one, so that the driver meets them: v3.7.1's Accept hangs after Close, states go to
// one reader, goroutines stay, files are known by their numbers only, and where Apple raises
// an exception, which ends a real process, it panics. rude.go has those of the framework
// that a test asks for.
package vz
