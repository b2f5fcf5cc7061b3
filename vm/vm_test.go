package vm_test

import (
	"testing"

	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
)

func TestSubtreesSet(t *testing.T) {
	var s vm.Subtrees
	for _, p := range []string{"", ".", "..", "../a", "/a", "a/", "a/../b", "a\x00b"} {
		if err := s.Set(vm.Subtree{Path: p}); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("Set(%q) = %v, want invalid_args", p, err)
		}
	}
	for _, p := range []string{"agents/bob", "agents/alice", "..a"} {
		if err := s.Set(vm.Subtree{Path: p, UID: 1000}); err != nil {
			t.Errorf("Set(%q) = %v", p, err)
		}
	}
	all, version := s.All()
	if len(all) != 3 || all[1].Path != "agents/alice" || version != 3 {
		t.Errorf("All() = %v, %d", all, version)
	}
}
