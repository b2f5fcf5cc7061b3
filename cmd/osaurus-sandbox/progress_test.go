package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/progress"
)

// A command shows the steps of the current operation, and none of an earlier one.
func TestStepsShown(t *testing.T) {
	began := timestamppb.Now()
	status := func(operation string, states ...string) *controlpb.Status {
		j := &controlpb.Progress{Began: began}
		for i, name := range []string{"boot", "verify"}[:len(states)] {
			j.Steps = append(j.Steps, &controlpb.Step{Name: name, Status: states[i]})
		}
		return &controlpb.Status{Operation: operation, Progress: j}
	}
	for _, test := range []struct {
		name     string
		statuses []*controlpb.Status
		want     int
	}{
		{"it stops", []*controlpb.Status{status("down", "completed", "completed"), status("", "completed", "completed")}, 0},
		{"nothing happens", []*controlpb.Status{status("", "completed", "completed")}, 0},
		{"it starts", []*controlpb.Status{status("up", "completed", "pending"), status("up", "completed", "completed")}, 2},
	} {
		shown := 0
		s := newSteps(func(progress.Event) { shown++ })
		for _, status := range test.statuses {
			s.show(status)
		}
		if shown != test.want {
			t.Errorf("%s: %d steps are shown, want %d", test.name, shown, test.want)
		}
	}
}

// The progress display erases no output of a command.
func TestOutputIsNotErased(t *testing.T) {
	client := starting(t)
	for name, waits := range map[string]bool{"at once": false, "after a step": true} {
		t.Run(name, func(t *testing.T) {
			master, slave := openTerminal(t)
			c := console{strings.NewReader(""), slave, slave}
			shown := ""
			until := func(text string) error {
				buf := make([]byte, 4096)
				for !strings.Contains(shown, text) {
					n, err := master.Read(buf)
					if shown += string(buf[:n]); err != nil {
						return err
					}
				}
				return nil
			}
			start := showingStart(&call{console: c, Client: client}, func(_ context.Context, command engine.Command) (process, error) {
				if waits {
					if err := until("boot"); err != nil {
						return nil, err
					}
				}
				_, err := io.WriteString(command.Stdout, "output")
				return nil, err
			})
			if _, err := start(t.Context(), engine.Command{Stdout: c.out, Stderr: c.err}); err != nil {
				t.Fatal(err)
			}
			const end = "end"
			if _, err := io.WriteString(slave, end); err != nil {
				t.Fatal(err)
			}
			if err := until(end); err != nil {
				t.Fatal(err)
			}
			got := strings.TrimSuffix(shown, end)
			if !strings.HasSuffix(got, clearLine+"output") && (waits || got != "output") { // on a slow computer, a step is shown first
				t.Errorf("%q", got)
			}
		})
	}
}

// starting returns a client of a daemon that never finishes starting its guest.
func starting(t *testing.T) *control.Client {
	t.Helper()
	client, err := control.Connect(t.Context(), standIn(t, http.NewServeMux()), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// standIn returns the home of a daemon that never finishes starting its guest, and answers other
// calls with mux.
func standIn(t *testing.T, mux *http.ServeMux) config.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "j") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := config.Home(dir)
	if _, err := home.Make(home.Run()); err != nil {
		t.Fatal(err)
	}
	path, err := control.Socket(home)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	mux.Handle(controlpbconnect.NewSandboxHandler(booting{}))
	server := &http.Server{Protocols: protocols, Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return home
}

type booting struct {
	controlpbconnect.UnimplementedSandboxHandler
}

func (booting) Hello(context.Context, *controlpb.HelloRequest) (*controlpb.HelloResponse, error) {
	return &controlpb.HelloResponse{Version: control.VersionMax}, nil
}

func (booting) WatchStatus(ctx context.Context, _ *controlpb.WatchStatusRequest, stream *connect.ServerStream[controlpb.StatusResponse]) error {
	err := stream.Send(&controlpb.StatusResponse{Status: &controlpb.Status{
		Operation: "up", Progress: &controlpb.Progress{Began: timestamppb.Now(), Steps: []*controlpb.Step{{Name: "disk", Status: "completed"}, {Name: "boot", Status: "in_progress"}}},
	}})
	<-ctx.Done()
	return err
}

// The last lines are those of all output if the job has ended, and of the output so far if it is
// followed.
func TestJobTail(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewJobsHandler(inParts{parts: []string{"1\n2\n3", "\n4\n5\n"}})))))
	for flag, want := range map[string]string{"-n2": "4\n5\n", "-n9": "1\n2\n3\n4\n5\n", "-n0": "", "--all": "1\n2\n3\n4\n5\n", "-fn2": "2\n3\n4\n5\n"} {
		prints(t, want, "job", "tail", "alice", id, flag)
	}
	t.Setenv(config.HomeVariable, string(standIn(t, handling(controlpbconnect.NewJobsHandler(inParts{parts: []string{"", "1\n2\n3\n"}})))))
	prints(t, "1\n2\n3\n", "job", "tail", "alice", id, "-fn2")
	if _, out, _ := sandbox(t, "job", "tail", "alice", id, "-n2", "--json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"`+id+`"`) || !strings.Contains(out, `"next":`) {
		t.Errorf("as JSON: %s", out)
	}
}

// inParts is a job whose output arrives in parts.
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
