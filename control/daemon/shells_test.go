package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
)

// desk is a client that works as one agent.
type desk struct {
	*control.Client
	t     *testing.T
	agent string
}

func newDesk(t *testing.T, client *control.Client, agent string) desk {
	t.Helper()
	if _, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: agent}); err != nil {
		t.Fatal(err)
	}
	return desk{client, t, agent}
}

// run runs a command in a session.
func (d desk) run(session config.SessionID, command string) engine.ShellResult {
	d.t.Helper()
	m, err := d.Shells.Run(d.t.Context(), &controlpb.RunInSessionRequest{Agent: d.agent, Session: string(session), Command: command, Timeout: durationpb.New(limit)})
	if err != nil {
		d.t.Fatalf("%s: %v", command, err)
	}
	output := func(o *controlpb.SessionOutput) engine.ShellOutput {
		return engine.ShellOutput{Head: o.GetHead(), Omitted: o.GetOmitted(), Tail: o.GetTail()}
	}
	r := engine.ShellResult{
		Stdout: output(m.Stdout), Stderr: output(m.Stderr), Code: int(m.Status), TimedOut: m.TimedOut, Cancelled: m.Cancelled,
		Exited: m.Exited, Restarted: m.Restarted, RestartCause: m.RestartCause, Dir: m.Dir, Duration: m.Duration.AsDuration(),
	}
	for _, l := range m.Late {
		r.Late = append(r.Late, engine.LateOutput{Command: l.Command, Output: output(l.Output)})
	}
	return r
}

// want runs a command in a session and checks its output.
func (d desk) want(session config.SessionID, command, out string) {
	d.t.Helper()
	if r := d.run(session, command); r.Stdout.String() != out || r.Code != 0 {
		d.t.Errorf("%s: %q, %+v", command, r.Stdout, r)
	}
}

func (d desk) transcript(session string) (string, error) {
	r, err := d.Shells.Transcript(d.t.Context(), &controlpb.TranscriptRequest{Agent: d.agent, Session: session})
	if err != nil {
		return "", err
	}
	return r.Text, nil
}

func (d desk) sessions(agent string) (list []string) {
	d.t.Helper()
	r, err := d.Shells.List(d.t.Context(), &controlpb.ListSessionsRequest{Agent: agent})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, s := range r.Sessions {
		list = append(list, s.Agent+" "+s.Session+" "+s.State)
	}
	return list
}

func (d desk) status() *controlpb.Status {
	d.t.Helper()
	r, err := d.Status(d.t.Context(), &controlpb.StatusRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	return r.Status
}

// events returns the events so far whose kind has a prefix.
func (d desk) events(prefix string) (list []string) {
	d.t.Helper()
	for e, err := range control.Messages(d.Events(d.t.Context(), &controlpb.EventsRequest{})) {
		if err != nil {
			d.t.Fatal(err)
		}
		if strings.HasPrefix(e.Kind, prefix) {
			list = append(list, strings.TrimSpace(e.Kind+" "+e.Fields["agent"]+" "+e.Fields["session"]+e.Fields["status"]))
		}
	}
	return list
}

// A transcript outlives the guest and the daemon and begins the next shell, until the
// session is closed or the agent deleted.
func TestTranscripts(t *testing.T) {
	home := newHome(t, "home")
	client, end := serve(t, daemon.Options{Home: home})
	alice, bob := newDesk(t, client, "alice"), newDesk(t, client, "bob")
	alice.run("a", "echo first")
	bob.run("a", "echo of bob")
	if err := end(); err != nil { // what is not saved yet is saved now
		t.Fatal(err)
	}

	client, _ = serve(t, daemon.Options{Home: home})
	alice = desk{client, t, "alice"}
	if text, err := alice.transcript("a"); err != nil || !strings.Contains(text, "\nfirst\n") || alice.status().State != "stopped" {
		t.Errorf("after a restart: %q %v", text, err)
	}
	alice.run("a", "echo second")
	if text, err := alice.transcript("a"); err != nil || !strings.HasPrefix(text, "$ echo first\nfirst\n") || !strings.Contains(text, "\n$ echo second\nsecond\n") {
		t.Errorf("a new shell: %q %v", text, err)
	}
	for _, kind := range []fault.Kind{"", fault.NotFound} {
		_, err := client.Shells.Close(t.Context(), &controlpb.CloseSessionRequest{Agent: "alice", Session: "a"})
		if (err != nil) != (kind != "") || err != nil && fault.KindOf(err) != kind {
			t.Errorf("close: %v", err)
		}
	}
	if got := alice.sessions(""); !slices.Equal(got, []string{"bob a ended"}) {
		t.Errorf("%q", got)
	}
	if _, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "bob"}); err != nil {
		t.Fatal(err)
	}
	again := newDesk(t, client, "bob")
	if text, err := again.transcript("a"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another bob sees %q, %v", text, err)
	}
}

