//go:build linux

package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/job"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/process/processtest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// rig is a manager of jobs on this host.
type rig struct {
	*job.Manager
	t    *testing.T
	logs string
}

// room is a room on this host that is always short of memory.
type room struct{ logs string }

func (room) Place(bool) process.Place                                         { return nil }
func (room) PluginPlace(config.PluginID, bool, []byte) (process.Place, error) { return nil, nil }
func (room) Environment(bool) []string                                        { return []string{"PATH=" + os.Getenv("PATH"), "A=room"} }
func (room) Home() string                                                     { return "/usr" }
func (r room) JobLogs() (path, inside string)                                 { return r.logs, "/shown" }
func (room) Watch() func(bool) (oom, pids, quota bool) {
	return func(bool) (oom, pids, quota bool) { return true, false, false }
}

const alice, bob = "agent-alice", "agent-bob"

func newRig(t *testing.T) *rig {
	t.Helper()
	processes, err := process.NewManager(process.Options{Cgroup: processtest.Cgroup(t)})
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	k := job.NewManager(processes, func(_ context.Context, user string) (job.Room, error) {
		if user != alice && user != bob {
			return nil, fault.New(fault.NotFound, "find room", user, os.ErrNotExist)
		}
		return room{logs}, nil
	})
	t.Cleanup(func() {
		k.Close()
		processes.Close()
		if left, _ := filepath.Glob(logs + "/*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	return &rig{k, t, logs}
}

func (r *rig) start(script string) *guestpb.Job {
	r.t.Helper()
	a, err := r.StartJob(context.Background(), &guestpb.StartJobRequest{
		User: alice, Args: [][]byte{[]byte("sh"), []byte("-c"), []byte(script)}, Env: [][]byte{[]byte("B=given")}, Label: "a test",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return a.Job
}

func (r *rig) list(user string) []*guestpb.Job {
	a, _ := r.ListJobs(context.Background(), &guestpb.ListJobsRequest{User: user}) // never fails
	return a.Jobs
}

func (r *rig) poll(user, id string) (*guestpb.Job, error) {
	a, err := r.WaitJob(context.Background(), &guestpb.WaitJobRequest{User: user, Id: id})
	return a.GetJob(), err
}

func (r *rig) wait(j *guestpb.Job) *guestpb.Job {
	r.t.Helper()
	a, err := r.WaitJob(context.Background(), &guestpb.WaitJobRequest{User: alice, Id: j.Id, TimeoutNanos: int64(timetest.Limit)})
	if err != nil {
		r.t.Fatal(err)
	}
	if !a.Job.Ended {
		r.t.Fatalf("it runs on: %v", a.Job)
	}
	return a.Job
}

func (r *rig) output(j *guestpb.Job, q *guestpb.TailJobRequest) *guestpb.TailJobResponse {
	r.t.Helper()
	q.User, q.Id = alice, j.Id
	a, err := r.TailJob(context.Background(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// gate lets a job go on when it is opened.
type gate struct {
	t    *testing.T
	path string
}

func newGate(t *testing.T) gate { return gate{t, filepath.Join(t.TempDir(), "open")} }

func (g gate) wait() string { return "until [ -e '" + g.path + "' ]; do sleep 0.05; done" }

func (g gate) open() {
	if err := os.WriteFile(g.path, nil, 0o600); err != nil {
		g.t.Error(err)
	}
}

// A request that nobody waits for any more, for example after the guest was frozen, starts nothing.
func TestJobOfNobody(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.StartJob(ctx, &guestpb.StartJobRequest{User: alice, Args: [][]byte{[]byte("true")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if list := r.list(alice); len(list) > 0 {
		t.Errorf("%v", list)
	}
}

// A job knows the plugin that it was started for.
func TestJobOfAPlugin(t *testing.T) {
	r := newRig(t)
	a, err := r.StartJob(t.Context(), &guestpb.StartJobRequest{User: alice, Args: [][]byte{[]byte("sleep"), []byte("60")}, Label: "daemon", Plugin: "rss"})
	if err != nil || a.Job.Plugin != "rss" {
		t.Errorf("%v, %v", a, err)
	}
	if own := r.start("true"); own.Plugin != "" {
		t.Errorf("%v", own)
	}
}

func TestJob(t *testing.T) {
	r, gate := newRig(t), newGate(t)
	j := r.start(gate.wait() + "; echo $A $B; pwd; echo error >&2; read x; exit 3")
	if len(j.Id) != 32 || j.Ended || j.Pid == 0 || j.Label != "a test" || j.StartedUnixNano == 0 {
		t.Errorf("%v", j)
	}
	gate.open()
	end := r.wait(j)
	if end.Code != 3 || end.Signal != 0 || end.EndedUnixNano < end.StartedUnixNano || end.Killed || !end.Oom || end.Pids {
		t.Errorf("%v", end)
	}
	if got := r.output(j, &guestpb.TailJobRequest{}); string(got.Data) != "room given\n/usr\nerror\n" || got.Offset != 0 || got.Job.Written != uint64(len(got.Data)) {
		t.Errorf("%v", got)
	}
	if got := r.output(j, &guestpb.TailJobRequest{FromEnd: 4}); string(got.Data) != "ror\n" {
		t.Errorf("%v", got)
	}
	if got := r.output(j, &guestpb.TailJobRequest{Offset: 5}); !strings.HasPrefix(string(got.Data), "given") || got.Offset != 5 {
		t.Errorf("%v", got)
	}
	if end.LogFile != "/shown/"+j.Id+".log" {
		t.Errorf("its log is shown as %q", end.LogFile)
	}
}

// Jobs of other agents, unknown jobs and forgotten jobs are not found.
func TestNotFound(t *testing.T) {
	r := newRig(t)
	j := r.start("sleep 60")
	for _, tc := range []struct{ user, id string }{{bob, j.Id}, {"", j.Id}, {alice, strings.Repeat("0", 32)}} {
		if _, err := r.poll(tc.user, tc.id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%v: %v", tc, err)
		}
		if _, err := r.KillJob(t.Context(), &guestpb.KillJobRequest{User: tc.user, Id: tc.id}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%v: %v", tc, err)
		}
	}
	if len(r.list(bob)) != 0 || len(r.list(alice)) != 1 {
		t.Errorf("%v", r.list(bob))
	}
	r.Forget(alice)
	if _, err := r.poll(alice, j.Id); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	for _, args := range [][][]byte{{[]byte("/no/such/program")}, {}} {
		if _, err := r.StartJob(context.Background(), &guestpb.StartJobRequest{User: alice, Args: args}); err == nil {
			t.Errorf("%q was started", args)
		}
	}
	if len(r.list(alice)) != 0 {
		t.Errorf("%v", r.list(alice))
	}
}

func TestKill(t *testing.T) {
	r := newRig(t)
	for _, tc := range []struct {
		script string
		hard   bool
		code   int32
		signal unix.Signal
	}{
		{"echo ready; sleep 60", false, 0, unix.SIGTERM},
		{"trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done", false, 7, 0},
		{"trap '' TERM; echo ready; while :; do sleep 0.1; done", true, 0, unix.SIGKILL},
		{"(setsid sleep 61 &); echo ready; exec sleep 62", true, 0, unix.SIGKILL},
	} {
		j := r.start(tc.script)
		if got := r.output(j, &guestpb.TailJobRequest{WaitNanos: int64(time.Minute)}); string(got.Data) != "ready\n" {
			t.Errorf("%q", got.Data)
		}
		if _, err := r.KillJob(t.Context(), &guestpb.KillJobRequest{User: alice, Id: j.Id, Hard: tc.hard}); err != nil {
			t.Fatal(err)
		}
		if end := r.wait(j); end.Code != tc.code || end.Signal != int32(tc.signal) || !end.Killed {
			t.Errorf("%s: %v", tc.script, end)
		}
	}
}

// Processes that a job leaves behind are ended.
func TestLeftBehind(t *testing.T) {
	r := newRig(t)
	start := time.Now()
	j := r.start("sleep 60 & echo done")
	r.wait(j)
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("it took %v", took)
	}
	if got := r.output(j, &guestpb.TailJobRequest{}); string(got.Data) != "done\n" {
		t.Errorf("%q", got.Data)
	}
}

// A log keeps the end of the output and counts what was dropped.
func TestLogIsBounded(t *testing.T) {
	r := newRig(t)
	const lines = 3 << 20 // of eight bytes: 24 MiB
	j := r.wait(r.start(fmt.Sprintf("seq -f %%07.0f 1 %d", lines)))
	if j.Written != 8*lines || j.Dropped == 0 || j.Dropped >= j.Written-(4<<20) || j.Written-j.Dropped > 8<<20 {
		t.Errorf("%v", j)
	}
	got := r.output(j, &guestpb.TailJobRequest{Offset: 3})
	if got.Offset != j.Dropped || !bytes.HasPrefix(got.Data, fmt.Appendf(nil, "%07d\n", j.Dropped/8+1)) {
		t.Errorf("from %d: %.20q", got.Offset, got.Data)
	}
	read := got.Data
	for at := got.Offset + uint64(len(got.Data)); ; {
		part := r.output(j, &guestpb.TailJobRequest{Offset: at})
		if len(part.Data) == 0 {
			break
		}
		if part.Offset != at {
			t.Fatalf("at %d instead of %d", part.Offset, at)
		}
		read = append(read, part.Data...)
		at += uint64(len(part.Data))
	}
	for i, line := range bytes.Fields(read) {
		if want := fmt.Sprintf("%07d", int(j.Dropped/8)+i+1); string(line) != want {
			t.Fatalf("line %s instead of %s", line, want)
		}
	}
	if uint64(len(read)) != j.Written-j.Dropped {
		t.Errorf("%d bytes", len(read))
	}
	var size int64
	files, _ := filepath.Glob(r.logs + "/*")
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > 8<<20 {
		t.Errorf("%d bytes on disk", size)
	}
}

// An agent that holds a log open does not use more of the disk than counted.
func TestLogHeldOpen(t *testing.T) {
	r := newRig(t)
	j := r.start("yes | head -c 12000000; sleep 60")
	path := filepath.Join(r.logs, j.Id+".log")
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	timetest.Eventually(t, "output is dropped", func() bool {
		p, err := r.poll(alice, j.Id)
		return err == nil && p.Dropped > 0
	})
	if st, err := held.Stat(); err != nil || st.Size() > 8<<20 {
		t.Errorf("the log has %d bytes, %v", st.Size(), err)
	}
	r.Forget(alice)
	if st, err := held.Stat(); err != nil || st.Size() != 0 {
		t.Errorf("a removed log has %d bytes, %v", st.Size(), err)
	}
}

// The numbers of running and of ended jobs are bounded.
func TestJobsAreBounded(t *testing.T) {
	r := newRig(t)
	first := r.start("true")
	r.wait(first)
	for range 40 {
		r.wait(r.start("true"))
	}
	if n := len(r.list(alice)); n != 32 {
		t.Errorf("%d jobs are remembered", n)
	}
	if _, err := r.poll(alice, first.Id); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the oldest: %v", err)
	}
	for range config.MaxJobs {
		r.start("sleep 60")
	}
	if _, err := r.StartJob(context.Background(), &guestpb.StartJobRequest{User: alice, Args: [][]byte{[]byte("true")}}); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("one too many: %v", err)
	}
	if _, err := r.StartJob(context.Background(), &guestpb.StartJobRequest{User: bob, Args: [][]byte{[]byte("true")}}); err != nil {
		t.Errorf("another's: %v", err)
	}
}

// Waiting returns when there is output or the job has ended.
func TestWaiting(t *testing.T) {
	r := newRig(t)
	one, two := newGate(t), newGate(t)
	j := r.start(one.wait() + "; echo a; " + two.wait())
	if got := r.output(j, &guestpb.TailJobRequest{}); len(got.Data) > 0 {
		t.Errorf("%q", got.Data)
	}
	time.AfterFunc(100*time.Millisecond, one.open) // while it is waited for
	if got := r.output(j, &guestpb.TailJobRequest{WaitNanos: int64(time.Minute)}); string(got.Data) != "a\n" {
		t.Errorf("%q", got.Data)
	}
	time.AfterFunc(100*time.Millisecond, two.open)
	if got := r.output(j, &guestpb.TailJobRequest{Offset: 2, WaitNanos: int64(time.Minute)}); len(got.Data) > 0 || !got.Job.Ended {
		t.Errorf("%v", got)
	}
	k := r.start("sleep 60")
	short, err := r.WaitJob(context.Background(), &guestpb.WaitJobRequest{User: alice, Id: k.Id, TimeoutNanos: int64(50 * time.Millisecond)})
	if err != nil || short.Job.Ended {
		t.Errorf("%v, %v", short, err)
	}
}
