// Package vz runs machines with Apple's Virtualization.framework: each lives in a process that macOS starts and confines for this one.
//
// The framework is reached through github.com/Code-Hex/vz/v3 at one pinned
// version, whose flaws are worked around where they are met; comments say what
// they are. On Linux the same code runs in tests over a stand-in of that module
// (folder standin, build tag vzstandin) which drives QEMU underneath. No Mac has
// run it yet: MACOS.md says what was proven, and what was only type-checked.
//
// # Who does what
//
// One goroutine for each started machine (follow.go) reads the framework's
// states, pulls the cable, and ends the machine; everybody else asks it to or
// watches. Calls of the framework have no deadline, so each is made in a
// goroutine of its own and waited for as long as the caller's context lasts.
package vz
