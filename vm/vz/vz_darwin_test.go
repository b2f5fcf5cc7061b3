//go:build darwin

package vz_test

// hostFromGuest is empty: macOS's NAT does not reach the host's loopback.
const hostFromGuest = ""
