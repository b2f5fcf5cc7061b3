//go:build (darwin || vzstandin) && !cgo

package vz

// giveDuplicates is for tools that check this package without C. vz needs C.
func giveDuplicates() error { return nil }
