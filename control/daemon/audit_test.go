package daemon_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/timetest"
)

// Every change is in the audit with its caller, and the audit is complete.
func TestAudit(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	p, err := client.Run(t.Context(), control.RunAs{}, engine.Command{Args: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	list := func() (seen []string) {
		t.Helper()
		for e, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Client != "test" || e.Uid != int64(os.Getuid()) {
				t.Errorf("%v", e)
			}
			seen = append(seen, strings.TrimSpace(e.Action+" "+e.Outcome+" "+e.Subject))
		}
		return seen
	}
	timetest.Eventually(t, "the end of the command is recorded", func() bool { return len(list()) == 2 })
	if _, err := client.Reset(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"machine.reset ok", "machine.reset begun", "exec.root ok sh -c 'exit 3'", "exec.root begun sh -c 'exit 3'"}
	if seen := list(); !slices.Equal(seen, want) {
		t.Errorf("%q", seen)
	}
	proof, err := client.VerifyAudit(t.Context(), &controlpb.VerifyAuditRequest{})
	if err != nil || proof.Records != 4 {
		t.Errorf("%v %v", proof, err)
	}
}
