package daemon_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/events"
	"osaurus-sandbox/supervisor/sessions"
	"osaurus-sandbox/supervisor/store"
)

func (d desk) start(line string) *controlpb.Job {
	d.t.Helper()
	r, err := d.Jobs.Start(d.t.Context(), &controlpb.StartJobRequest{Agent: d.agent, Line: line})
	if err != nil {
		d.t.Fatal(err)
	}
	return r.Job
}

func (d desk) wait(id string, limit time.Duration) (*controlpb.Job, error) {
	r, err := d.Jobs.Wait(d.t.Context(), &controlpb.WaitJobRequest{Agent: d.agent, Id: id, Timeout: durationpb.New(limit)})
	if err != nil {
		return nil, err
	}
	return r.Job, nil
}

// tail reads a job's output until the call ends.
func (d desk) tail(r *controlpb.TailJobRequest) (data string, job *controlpb.Job, err error) {
	d.t.Helper()
	stream, err := d.Jobs.Tail(d.t.Context(), r)
	if err != nil {
		return "", nil, err
	}
	defer stream.Close()
	for stream.Receive() {
		data += string(stream.Msg().Data)
		job = stream.Msg().Job
	}
	return data, job, stream.Err()
}

func TestJobs(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	alice, bob := newDesk(t, client, "alice"), newDesk(t, client, "bob")
	job := alice.start("echo begun; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo err >&2; exit 7")
	if !job.Running || job.Agent != "alice" || !strings.HasPrefix(job.Command, "echo begun;") || len(job.Id) != 32 {
		t.Errorf("%v", job)
	}
	if still, err := alice.wait(job.Id, 50*time.Millisecond); err != nil || !still.Running {
		t.Errorf("%v %v", still, err)
	}
	timetest.Eventually(t, "it has begun", func() bool {
		data, _, err := alice.tail(&controlpb.TailJobRequest{Agent: "alice", Id: job.Id})
		return err == nil && data == "begun\n"
	})
	follow, err := client.Jobs.Tail(t.Context(), &controlpb.TailJobRequest{Agent: "alice", Id: job.Id, FromEnd: 4, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	if !follow.Receive() || string(follow.Msg().Data) != "gun\n" {
		t.Fatalf("%v %v", follow.Msg(), follow.Err())
	}
	alice.run("default", "touch ~/go")
	if end, err := alice.wait(job.Id, limit); err != nil || end.Running || end.Status != 7 || end.Ended.AsTime().Before(end.Started.AsTime()) {
		t.Errorf("%v %v", end, err)
	}
	var rest string
	var last *controlpb.Job
	for follow.Receive() {
		rest += string(follow.Msg().Data)
		last = follow.Msg().Job
	}
	if follow.Err() != nil || rest != "err\n" || last.GetStatus() != 7 {
		t.Errorf("followed %q, %v, %v", rest, last, follow.Err())
	}

	second := alice.start("sleep 1000 & sleep 1000")
	bob.start("true")
	r, err := client.Jobs.List(t.Context(), &controlpb.ListJobsRequest{})
	if err != nil || len(r.Jobs) != 3 || r.Jobs[0].Id != second.Id || r.Jobs[1].Id != job.Id || r.Jobs[2].Agent != "bob" {
		t.Errorf("%v %v", r, err)
	}
	if _, err := bob.wait(second.Id, time.Second); fault.KindOf(err) != fault.NotFound {
		t.Errorf("bob waits for alice's: %v", err)
	}
	if _, err := client.Jobs.Kill(t.Context(), &controlpb.KillJobRequest{Agent: "bob", Id: second.Id}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("bob kills alice's: %v", err)
	}
	if _, err := client.Jobs.Kill(t.Context(), &controlpb.KillJobRequest{Agent: "alice", Id: second.Id}); err != nil {
		t.Error(err)
	}
	if end, err := alice.wait(second.Id, limit); err != nil || end.Status != 128+15 || end.Signal != 15 || !end.Killed {
		t.Errorf("%v %v", end, err)
	}
	timetest.Eventually(t, "their ends are told", func() bool { return len(alice.events("job.ended")) == 3 })
	if got := alice.events("job."); !slices.Contains(got, "job.ended alice 7") || !slices.Contains(got, "job.ended alice 143") || got[0] != "job.started alice" {
		t.Errorf("%q", got)
	}
}

// The events have an end of every job when the daemon is ended.
func TestJobsEndWithTheDaemon(t *testing.T) {
	home := newHome(t, "home")
	client, end := serve(t, daemon.Options{Home: home})
	newDesk(t, client, "alice").start("sleep 1000")
	if err := end(); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), home.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	j, err := events.Open(t.Context(), db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var causes []string
	for e, err := range j.Read(t.Context(), 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == sessions.JobEnded {
			causes = append(causes, e.Fields["agent"]+": "+e.Cause)
		}
	}
	if want := []string{"alice: the daemon ends, and the guest with it"}; !slices.Equal(causes, want) {
		t.Errorf("%q, want %q", causes, want)
	}
}

// Jobs end with the guest, and asking for them starts none.
func TestJobsEndWithTheGuest(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	alice := newDesk(t, client, "alice")
	job := alice.start("sleep 1000")
	waiting := make(chan error, 1)
	go func() {
		_, err := alice.wait(job.Id, limit)
		waiting <- err
	}()
	gone := func(when string) {
		t.Helper()
		if _, err := alice.wait(job.Id, time.Second); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", when, err)
		}
		if _, _, err := alice.tail(&controlpb.TailJobRequest{Agent: "alice", Id: job.Id, Follow: true}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s, its output: %v", when, err)
		}
	}
	if _, err := client.Down(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	gone("without a guest")
	if err := <-waiting; err != nil && fault.KindOf(err) != fault.Unavailable && fault.KindOf(err) != fault.NotFound {
		t.Errorf("the wait returned %v", err)
	}
	r, err := client.Jobs.List(t.Context(), &controlpb.ListJobsRequest{})
	if err != nil || len(r.Jobs) != 0 || alice.status().State != "stopped" {
		t.Errorf("%v %v, %s", r, err, alice.status().State)
	}
	alice.run("default", "true")
	gone("in another guest")
}

// Attached terminals and running jobs keep the guest from being stopped as idle. Sessions at
// their prompt and requests for lists do not.
func TestUseOfTheGuest(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	alice := newDesk(t, client, "alice")
	if _, err := client.SetConfig(t.Context(), &controlpb.SetConfigRequest{Settings: map[string]string{"idleStopMinutes": "5"}}); err != nil {
		t.Fatal(err)
	}
	idle := func() bool { return alice.status().IdleStop != nil }
	alice.run("default", "true")
	timetest.Eventually(t, "a session at its prompt is no use", idle)
	a, _ := alice.attach("default")
	if idle() {
		t.Error("an attached terminal does not count")
	}
	a.detach()
	timetest.Eventually(t, "a closed one does not count", idle)
	job := alice.start("sleep 1000")
	if idle() {
		t.Error("a job does not count")
	}
	if _, err := client.Jobs.Kill(t.Context(), &controlpb.KillJobRequest{Agent: "alice", Id: job.Id, Kill: true}); err != nil {
		t.Fatal(err)
	}
	timetest.Eventually(t, "a job that has ended does not count", idle)
}
