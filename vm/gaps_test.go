package vm_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/vm"
)

// TestGaps: a driver that shows everybody as the owner cannot keep limits by owner, and says
// so with settings that exist.
func TestGaps(t *testing.T) {
	if gaps := (vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipSubtree, vm.OwnershipAsker}}).Gaps(); gaps != nil || vm.CheckGaps(gaps) != nil {
		t.Errorf("with owners of subtrees: %v", gaps)
	}
	gaps := vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipAsker}}.Gaps()
	found := vm.CheckGaps(gaps)
	if len(found) != 1 || found[0].Status != vm.FindingLimited || !strings.Contains(found[0].Detail, "limits.homeMB") {
		t.Errorf("without: %+v", found)
	}
	for _, key := range regexp.MustCompile(`[a-z]+\.[a-zA-Z]+`).FindAllString(found[0].Detail, -1) {
		if !slices.Contains(config.AgentKeys(), key) {
			t.Errorf("there is no setting %s", key)
		}
	}
}
