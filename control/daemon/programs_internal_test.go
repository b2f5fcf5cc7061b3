package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"

	"osaurus-sandbox/bridge"
	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets"
	"osaurus-sandbox/secrets/redact"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/store"
)

// The audit of programs' calls is redacted.
func TestProgramsAreRecordedWithoutSecrets(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	value, err := secrets.ParseValue("canary-5d0e")
	if err != nil {
		t.Fatal(err)
	}
	record := audit.New(db)
	p := programs{record, slog.New(slog.DiscardHandler), func(agent config.AgentID) *redact.Scrubber {
		if agent != "A" {
			return nil
		}
		return redact.New([]redact.Secret{{Name: "TOKEN", Value: value}})
	}}
	failure := fault.Newf(fault.Rejected, "dispatch task", "canary-5d0e", "it is for another agent")
	p.Record(t.Context(), bridge.Caller{Agent: "A", Name: "alice"}, bridge.DispatchTask, "canary-5d0e", failure)
	entries := 0
	for e, err := range record.List(t.Context(), audit.Filter{}) {
		if err != nil || e.Subject != "[REDACTED:TOKEN]" || e.Detail != "dispatch task [REDACTED:TOKEN]: it is for another agent" || e.Outcome != audit.Outcome(fault.Rejected) {
			t.Errorf("%+v, %v", e, err)
		}
		entries++
	}
	if entries != 1 {
		t.Errorf("%d entries", entries)
	}
}
