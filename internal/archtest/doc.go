// Package archtest checks the structure of the module: import order, package comments, sizes, and that documents name things that exist.
package archtest

//go:generate go test -count=1 -run TestGeneratedParts . -update
