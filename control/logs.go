package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// logEvery is how often a followed log is read.
	logEvery = 200 * time.Millisecond
	// maxLine bounds one line; longer ones are split.
	maxLine = 32 << 10

	sourceDaemon  = "daemon"
	sourceConsole = "console"
)

// DaemonLog returns the path of the daemon's log. It also has the output of a daemon that did not start, or crashed. A
// large log is renamed, with config.OldLog appended.
func DaemonLog(home config.Home) string { return filepath.Join(home.Logs(), "daemon.log") }

// Logs sends lines of the logs.
func (s service) Logs(ctx context.Context, r *controlpb.LogsRequest, stream *connect.ServerStream[controlpb.LogsResponse]) error {
	since := r.Since.AsTime() // 1970 if there is none
	if r.Agent != "" {
		return s.agentLogs(ctx, r, since, stream)
	}
	logs, err := logsOf(s.Sandbox.Home(), r.Source)
	if err != nil {
		return err
	}
	defer logs.close()
	send := notBefore(since, stream.Send)
	for {
		if err := logs.read(send); err != nil || !r.Follow {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.quit:
			return nil
		case <-time.After(logEvery):
		}
	}
}

// agentLogs sends the lines that programs of an agent have logged.
func (s service) agentLogs(ctx context.Context, r *controlpb.LogsRequest, since time.Time, stream *connect.ServerStream[controlpb.LogsResponse]) error {
	agent, err := s.Agents.Get(r.Agent)
	if err != nil {
		return err
	}
	send := notBefore(since, stream.Send)
	for line, err := range s.Lines.Read(ctx, agent.ID, r.Follow) {
		if err == nil {
			err = send(&controlpb.LogsResponse{Source: line.Source, Time: moment(line.Time), Level: string(line.Level), Text: printable.Text(line.Text)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// LeftLogs reads the logs of a home without a daemon: they say why it did not start.
func LeftLogs(home config.Home, source string, since time.Time, send func(*controlpb.LogsResponse) error) error {
	logs, err := logsOf(home, source)
	if err != nil {
		return err
	}
	defer logs.close()
	return logs.read(notBefore(since, send))
}

func notBefore(since time.Time, send func(*controlpb.LogsResponse) error) func(*controlpb.LogsResponse) error {
	return func(l *controlpb.LogsResponse) error {
		if l.Time != nil && l.Time.AsTime().Before(since) {
			return nil
		}
		return send(l)
	}
}

// tails are logs that are read in turn.
type tails []*tail

// logsOf returns the logs of a source, or all if it is empty.
func logsOf(home config.Home, source string) (tails, error) {
	logs := tails{{source: sourceConsole, path: filepath.Join(home.Logs(), "console.log")}, {source: sourceDaemon, path: DaemonLog(home)}}
	logs = slices.DeleteFunc(logs, func(t *tail) bool { return source != "" && t.source != source })
	if len(logs) == 0 {
		return nil, fault.Newf(fault.InvalidArgs, "read log", source, "there is no such log").Advise("Write daemon or console.")
	}
	return logs, nil
}

func (l tails) read(send func(*controlpb.LogsResponse) error) error {
	for _, t := range l {
		if err := t.read(send); err != nil {
			return err
		}
	}
	return nil
}

func (l tails) close() {
	for _, t := range l {
		if t.file != nil {
			_ = t.file.Close()
		}
	}
}

// tail reads a log, and then what is appended to it. It reads a log that was replaced to
// its end before the new one.
type tail struct {
	source, path string
	file         *os.File
	began        bool
	rest         []byte // a line without an end yet
}

// read sends every line that has been written since the last time.
func (t *tail) read(send func(*controlpb.LogsResponse) error) error {
	path := t.path
	if !t.began {
		t.began = true
		t.file, _ = os.Open(path + config.OldLog) // often there is none
	}
	for {
		now, err := os.Stat(path) // first, since a log that was replaced gets no more lines
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Execution, "read log", path, err)
		}
		if t.file != nil {
			if err := t.lines(send); err != nil {
				return err
			}
			if was, err := t.file.Stat(); err == nil && now != nil && os.SameFile(was, now) {
				return nil
			}
		}
		if now == nil {
			return nil
		}
		if t.file != nil {
			_ = t.file.Close()
		}
		if t.file, err = os.Open(path); err != nil {
			t.file = nil
			return fault.New(fault.Execution, "read log", path, err)
		}
	}
}

// lines sends the lines from here to the end of the file.
func (t *tail) lines(send func(*controlpb.LogsResponse) error) error {
	buf := make([]byte, chunk)
	for {
		n, err := t.file.Read(buf)
		t.rest = append(t.rest, buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(t.rest, []byte("\n"))
			if !whole && len(t.rest) < maxLine {
				break
			}
			if len(line) > maxLine {
				line, rest = t.rest[:maxLine], t.rest[maxLine:]
			}
			if err := send(t.line(string(line))); err != nil {
				return err
			}
			t.rest = rest
		}
		if err == io.EOF {
			t.rest = bytes.Clone(t.rest)
			return nil
		}
		if err != nil {
			return fault.New(fault.Execution, "read log", t.file.Name(), err)
		}
	}
}

// line returns a line for the wire, without control characters: the guest chooses what
// its console says.
func (t *tail) line(text string) *controlpb.LogsResponse {
	l := &controlpb.LogsResponse{Source: t.source, Text: printable.Text(strings.TrimRight(text, "\r"))}
	if first, rest, ok := strings.Cut(l.Text, " "); ok && t.source == sourceDaemon {
		if at, err := time.Parse("time="+time.RFC3339Nano, first); err == nil {
			l.Time, l.Text = moment(at), rest
		}
	}
	return l
}
