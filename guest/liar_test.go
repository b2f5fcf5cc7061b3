package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/guestpb/guestpbconnect"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// patience bounds each call to a lying guest.
const patience = time.Minute

// flood is far more than the host asked for.
const flood = 64 << 20

// liar is a guest that was taken over and answers with too much or nonsense.
type liar struct {
	guestpbconnect.UnimplementedGuestHandler
	guestpbconnect.UnimplementedFilesHandler
	guestpbconnect.UnimplementedJobsHandler
	guestpbconnect.UnimplementedRoomsHandler
	guestpbconnect.UnimplementedShellsHandler

	exec func(send func(*guestpb.ExecResponse) error) error
}

func (l *liar) Hello(context.Context, *guestpb.HelloRequest) (*guestpb.HelloResponse, error) {
	return &guestpb.HelloResponse{GuestVersion: strings.Repeat("\x1b]0;", 1000)}, nil
}

func (l *liar) Exec(_ context.Context, s *connect.BidiStream[guestpb.ExecRequest, guestpb.ExecResponse]) error {
	return l.exec(s.Send)
}

func (l *liar) ExecWithoutInput(_ context.Context, _ *guestpb.Start, s *connect.ServerStream[guestpb.ExecResponse]) error {
	return l.exec(s.Send)
}

func (l *liar) Stat(context.Context, *guestpb.StatFileRequest) (*guestpb.StatFileResponse, error) {
	return &guestpb.StatFileResponse{}, nil
}

func (l *liar) List(context.Context, *guestpb.ListFolderRequest) (*guestpb.ListFolderResponse, error) {
	entry := &guestpb.FolderEntry{Name: bytes.Repeat([]byte("n"), 10)}
	return &guestpb.ListFolderResponse{Entries: repeat(entry, 50_000)}, nil
}

func (l *liar) Read(_ context.Context, _ *guestpb.ReadFileRequest, s *connect.ServerStream[guestpb.ReadFileResponse]) error {
	info := &guestpb.FileInfo{Kind: "file", Size: math.MaxUint64, Mode: math.MaxUint32, ModifiedUnixNano: math.MinInt64}
	err := s.Send(&guestpb.ReadFileResponse{Info: info, Offset: math.MaxUint64})
	for sent := 0; sent < flood && err == nil; sent += protocol.Chunk {
		err = s.Send(&guestpb.ReadFileResponse{Data: make([]byte, protocol.Chunk)})
	}
	return err
}

func (l *liar) Search(_ context.Context, _ *guestpb.SearchRequest, s *connect.ServerStream[guestpb.SearchResponse]) (err error) {
	for sent := 0; sent < flood && err == nil; sent += protocol.Chunk {
		err = s.Send(&guestpb.SearchResponse{Matches: repeat(&guestpb.SearchMatch{Path: []byte("../../etc")}, 5000)})
	}
	return err
}

func (l *liar) ListJobs(context.Context, *guestpb.ListJobsRequest) (*guestpb.ListJobsResponse, error) {
	job := &guestpb.Job{Code: math.MinInt32, Signal: -1, StartedUnixNano: math.MaxInt64, Written: math.MaxUint64}
	return &guestpb.ListJobsResponse{Jobs: repeat(job, 10_000)}, nil
}

func (l *liar) WaitJob(context.Context, *guestpb.WaitJobRequest) (*guestpb.WaitJobResponse, error) {
	return &guestpb.WaitJobResponse{}, nil
}

func (l *liar) TailJob(context.Context, *guestpb.TailJobRequest) (*guestpb.TailJobResponse, error) {
	return &guestpb.TailJobResponse{Data: make([]byte, protocol.MaxMessage-100), Offset: math.MaxUint64}, nil
}

func (l *liar) Sessions(context.Context, *guestpb.SessionsRequest) (*guestpb.SessionsResponse, error) {
	return &guestpb.SessionsResponse{Sessions: repeat(&guestpb.Session{State: "\x1b[2J", Attached: math.MaxUint32}, 10_000)}, nil
}

