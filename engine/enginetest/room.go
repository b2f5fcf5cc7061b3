package enginetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// RoomSuite describes the room of an engine.
type RoomSuite struct {
	Name string
	Room engine.Room
	Can  Capabilities
	// Root is an empty folder that files are written to. Commands see it at the
	// same path.
	Root string
}

// Capabilities are the parts of a room that an engine offers. The others fail with Unavailable.
type Capabilities struct{ Files, Shells, Jobs bool }

// RunRoom runs every scenario of rooms as a subtest of t. Those that need what the
// engine does not offer check that it says so.
func RunRoom(t *testing.T, suite RoomSuite) {
	t.Helper()
	for _, scenario := range roomScenarios() {
		t.Run(scenario.name, func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			err := scenario.try(ctx, suite)
			if scenario.needs != nil && !scenario.needs(suite.Can) {
				if fault.KindOf(err) != fault.Unavailable {
					t.Fatalf("%s does not offer it, and returns %v: want unavailable", suite.Name, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

type roomScenario struct {
	name  string
	needs func(Capabilities) bool
	try   func(context.Context, RoomSuite) error
}

func roomScenarios() []roomScenario {
	files := func(c Capabilities) bool { return c.Files }
	shells := func(c Capabilities) bool { return c.Shells }
	jobs := func(c Capabilities) bool { return c.Jobs }
	return []roomScenario{
		{"Exec", nil, roomExec},
		{"ExecEnds", nil, roomExecEnds},
		{"WriteAndRead", files, roomWriteAndRead},
		{"WriteConditions", files, roomWriteConditions},
		{"ListAndSearch", files, roomListAndSearch},
		{"FilesStayBelowRoot", files, roomFilesStayBelowRoot},
		{"ShellKeepsItsState", shells, roomShellKeepsItsState},
		{"ShellIsCancelled", shells, roomShellIsCancelled},
		{"JobRunsInTheBackground", jobs, roomJob},
		{"JobIsKilled", jobs, roomJobIsKilled},
	}
}

func roomExec(ctx context.Context, s RoomSuite) error {
	var out, errs bytes.Buffer
	exit, err := engine.Run(ctx, s.Room, engine.Command{
		Args: []string{"sh", "-c", `cat; echo "$A"; pwd; echo err >&2; exit 7`}, Env: []string{"A=b c"}, Dir: s.Root,
		Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errs,
	})
	if err != nil || exit.Code != 7 || out.String() != "in\nb c\n"+s.Root+"\n" || errs.String() != "err\n" {
		return fmt.Errorf("exit %+v, error %v, output %q, errors %q", exit, err, &out, &errs)
	}
	if _, err := s.Room.Exec(ctx, engine.Command{Args: []string{"no-such-program"}}); fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("a program that does not exist: %v", err)
	}
	return nil
}

func roomExecEnds(ctx context.Context, s RoomSuite) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := s.Room.Exec(ctx, engine.Command{Args: []string{"sleep", "300"}})
	if err != nil {
		return err
	}
	if err := p.Signal(ctx, engine.SIGTERM); err != nil {
		return err
	}
	if exit, err := p.Wait(); err != nil || exit.Signal != engine.SIGTERM {
		return fmt.Errorf("after SIGTERM: %+v, %v", exit, err)
	}
	p, err = s.Room.Exec(ctx, engine.Command{Args: []string{"sleep", "300"}, Grace: time.Second})
	if err != nil {
		return err
	}
	cancel()
	select {
	case <-p.Done():
		return nil
	case <-time.After(soon):
		return errors.New("a command outlives its context")
	}
}

func (s RoomSuite) file(path string) engine.File { return engine.File{Root: s.Root, Path: path} }

func (s RoomSuite) write(ctx context.Context, path, text string, w engine.FileWrite) (engine.FileWritten, error) {
	w.Content = []byte(text)
	return s.Room.WriteFile(ctx, s.file(path), w)
}

func (s RoomSuite) read(ctx context.Context, path string, part engine.FilePart) (string, error) {
	var b bytes.Buffer
	_, err := s.Room.ReadFile(ctx, s.file(path), part, &b)
	return b.String(), err
}

func roomWriteAndRead(ctx context.Context, s RoomSuite) error {
	const text = "one\ntwo\nthree\n"
	done, err := s.write(ctx, "a/b/text", text, engine.FileWrite{Parents: true})
	sum := sha256.Sum256([]byte(text))
	if err != nil || !done.Created || done.Size != uint64(len(text)) || !bytes.Equal(done.SHA256, sum[:]) {
		return fmt.Errorf("write: %+v, %v", done, err)
	}
	for part, want := range map[engine.FilePart]string{
		{}: text, {Offset: 4, Limit: 3}: "two", {FirstLine: 2, Lines: 1}: "two\n", {LastLines: 1}: "three\n",
	} {
		if got, err := s.read(ctx, "a/b/text", part); err != nil || got != want {
			return fmt.Errorf("read %+v: %q, %v", part, got, err)
		}
	}
	info, err := s.Room.StatFile(ctx, s.file("a/b/text"))
	if err != nil || info.Kind != engine.RegularFile || info.Size != uint64(len(text)) {
		return fmt.Errorf("stat: %+v, %v", info, err)
	}
	if _, err := s.Room.StatFile(ctx, s.file("nothing")); fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("stat of a file that does not exist: %v", err)
	}
	return nil
}

func roomWriteConditions(ctx context.Context, s RoomSuite) error {
	if _, err := s.write(ctx, "kept", "kept", engine.FileWrite{IfAbsent: true}); err != nil {
		return err
	}
	wrong := sha256.Sum256([]byte("other"))
	for name, w := range map[string]engine.FileWrite{"IfAbsent": {IfAbsent: true}, "IfSHA256": {IfSHA256: wrong[:]}} {
		if _, err := s.write(ctx, "kept", "changed", w); fault.KindOf(err) != fault.Rejected {
			return fmt.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.write(ctx, "kept", " and more", engine.FileWrite{Append: true}); err != nil {
		return err
	}
	if got, err := s.read(ctx, "kept", engine.FilePart{}); err != nil || got != "kept and more" {
		return fmt.Errorf("the file holds %q, %v", got, err)
	}
	return nil
}

func roomListAndSearch(ctx context.Context, s RoomSuite) error {
	for _, name := range []string{"list/x.txt", "list/y.txt", "list/z.md"} {
		if _, err := s.write(ctx, name, "a line\nneedle in "+name+"\n", engine.FileWrite{Parents: true}); err != nil {
			return err
		}
	}
	list, more, err := s.Room.ListFolder(ctx, s.file("list"), 2)
	if err != nil || !more || len(list) != 2 || list[0].Name != "x.txt" {
		return fmt.Errorf("list: %+v, %v, %v", list, more, err)
	}
	var found []string
	end, err := s.Room.SearchFiles(ctx, s.file("list"), engine.FileSearch{Pattern: "needle", Include: "*.txt"}, func(m engine.FileMatch) error {
		found = append(found, fmt.Sprintf("%s:%d", m.Path, m.Line))
		return nil
	})
	slices.Sort(found)
	if err != nil || end.Truncated || !slices.Equal(found, []string{"x.txt:2", "y.txt:2"}) {
		return fmt.Errorf("search: %q, %+v, %v", found, end, err)
	}
	return nil
}

func roomFilesStayBelowRoot(ctx context.Context, s RoomSuite) error {
	if _, err := engine.Run(ctx, s.Room, engine.Command{Args: []string{"ln", "-sf", "/etc/passwd", s.Root + "/link"}}); err != nil {
		return err
	}
	for _, path := range []string{"../escape", "link"} {
		if _, err := s.read(ctx, path, engine.FilePart{}); err == nil {
			return fmt.Errorf("%s leads out of the root", path)
		}
	}
	_, err := s.Room.StatFile(ctx, s.file("."))
	return err
}

func roomShellKeepsItsState(ctx context.Context, s RoomSuite) error {
	run := func(command string) (engine.ShellResult, error) {
		return s.Room.RunShell(ctx, engine.ShellCommand{Shell: engine.Shell{Session: "kit"}, Command: command, Timeout: time.Minute})
	}
	if _, err := run("cd " + s.Root + "; KEPT=value; false"); err != nil {
		return err
	}
	r, err := run(`echo "$KEPT"; pwd; (exit 3)`)
	if err != nil || r.Code != 3 || r.Stdout.String() != "value\n"+s.Root+"\n" {
		return fmt.Errorf("%+v, %v", r, err)
	}
	list, err := s.Room.Sessions(ctx)
	if err != nil || !slices.ContainsFunc(list, func(l engine.Session) bool { return l.ID == "kit" && l.State == engine.SessionIdle }) {
		return fmt.Errorf("sessions: %+v, %v", list, err)
	}
	if n, err := s.Room.CloseSession(ctx, "kit"); err != nil || n != 1 {
		return fmt.Errorf("close: %d, %v", n, err)
	}
	if _, err := s.Room.CloseSession(ctx, "kit"); fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("close again: %v", err)
	}
	return nil
}

func roomShellIsCancelled(ctx context.Context, s RoomSuite) error {
	type end struct {
		result engine.ShellResult
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		r, err := s.Room.RunShell(ctx, engine.ShellCommand{Shell: engine.Shell{Session: "cancel"}, Command: "sleep 300", Timeout: deadline, Call: "kit-call"})
		ended <- end{r, err}
	}()
	for {
		err := s.Room.CancelShell(ctx, "cancel", "kit-call")
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.NotFound {
			return err
		}
		select {
		case e := <-ended:
			return fmt.Errorf("it ended by itself: %+v, %w", e.result, e.err)
		case <-time.After(100 * time.Millisecond): // it has not begun
		}
	}
	if e := <-ended; e.err != nil || !e.result.Cancelled {
		return fmt.Errorf("%+v, %v", e.result, e.err)
	}
	_, err := s.Room.CloseSession(ctx, "cancel")
	return err
}

func roomJob(ctx context.Context, s RoomSuite) error {
	job, err := s.Room.StartJob(ctx, engine.JobCommand{Args: []string{"sh", "-c", "echo begun; exit 4"}, Label: "kit"})
	if err != nil {
		return err
	}
	for job.Running {
		if job, err = s.Room.WaitJob(ctx, job.ID, 10*time.Second); err != nil {
			return err
		}
	}
	if job.Code != 4 || job.Label != "kit" {
		return fmt.Errorf("it ended as %+v", job)
	}
	tail, err := s.Room.TailJobEnd(ctx, job.ID, 1<<10)
	if err != nil || string(tail.Data) != "begun\n" {
		return fmt.Errorf("its output is %q, %v", tail.Data, err)
	}
	list, err := s.Room.Jobs(ctx)
	if err != nil || !slices.ContainsFunc(list, func(j engine.Job) bool { return j.ID == job.ID }) {
		return fmt.Errorf("jobs: %+v, %v", list, err)
	}
	return nil
}

func roomJobIsKilled(ctx context.Context, s RoomSuite) error {
	job, err := s.Room.StartJob(ctx, engine.JobCommand{Args: []string{"sleep", "300"}})
	if err != nil {
		return err
	}
	if _, err := s.Room.KillJob(ctx, job.ID, true); err != nil {
		return err
	}
	for job.Running {
		if job, err = s.Room.WaitJob(ctx, job.ID, 10*time.Second); err != nil {
			return err
		}
	}
	if job.Signal != engine.SIGKILL || !job.Killed {
		return fmt.Errorf("it ended as %+v", job)
	}
	if _, err := s.Room.Job(ctx, config.JobID(strings.Repeat("0", 32))); fault.KindOf(err) != fault.NotFound {
		return fmt.Errorf("a job that does not exist: %v", err)
	}
	return nil
}
