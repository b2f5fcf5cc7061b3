//go:build darwin

package vz_test

// hostFromGuest: macOS's NAT does not reach the host's loopback.
const hostFromGuest = ""
