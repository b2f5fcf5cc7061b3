package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
)

// An artifact that comes half is not there, so that it can be saved once more; what was there
// before stays.
func TestSaveBrokenOff(t *testing.T) {
	for name, artifact := range map[string]broken{"a file": {files: []string{""}}, "a folder": {folder: true, files: []string{"a/b", "c"}}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewArtifactsHandler(artifact)))))
			to := t.TempDir()
			if code, out, stderr := sandbox(t, "artifacts", "save", "1", to); code != fault.ExitExecution || !strings.Contains(stderr, "the disk broke") {
				t.Errorf("%d, %s%s", code, out, stderr)
			}
			if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
			path := filepath.Join(to, "x")
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, out, stderr := sandbox(t, "artifacts", "save", "1", to); code != fault.ExitRejected {
				t.Errorf("over another: %d, %s%s", code, out, stderr)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
				t.Errorf("what was there is %q, %v", text, err)
			}
		})
	}
}

// broken is an artifact that cannot be read to its end.
type broken struct {
	controlpbconnect.UnimplementedArtifactsHandler
	folder bool
	files  []string
}

func (a broken) Show(context.Context, *controlpb.ShowArtifactRequest) (*controlpb.ShowArtifactResponse, error) {
	return &controlpb.ShowArtifactResponse{Artifact: &controlpb.Artifact{Id: 1, Name: "x", Folder: a.folder}}, nil
}

func (a broken) Read(_ context.Context, _ *controlpb.ReadArtifactRequest, stream *connect.ServerStream[controlpb.ReadArtifactResponse]) error {
	for _, file := range a.files {
		if err := stream.Send(&controlpb.ReadArtifactResponse{File: &file, Data: []byte("half")}); err != nil {
			return err
		}
	}
	return connect.NewError(connect.CodeUnknown, errors.New("the disk broke"))
}

// What was deleted is told, though something else could not be.
func TestDeleteBrokenOff(t *testing.T) {
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewArtifactsHandler(keeper{kept: 2})))))
	code, out, stderr := sandbox(t, "artifacts", "delete", "1", "2", "3", "--yes", "--json")
	var answer struct{ Deleted []int64 }
	if err := json.Unmarshal([]byte(out), &answer); err != nil || !slices.Equal(answer.Deleted, []int64{1}) {
		t.Errorf("%s, %v", out, err)
	}
	if code != fault.ExitExecution || !strings.Contains(stderr, "the disk broke") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// keeper has artifacts, of which one cannot be deleted.
type keeper struct {
	controlpbconnect.UnimplementedArtifactsHandler
	kept int64
}

func (k keeper) Show(_ context.Context, r *controlpb.ShowArtifactRequest) (*controlpb.ShowArtifactResponse, error) {
	return &controlpb.ShowArtifactResponse{Artifact: &controlpb.Artifact{Id: r.Id, Name: "x"}}, nil
}

func (k keeper) Delete(_ context.Context, r *controlpb.DeleteArtifactRequest) (*controlpb.DeleteArtifactResponse, error) {
	if r.Id == k.kept {
		return nil, connect.NewError(connect.CodeUnknown, errors.New("the disk broke"))
	}
	return &controlpb.DeleteArtifactResponse{}, nil
}

// What could run a program of the agent is not opened.
func TestOpenable(t *testing.T) {
	for name, want := range map[string]bool{"report.PDF": true, "a.tar.gz": false, "run.sh": false, "run": false, "x.desktop": false, "folder/": true, "Evil.app/": false} {
		f := &controlpb.Artifact{Name: strings.TrimSuffix(name, "/"), Folder: strings.HasSuffix(name, "/")}
		if openable(f) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
