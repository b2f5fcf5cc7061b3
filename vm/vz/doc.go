// Package vz runs machines with Apple's Virtualization.framework, which puts each in a sandboxed process.
//
// It uses a pinned version of github.com/Code-Hex/vz/v3. Comments name the bugs that it
// works around. On Linux, tests run the same code on a stand-in of that module (folder
// standin, build tag vzstandin), which drives QEMU. No Mac has run it yet: MACOS.md says
// what is tested and what is only type-checked.
//
// # Goroutines
//
// Each started machine has one goroutine (follow.go) that reads the framework's states
// and ends the machine. Calls of the framework have no deadline, so each runs in its own
// goroutine while the caller waits for it or for its context.
package vz
