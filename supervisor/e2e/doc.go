// Package e2e tests the supervisor with real machines while QEMU, the guest or the daemon is killed or stopped.
package e2e
