// Package freeport finds unused addresses of this computer for tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Kernels assign ports above these, possibly before the test's own program listens.
const from, to = 10_000, 30_000

// Address returns an unused host and port.
func Address(t testing.TB) string {
	t.Helper()
	const tries = 100
	for range tries {
		at := fmt.Sprintf("127.0.0.1:%d", from+rand.N(to-from))
		if l, err := net.Listen("tcp", at); err == nil {
			_ = l.Close()
			return at
		}
	}
	t.Fatal("no port is free")
	return ""
}
