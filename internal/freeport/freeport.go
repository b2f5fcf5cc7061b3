// Package freeport gives tests addresses of this computer where nobody listens.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Kernels give away ports above these by themselves, and would to anybody before the
// test's own program listens.
const from, to = 10_000, 30_000

// Address is host and port of one that is free.
func Address(t testing.TB) string {
	t.Helper()
	const tries = 100 // before this computer has none
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