func (l *liar) Run(context.Context, *guestpb.ShellRunRequest) (*guestpb.ShellRunResponse, error) {
	long := &guestpb.ShellOutput{Head: make([]byte, 400<<10), Tail: make([]byte, 400<<10), Omitted: math.MaxUint64}
	return &guestpb.ShellRunResponse{Stdout: long, Code: math.MinInt32, DurationNanos: math.MinInt64, Late: repeat(&guestpb.LateOutput{}, 5000)}, nil
}

// Info answers with more than a message may hold.
func (l *liar) Info(context.Context, *guestpb.InfoRequest) (*guestpb.InfoResponse, error) {
	return &guestpb.InfoResponse{Kernel: strings.Repeat("k", 8*protocol.MaxMessage)}, nil
}

func repeat[T any](one *T, n int) (list []*T) {
	for range n {
		list = append(list, one)
	}
	return list
}

// serve returns a client of the liar.
func (l *liar) serve(t *testing.T) *guest.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(guestpbconnect.NewGuestHandler(l))
	mux.Handle(guestpbconnect.NewFilesHandler(l))
	mux.Handle(guestpbconnect.NewJobsHandler(l))
	mux.Handle(guestpbconnect.NewRoomsHandler(l))
	mux.Handle(guestpbconnect.NewShellsHandler(l))
	protocols := protocol.Protocols()
	protocols.SetHTTP1(true) // for files and commands without input
	dir := t.TempDir()
	path := func(port uint32) string { return filepath.Join(dir, strconv.Itoa(int(port))) }
	server := &http.Server{Handler: mux, Protocols: protocols}
	ended := make(chan error)
	for _, port := range []uint32{guest.Port, guest.EntryPort} {
		listener, err := net.Listen("unix", path(port))
		if err != nil {
			t.Fatal(err)
		}
		if port == guest.EntryPort {
			listener = entered{listener}
		}
		go func() { ended <- server.Serve(listener) }()
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}
	})
	client, err := guest.Connect(t.Context(), guest.Dialer(func(ctx context.Context, port uint32) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path(port))
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// entered reads the header of each connection.
type entered struct{ net.Listener }

func (l entered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		_, err = protocol.ReadDataHeader(c)
	}
	return c, err
}

// TestLyingGuest checks that the host bounds what a guest answers, and that nonsense is an error with
// a kind.
func TestLyingGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := (&liar{}).serve(t)
	if v := c.Version(); len(v) > 2*printable.MaxText || strings.Contains(v, "\x1b") {
		t.Errorf("its version: %d bytes, %.20q", len(v), v)
	}
	if _, err := c.Info(ctx); fault.KindOf(err) != fault.Rejected && fault.KindOf(err) != fault.Execution {
		t.Errorf("a message that is too long: %v", err)
	}
	const user = "agent-alice"
	room := c.Room(user)
	file := engine.File{Root: "/workspace/agents/alice", Path: "a"}
	if i, err := room.StatFile(ctx, file); err != nil || i.Kind != engine.OtherFile {
		t.Errorf("a file without a word: %+v %v", i, err)
	}
	if list, _, err := room.ListFolder(ctx, file, 10); err != nil || len(list) > engine.MaxFolderEntries {
		t.Errorf("a folder: %d entries, %v", len(list), err)
	}
	var text bytes.Buffer
	if _, err := room.ReadFile(ctx, file, engine.FilePart{Limit: 1000}, &text); fault.KindOf(err) != fault.Rejected || text.Len() > 1000 {
		t.Errorf("a file without an end: %d bytes, %v", text.Len(), err)
	}
	text.Reset()
	if r, err := room.ReadFile(ctx, file, engine.FilePart{Limit: 1000, OrNothing: true}, &text); err != nil || !r.Truncated || text.Len() > 0 {
		t.Errorf("a file of any size: %+v, %d bytes, %v", r, text.Len(), err)
	}
	matches := 0
	if _, err := room.SearchFiles(ctx, file, engine.FileSearch{Pattern: "x"}, func(engine.FileMatch) error { matches++; return nil }); fault.KindOf(err) != fault.Rejected {
		t.Errorf("a search without an end: %d matches, %v", matches, err)
	}
	if list, err := room.Jobs(ctx); err != nil || len(list) > protocol.MaxListedJobs {
		t.Errorf("%d jobs, %v", len(list), err)
	}
	if j, err := room.Job(ctx, "0123456789abcdef0123456789abcdef"); err != nil || j.Running {
		t.Errorf("no job: %+v %v", j, err)
	}
	if tail, err := room.TailJob(ctx, "0123456789abcdef0123456789abcdef", 0, 0); err != nil || len(tail.Data) > protocol.Chunk {
		t.Errorf("a job's output: %d bytes, %v", len(tail.Data), err)
	}
	if list, err := room.Sessions(ctx); err != nil || len(list) > protocol.MaxListedSessions || strings.ContainsRune(string(list[0].State), 0x1b) {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	r, err := room.RunShell(ctx, engine.ShellCommand{Shell: engine.Shell{Session: "main"}, Command: "true"})
	if err != nil || len(r.Stdout.Head) > protocol.MaxShellOutputBytes || len(r.Stdout.Tail) > protocol.MaxShellOutputBytes || len(r.Late) > protocol.MaxList {
		t.Errorf("a shell's output: %d and %d bytes, %d late, %v", len(r.Stdout.Head), len(r.Stdout.Tail), len(r.Late), err)
	}
}

