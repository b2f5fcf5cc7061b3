package store_test

import (
	"testing"

	"osaurus-sandbox/history/store"
)

// TestBatchesOfTheSame keeps what one batch needs when another one that made it fails, and nothing that only
// a failed one has put.
func TestBatchesOfTheSame(t *testing.T) {
	s, err := store.Open(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	made, found := s.Begin(), s.Begin()
	var d store.Digest
	for _, b := range []*store.Batch{made, found} {
		if d, err = b.Put([]byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	found.End(true)
	made.End(false)
	if _, err := s.Read(d); err != nil {
		t.Error(err)
	}
	if n, _, err := s.Sweep(t.Context(), func(map[store.Digest]bool) error { return nil }); n != 1 || err != nil {
		t.Errorf("%d were swept, %v", n, err)
	}
	alone := s.Begin()
	d, err = alone.Put([]byte("other"))
	if err != nil {
		t.Fatal(err)
	}
	alone.End(false)
	if _, err := s.Read(d); err == nil {
		t.Error("what only a failed batch has put is left")
	}
}