// view holds what a terminal shows.
type view struct {
	mu    sync.Mutex
	shown bytes.Buffer
}

func (v *view) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown.Write(b)
}

func (v *view) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.shown.String()
}

func (v *view) await(t *testing.T, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("seen: %q", v)
		}
	}()
	timetest.Eventually(t, fmt.Sprintf("%q is seen", text), func() bool { return strings.Contains(v.String(), text) })
}

// attachment is a terminal that is attached to a shell.
type attachment struct {
	*control.Process
	typed  io.Writer
	detach context.CancelFunc
}

func (d desk) attach(session config.SessionID) (attachment, *view) {
	d.t.Helper()
	ctx, detach := context.WithCancel(d.t.Context())
	d.t.Cleanup(detach)
	keys, typed := io.Pipe()
	v := &view{}
	p, err := d.Run(ctx, control.RunAs{Agent: d.agent, Session: session}, engine.Command{
		Terminal: &engine.Terminal{Size: engine.TerminalSize{Rows: 30, Cols: 100}}, Stdin: keys, Stdout: v,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = keys.Close() })
	return attachment{p, typed, detach}, v
}

func (d desk) types(a attachment, keys string) {
	d.t.Helper()
	if _, err := a.typed.Write([]byte(keys)); err != nil {
		d.t.Fatal(err)
	}
}

// An attached terminal shares the shell with commands and shows them.
func TestAttach(t *testing.T) {
	client, _ := serve(t, daemon.Options{})
	alice := newDesk(t, client, "alice")
	alice.run("a", "echo before; B=from-a-tool")
	a, first := alice.attach("a")
	first.await(t, "before")
	alice.types(a, "A=typed; echo $B-\r")
	first.await(t, "from-a-tool-")
	b, second := alice.attach("a")
	second.await(t, "from-a-tool-")
	alice.want("a", "echo $A", "typed\n")
	for _, v := range []*view{first, second} {
		v.await(t, "$ echo $A\r\n")
		v.await(t, "typed\r\n")
	}

	alice.types(b, "stty size\r")
	second.await(t, "30 100")
	if err := b.Resize(engine.TerminalSize{Rows: 41, Cols: 123}); err != nil {
		t.Fatal(err)
	}
	alice.types(b, "stty size\r")
	second.await(t, "41 123")

	a.detach()
	if _, err := a.Wait(); err == nil {
		t.Error("a closed attachment got the end of the shell")
	}
	timetest.Eventually(t, "one has left", func() bool {
		r, err := client.Shells.List(t.Context(), &controlpb.ListSessionsRequest{Agent: "alice"})
		return err == nil && len(r.Sessions) == 1 && r.Sessions[0].Attached == 1
	})
	alice.want("a", "echo $A", "typed\n")
	alice.types(b, "exit 5\r")
	if end, err := b.Wait(); err != nil || end.Code != 5 {
		t.Errorf("%+v %v", end, err)
	}
	// A guest that ends takes the shell with it, and says so.
	c, _ := alice.attach("c")
	if _, err := client.Down(t.Context(), &controlpb.MachineRequest{}); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(); end.Cause == "" && fault.KindOf(err) != fault.Unavailable {
		t.Errorf("of a guest that has ended: %+v %v", end, err)
	}
}
