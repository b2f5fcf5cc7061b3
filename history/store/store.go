// Package store keeps content by its SHA-256 digest in one folder.
package store

// Store is a folder of objects. One process at a time may open it.
type Store struct {
	dir string
	max int64
}
