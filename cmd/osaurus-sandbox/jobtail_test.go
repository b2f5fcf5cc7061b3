package main

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
)

// Of a job that has ended the last lines are shown of all that came, and of one that is
// followed those of what there was.
func TestJobTail(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewJobsHandler(inParts{parts: []string{"1\n2\n3", "\n4\n5\n"}})))))
	for flag, want := range map[string]string{"-n2": "4\n5\n", "-n9": "1\n2\n3\n4\n5\n", "-n0": "", "--all": "1\n2\n3\n4\n5\n", "-fn2": "2\n3\n4\n5\n"} {
		if code, out, stderr := sandbox(t, "job", "tail", "alice", id, flag); code != 0 || out != want {
			t.Errorf("%s: %d, %q, %s", flag, code, out, stderr)
		}
	}
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewJobsHandler(inParts{parts: []string{"", "1\n2\n3\n"}})))))
	if code, out, stderr := sandbox(t, "job", "tail", "alice", id, "-fn2"); code != 0 || out != "1\n2\n3\n" {
		t.Errorf("one that was silent: %d, %q, %s", code, out, stderr)
	}
	if _, out, _ := sandbox(t, "job", "tail", "alice", id, "-n2", "--json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"`+id+`"`) || !strings.Contains(out, `"next":`) {
		t.Errorf("as JSON: %s", out)
	}
}

// inParts is a job whose output comes in so many parts.
type inParts struct {
	controlpbconnect.UnimplementedJobsHandler
	parts []string
}

func (p inParts) Tail(_ context.Context, r *controlpb.TailJobRequest, stream *connect.ServerStream[controlpb.TailJobResponse]) error {
	at := uint64(0)
	for _, part := range p.parts {
		next := at + uint64(len(part))
		if err := stream.Send(&controlpb.TailJobResponse{Data: []byte(part), Offset: at, Next: next}); err != nil {
			return err
		}
		at = next
	}
	return stream.Send(&controlpb.TailJobResponse{Offset: at, Next: at, Job: &controlpb.Job{Id: r.Id}})
}