// TestLyingExec checks that the host bounds a command's output, and that only an exit ends it.
func TestLyingExec(t *testing.T) {
	started := &guestpb.ExecResponse{What: &guestpb.ExecResponse_Started{Started: &guestpb.Started{Id: 1, Pid: math.MinInt32}}}
	stdout := &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stdout{Stdout: make([]byte, protocol.Chunk)}}
	stderr := &guestpb.ExecResponse{What: &guestpb.ExecResponse_Stderr{Stderr: make([]byte, protocol.Chunk)}}
	ended := &guestpb.ExecResponse{What: &guestpb.ExecResponse_Exit{Exit: &guestpb.Exit{}}}
	endedBy := func(signal int32) *guestpb.ExecResponse {
		return &guestpb.ExecResponse{What: &guestpb.ExecResponse_Exit{Exit: &guestpb.Exit{Signal: signal}}}
	}
	endless := func(first, then *guestpb.ExecResponse) func(func(*guestpb.ExecResponse) error) error {
		return func(send func(*guestpb.ExecResponse) error) error {
			err := send(first)
			for sent := 0; sent < flood && err == nil; sent += protocol.Chunk {
				err = send(then)
			}
			return err
		}
	}
	const most = 100_000
	for name, tc := range map[string]struct {
		exec func(func(*guestpb.ExecResponse) error) error
		want fault.Kind
	}{
		"output without an end":        {endless(started, stdout), fault.Rejected},
		"errors without an end":        {endless(started, stderr), fault.Rejected},
		"output before it was started": {endless(stdout, stdout), fault.Unavailable},
		"an end before it was started": {endless(ended, ended), fault.Unavailable},
		"started for ever":             {endless(started, started), fault.Unavailable},
		"nothing, many times":          {endless(started, &guestpb.ExecResponse{}), fault.Unavailable},
		"a signal below all":           {endless(started, endedBy(-1)), fault.Rejected},
		"a signal above all":           {endless(started, endedBy(65)), fault.Rejected},
		"no end":                       {func(send func(*guestpb.ExecResponse) error) error { return send(started) }, fault.Unavailable},
		"not a word":                   {func(func(*guestpb.ExecResponse) error) error { return nil }, fault.Unavailable},
	} {
		for way, stdin := range map[string]io.Reader{"with input": io.LimitReader(zeros{}, 10), "without input": nil} {
			t.Run(name+" "+way, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var out, errs bytes.Buffer
				command := engine.Command{Args: []string{"true"}, Stdout: &out, Stderr: &errs, Stdin: stdin, MaxOutput: most}
				_, err := (&liar{exec: tc.exec}).serve(t).Run(ctx, command)
				if fault.KindOf(err) != tc.want {
					t.Errorf("%v (%s), want %s", err, fault.KindOf(err), tc.want)
				}
				if out.Len() > most || errs.Len() > most {
					t.Errorf("the host holds %d and %d bytes, and asked for %d", out.Len(), errs.Len(), most)
				}
			})
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
