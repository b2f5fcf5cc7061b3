package main

import (
	"context"
	"reflect"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
)

// pastCalls serves some calls, and repeats what it was asked.
type pastCalls struct {
	controlpbconnect.UnimplementedHistoryHandler
	asked *[]any
}

var pastMoment = timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local))

func (p pastCalls) List(_ context.Context, r *controlpb.ListHistoryRequest, stream *connect.ServerStream[controlpb.ListHistoryResponse]) error {
	for _, c := range []*controlpb.HistoryCall{
		{Call: 4, Tool: "undo", Summary: "call 2", Outcome: "ok", Changed: true, Files: "-1", Lines: "+0 -3", Undoes: 2},
		{Call: 3, Outcome: "ok", Changed: true, Note: "no checkpoint"},
		{Call: 2, Tool: "exec", Summary: "make", Outcome: "timeout", Changed: true, Files: "+1 ~2", Lines: "+3 -0", Undone: 4, Note: "undone by 4"},
		{Call: 1, Tool: "exec", Summary: "false", Outcome: "execution_error", Note: "execution_error"},
	} {
		c.Began, c.Ended = pastMoment, pastMoment
		if err := stream.Send(&controlpb.ListHistoryResponse{Call: c}); err != nil {
			return err
		}
	}
	return nil
}

func (p pastCalls) Diff(_ context.Context, r *controlpb.DiffHistoryRequest, stream *connect.ServerStream[controlpb.DiffHistoryResponse]) error {
	*p.asked = append(*p.asked, r.First, r.Last, r.Paths, r.Text)
	text := &controlpb.FileChange{Path: "a", What: "modified", LinesAdded: 1, LinesGone: 1}
	if r.Text {
		text.Hunks = []string{"@@ -1,1 +1,1 @@\n-old\n+new\x1b[2J\n", ""}
	}
	for _, c := range []*controlpb.FileChange{
		text,
		{Path: "d", What: "added", Note: "folder"},
		{Path: "run", What: "mode", Note: "-rw-r--r-- → -rwxr-xr-x"},
		{Path: "pic", What: "removed", Note: "7 → 0 bytes"},
	} {
		if err := stream.Send(&controlpb.DiffHistoryResponse{Change: c}); err != nil {
			return err
		}
	}
	return nil
}

func (p pastCalls) Undo(_ context.Context, r *controlpb.UndoRequest) (*controlpb.UndoResponse, error) {
	*p.asked = append(*p.asked, r.Call, r.Paths, r.AllSince, r.Force, r.Redo)
	return &controlpb.UndoResponse{
		Call: &controlpb.HistoryCall{Call: 5}, Of: &controlpb.HistoryCall{Call: 2, Tool: "exec", Summary: "make"}, Changed: 3,
		Changes: []*controlpb.FileChange{{Path: "a", What: "removed"}}, Left: []string{"fifo: no checkpoint keeps it"},
	}, nil
}

func (pastCalls) Verify(context.Context, *controlpb.VerifyHistoryRequest) (*controlpb.VerifyHistoryResponse, error) {
	return &controlpb.VerifyHistoryResponse{Objects: []string{"abc"}, Calls: []string{`alice: call 7: "src/a"`}}, nil
}

func TestHistoryCommands(t *testing.T) {
	var asked []any
	wantAsked := func(want ...any) {
		t.Helper()
		if !reflect.DeepEqual(asked, want) {
			t.Errorf("it asked for %#v, want %#v", asked, want)
		}
		asked = nil
	}
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewHistoryHandler(pastCalls{asked: &asked})))))
	prints(t, `CALL  WHEN                 FILES  LINES  TOOL             SUMMARY
4     2026-01-02 03:04:05  -1     +0 -3  undo             call 2
3     2026-01-02 03:04:05                (between calls)   [no checkpoint]
2     2026-01-02 03:04:05  +1 ~2  +3 -0  exec             make [undone by 4]
1     2026-01-02 03:04:05                exec             false [execution_error]
`, "history", "alice")
	const stat = "changed a  +1 -1\n"
	const rest = "new d  folder\nmode run  -rw-r--r-- → -rwxr-xr-x\ndeleted pic  7 → 0 bytes\n"
	prints(t, stat+`--- a/a
+++ b/a
@@ -1,1 +1,1 @@  hunk 1
-old
+new·[2J
@@ not shown: name the file to see it @@  hunk 2

`+rest, "diff", "alice")
	wantAsked(int64(0), int64(0), []string(nil), true)
	prints(t, stat+rest, "diff", "alice", "3..7", "src", "--stat")
	wantAsked(int64(3), int64(7), []string{"src"}, false)
	ok(t, "diff", "alice", "3..", "--json")
	wantAsked(int64(3), int64(-1), []string(nil), true)
	ok(t, "diff", "alice", "src", "7")
	wantAsked(int64(0), int64(0), []string{"src", "7"}, true)
	fails(t, fault.ExitInvalidArgs, "smaller first", "diff", "alice", "7..3")
	prints(t, "deleted a  \n… and 2 others\nundid call 2 (exec make): this is call 5\n", "undo", "alice", "2", "a", "--all-since")
	wantAsked(int64(2), []string{"a"}, true, false, false)
	ok(t, "redo", "alice", "--force")
	wantAsked(int64(0), []string(nil), false, true, true)
	fails(t, fault.ExitInvalidArgs, "only one call", "undo", "alice", "3..7")
	fails(t, fault.ExitExecution, "1 object damaged", "verify")
}
