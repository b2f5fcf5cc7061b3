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
	if gaps := (vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipSubtree, vm.OwnershipAsker}}).Gaps(); gaps != nil {
		t.Errorf("with owners of subtrees: %v", gaps)
	}
	gaps := vm.Capabilities{Ownership: []vm.Ownership{vm.OwnershipAsker}}.Gaps()
	if text := strings.Join(gaps, " "); !strings.Contains(text, "limits.homeMB") {
		t.Errorf("without: %s", text)
	}
	for _, key := range regexp.MustCompile(`[a-z]+\.[a-zA-Z]+`).FindAllString(strings.Join(gaps, " "), -1) {
		if !slices.Contains(config.AgentKeys(), key) {
			t.Errorf("there is no setting %s", key)
		}
	}
}
