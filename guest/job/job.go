//go:build linux

package job

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/guest/process"
	"osaurus-sandbox/guest/protocol"
	"osaurus-sandbox/internal/notify"
	"osaurus-sandbox/internal/printable"
)

// maxShown bounds the arguments that a job's description lists.
const maxShown = 32

// job is a background command.
type job struct {
	id      config.JobID
	user    string
	label   string
	plugin  string // empty for none
	args    [][]byte
	started time.Time
	log     log
	logFile string // the log's path inside the room
	done    chan struct{}
	child   *process.Child

	grown notify.Notifier // of new output and of the end

	mu        sync.Mutex
	ended     time.Time
	oom, pids bool
	killed    bool
}

func newJob(r *guestpb.StartJobRequest) *job {
	j := &job{id: newID(), user: r.User, label: printable.Clip(r.Label), plugin: r.Plugin, started: time.Now(), done: make(chan struct{})}
	for _, a := range r.Args[:min(len(r.Args), maxShown)] {
		j.args = append(j.args, []byte(printable.Clip(string(a))))
	}
	return j
}

func (j *job) running() bool { return !notify.Closed(j.done) }

// follow logs the job's output and records its end.
func (j *job) follow(met func(killed bool) (oom, pids, quota bool)) {
	output := j.child.Pipes[1]
	read := make(chan struct{})
	go func() {
		defer close(read)
		_ = process.Carry(output, make([]byte, protocol.Chunk), func(b []byte) error {
			j.log.write(b)
			j.grown.Notify()
			return nil
		})
	}()
	<-j.child.Done()
	select {
	case <-read:
	case <-time.After(engine.Linger):
	}
	j.child.Release()
	_ = output.SetReadDeadline(time.Now()) // another process may still hold the pipe
	<-read
	_ = output.Close()
	j.mu.Lock()
	j.ended = time.Now()
	j.oom, j.pids, _ = met(process.Killed(j.child.Status()))
	j.mu.Unlock()
	close(j.done)
	j.grown.Notify()
}

func (j *job) kill(hard bool) {
	j.mu.Lock()
	j.killed = true
	j.mu.Unlock()
	if hard {
		j.child.Kill()
		return
	}
	j.child.SignalAll(unix.SIGTERM)
}

func (j *job) describe() *guestpb.Job {
	written, dropped := j.log.size()
	j.mu.Lock()
	defer j.mu.Unlock()
	out := &guestpb.Job{
		Id: string(j.id), User: j.user, Label: j.label, Plugin: j.plugin, Args: j.args, Pid: int32(j.child.PID()), StartedUnixNano: j.started.UnixNano(),
		Written: written, Dropped: dropped, Oom: j.oom, Pids: j.pids, Killed: j.killed, LogFile: j.logFile,
	}
	if j.running() {
		return out
	}
	out.Ended, out.EndedUnixNano = true, j.ended.UnixNano()
	if st := j.child.Status(); st.Signaled() {
		out.Signal = int32(st.Signal())
	} else {
		out.Code = int32(st.ExitStatus())
	}
	return out
}

// tail reads output, waiting for some if there is none yet.
func (j *job) tail(ctx context.Context, r *guestpb.TailJobRequest) (*guestpb.TailJobResponse, error) {
	wait := time.NewTimer(time.Duration(r.WaitNanos))
	defer wait.Stop()
	for last := false; ; {
		grown := j.grown.Next()
		offset := r.Offset
		if written, _ := j.log.size(); r.FromEnd > 0 {
			offset = written - min(written, r.FromEnd)
		}
		ended := !j.running()
		data, from, err := j.log.read(offset, protocol.Chunk)
		if err != nil {
			return nil, err
		}
		if len(data) > 0 || ended || last {
			return &guestpb.TailJobResponse{Data: data, Offset: from, Job: j.describe()}, nil
		}
		select {
		case <-grown:
		case <-wait.C:
			last = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
