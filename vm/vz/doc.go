// Package vz runs machines with Apple's Virtualization.framework, which puts each in a sandboxed process.
//
// It uses a pinned version of github.com/Code-Hex/vz/v3. Comments name the bugs that it
// works around. On Linux, tests run the same code on a stand-in of that module (folder
// standin, build tag vzstandin), which drives QEMU. No Mac has run it yet: MACOS.md says
// what is tested and what is only type-checked.
//
// # Goroutines
//
// Each started machine has a goroutine that reads the framework's states and ends the
// machine (machine.follow), and later one that stops it (machine.stop). Calls of the
// framework have no deadline: vm/child runs them in another process, and waits no longer than its
// caller. vz v3.7.1 has goroutines that never end, which keep an ended
// machine's object in memory: of each listener, and of the NIC's disconnections.
package vz
