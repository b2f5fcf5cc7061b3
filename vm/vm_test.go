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
	before := s.Load()
	if all := *before; len(all) != 3 || all[1].Path != "agents/alice" {
		t.Errorf("Load() = %v", all)
	}
	s.Remove("agents/alice")
	if after := s.Load(); after == before || len(*after) != 2 || len(*before) != 3 {
		t.Errorf("after Remove: %v, before: %v", *after, *before)
	}
}
