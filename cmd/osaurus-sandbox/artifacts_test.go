package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
)

// A broken transfer leaves no artifact, and an existing file stays.
func TestSaveBrokenOff(t *testing.T) {
	for name, artifact := range map[string]broken{"a file": {files: []string{""}}, "a folder": {folder: true, files: []string{"a/b", "c"}}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewArtifactsHandler(artifact)))))
			to := t.TempDir()
			fails(t, fault.ExitExecution, "the disk broke", "artifacts", "save", "1", to)
			if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
			path := filepath.Join(to, "x")
			if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			fails(t, fault.ExitRejected, "", "artifacts", "save", "1", to)
			if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
				t.Errorf("what was there is %q, %v", text, err)
			}
		})
	}
}

// broken serves an artifact whose content breaks off.
type broken struct {
	controlpbconnect.UnimplementedArtifactsHandler
	folder bool
	files  []string
}

func (a broken) Show(context.Context, *controlpb.ShowArtifactRequest) (*controlpb.ShowArtifactResponse, error) {
	return &controlpb.ShowArtifactResponse{Artifact: &controlpb.Artifact{Id: 1, Name: "x", Folder: a.folder}}, nil
}

func (a broken) Read(_ context.Context, _ *controlpb.ReadArtifactRequest, stream *connect.ServerStream[controlpb.Chunk]) error {
	var begun bytes.Buffer
	archive := tar.NewWriter(&begun)
	for _, file := range a.files {
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join("x", file), Mode: 0o600, Size: 4})
		if _, failed := archive.Write([]byte("half")); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	if err := errors.Join(archive.Flush(), stream.Send(&controlpb.Chunk{Data: begun.Bytes()})); err != nil {
		return err
	}
	return connect.NewError(connect.CodeUnknown, errors.New("the disk broke"))
}
