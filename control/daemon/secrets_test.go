package daemon_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/secrets/agefile"
)

const (
	canary   = "canary-77e1c4d0"
	redacted = "[REDACTED:TOKEN]"
)

// secretHome makes a home that keeps secrets in a file.
func secretHome(t *testing.T) config.Home {
	t.Helper()
	t.Setenv(agefile.PassphraseFileVariable, "")
	home := newHome(t, "home")
	if err := config.Edit(home, func(f *config.File) error { return f.Set("secrets", "file") }); err != nil {
		t.Fatal(err)
	}
	return home
}

func (d desk) setSecret(name, value string) {
	d.t.Helper()
	if _, err := d.Secrets.Set(d.t.Context(), &controlpb.SetSecretRequest{Agent: d.agent, Name: name, Value: value}); err != nil {
		d.t.Fatal(err)
	}
}

// exec runs a command and returns what it wrote, errors after output.
func (d desk) exec(script string) string {
	d.t.Helper()
	var out, errOut bytes.Buffer
	p, err := d.Run(d.t.Context(), control.RunAs{Agent: d.agent}, engine.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &errOut})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		d.t.Fatal(err)
	}
	return out.String() + errOut.String()
}

// clean checks that no file of the home has the value.
func clean(t *testing.T, home config.Home) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(string(home), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("the value is in %s", path)
		}
		return err
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, %v", files, err)
	}
}

// Secrets of an agent are redacted in the output of its commands, sessions and jobs, and in
// transcripts, lists, errors, the audit and the log.
func TestSecretsAreRedacted(t *testing.T) {
	home := secretHome(t)
	var log view
	client, end := serve(t, daemon.Options{Home: home, Log: &log})
	alice, bob := newDesk(t, client, "alice"), newDesk(t, client, "bob")
	alice.setSecret("TOKEN", canary)

	if got := alice.exec("echo a " + canary + "; echo " + canary + " >&2"); got != "a "+redacted+"\n"+redacted+"\n" {
		t.Errorf("a command: %q", got)
	}
	if got := alice.exec("printf cana; sleep 0.3; printf ry-77; printf 'e1c4d0 canary-77'"); got != redacted+" canary-77" {
		t.Errorf("in pieces: %q", got)
	}
	var out bytes.Buffer
	p, err := client.Run(t.Context(), control.RunAs{Agent: "alice", Secrets: []string{"TOKEN"}}, engine.Command{Args: []string{"sh", "-c", `echo "$TOKEN"; echo ${#TOKEN} bytes`}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil || out.String() != fmt.Sprintf("%s\n%d bytes\n", redacted, len(canary)) {
		t.Errorf("a command that was lent it: %v, %q", err, out.String())
	}
	for name, kind := range map[string]fault.Kind{"OTHER": fault.NotFound, "no name": fault.InvalidArgs} {
		if _, err := client.Run(t.Context(), control.RunAs{Agent: "alice", Secrets: []string{name}}, engine.Command{Args: []string{"true"}}); fault.KindOf(err) != kind {
			t.Errorf("with the secret %q: %v", name, err)
		}
		if _, err := client.Jobs.Start(t.Context(), &controlpb.StartJobRequest{Agent: "alice", Args: []string{"true"}, Secrets: []string{name}}); fault.KindOf(err) != kind {
			t.Errorf("a job with the secret %q: %v", name, err)
		}
	}
	if _, err := client.Run(t.Context(), control.RunAs{Agent: "bob", Secrets: []string{"TOKEN"}}, engine.Command{Args: []string{"true"}}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("with another agent's secret: %v", err)
	}
	if got := bob.exec("echo " + canary); got != canary+"\n" {
		t.Errorf("another agent's output: %q", got)
	}
	_, err = client.Run(t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"no-such-" + canary}})
	if fault.KindOf(err) != fault.NotFound || strings.Contains(err.Error(), canary) {
		t.Errorf("an error: %v", err)
	}

	r := alice.run("s", "echo "+canary+"; echo "+canary+" >&2; ( (until [ -e ~/now ]; do sleep 0.05; done; echo "+canary+") & )")
	if r.Stdout.String() != redacted+"\n" || r.Stderr.String() != redacted+"\n" {
		t.Errorf("a session: %+v", r)
	}
	alice.run("cut", "touch ~/now") // once that call has ended
	timetest.Eventually(t, "it writes in the background", func() bool {
		r := alice.run("s", "true")
		for _, late := range r.Late {
			if strings.Contains(late.Command+late.Output.String(), canary) {
				t.Errorf("a session, later: %+v", late)
			}
		}
		return len(r.Late) > 0 && strings.Contains(r.Late[0].Output.String(), redacted)
	})
	script := "printf '%5990s' | tr ' ' x; printf " + canary + "; printf '%9000s' | tr ' ' y; printf " + canary + "; printf '%8992s' | tr ' ' z"
	if o := alice.run("cut", script).Stdout; o.Omitted == 0 || !strings.HasSuffix(string(o.Head), "x"+redacted) || !strings.HasPrefix(string(o.Tail), redacted+"z") {
		t.Errorf("cut through: %d left out, %q and %q", o.Omitted, o.Head[5900:], o.Tail[:100])
	}

	// People see their own terminal. The transcript is redacted.
	a, screen := alice.attach("s")
	alice.types(a, "echo "+canary+"\r")
	timetest.Eventually(t, "the person sees it", func() bool { return strings.Count(screen.String(), canary) >= 2 })
	a.detach()
	timetest.Eventually(t, "the transcript has it", func() bool { text, _ := alice.transcript("s"); return strings.Contains(text, redacted) })
	if text, err := alice.transcript("s"); err != nil || strings.Contains(text, canary) {
		t.Errorf("a transcript: %q, %v", text, err)
	}

	job := alice.start("echo begin; echo " + canary + "; printf canary-; sleep 0.3; echo 77e1c4d0")
	data, ended, err := alice.tail(&controlpb.TailJobRequest{Agent: "alice", Id: job.Id, Follow: true})
	if want := "begin\n" + redacted + "\n" + redacted + "\n"; data != want || err != nil || strings.Contains(job.Command+ended.GetCommand(), canary) {
		t.Errorf("a job: %q, %v, %v", data, ended, err)
	}
	alice.tailInPieces(t, job.Id)
	lent, err := client.Jobs.Start(t.Context(), &controlpb.StartJobRequest{Agent: "alice", Args: []string{"sh", "-c", `echo "$TOKEN"`}, Secrets: []string{"TOKEN"}})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, err := alice.tail(&controlpb.TailJobRequest{Agent: "alice", Id: lent.Job.Id, Follow: true}); data != redacted+"\n" || err != nil {
		t.Errorf("a job that was lent it: %q, %v", data, err)
	}

	if _, err := client.Agents.Processes(t.Context(), &controlpb.AgentProcessesRequest{Agent: "alice"}); err != nil {
		t.Error(err)
	}
	entries := map[string]int{}
	for e, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
		if err != nil {
			t.Fatal(err)
		}
		entries[e.Agent+" "+e.Action]++
		if e.Agent == "alice" && strings.Contains(e.String(), canary) {
			t.Errorf("the audit: %v", e)
		}
	}
	for _, what := range []string{"alice secret.set", "alice exec", "alice session.run", "alice job.start"} {
		if entries[what] < 2 {
			t.Errorf("the audit has %d entries of %q", entries[what], what)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log: %s", &log)
	}
}

// tailInPieces reads a job's output from each of its first bytes on. At most five bytes of a
// value show.
func (d desk) tailInPieces(t *testing.T, id string) {
	t.Helper()
	for offset := range uint64(20) {
		data, _, err := d.tail(&controlpb.TailJobRequest{Agent: "alice", Id: id, Offset: offset})
		if err != nil || strings.Contains(data, canary[len(canary)-6:]) {
			t.Errorf("from %d: %q, %v", offset, data, err)
		}
	}
}

// A secret that is set while a command runs is redacted in the rest of its output.
func TestSecretOfARunningCommand(t *testing.T) {
	client, _ := serve(t, daemon.Options{Home: secretHome(t)})
	alice := newDesk(t, client, "alice")
	var out view
	in, feed := io.Pipe()
	p, err := client.Run(t.Context(), control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"cat"}, Stdin: in, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	feed.Write([]byte("before\n"))
	out.await(t, "before\n")
	alice.setSecret("TOKEN", canary)
	feed.Write([]byte(canary + "\n"))
	out.await(t, "\n"+redacted+"\n")
	feed.Close()
	if _, err := p.Wait(); err != nil || strings.Contains(out.String(), canary) {
		t.Errorf("%q, %v", &out, err)
	}
}

// Asking for a secret returns when it is answered or cancelled, when the agent is deleted,
// or when the daemon ends.
func TestS05SecretIsAsked(t *testing.T) {
	home := secretHome(t)
	client, end := serve(t, daemon.Options{Home: home})
	alice := newDesk(t, client, "alice")
	ask := func(name string) <-chan error {
		outcome := make(chan error, 1)
		go func() {
			_, err := client.Secrets.Ask(t.Context(), &controlpb.AskSecretRequest{Agent: "alice", Name: name, Text: "it is for " + name})
			outcome <- err
		}()
		return outcome
	}
	watch, err := client.Prompts.Watch(t.Context(), &controlpb.WatchPromptsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	next := func(name string) *controlpb.Prompt {
		t.Helper()
		for watch.Receive() {
			for _, p := range watch.Msg().Prompts {
				if p.Secret == name {
					return p
				}
			}
		}
		t.Fatal(watch.Err())
		return nil
	}

	first := ask("TOKEN")
	p := next("TOKEN")
	if p.Agent != "alice" || p.State != "waiting" || p.Text != "it is for TOKEN" || p.Kind != "secret" {
		t.Errorf("%v", p)
	}
	r, err := client.Prompts.Answer(t.Context(), &controlpb.AnswerPromptRequest{Id: p.Id, Value: canary})
	if err != nil || !r.Taken || r.Prompt.State != "answered" {
		t.Errorf("%v, %v", r, err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if got := alice.exec("echo " + canary); got != redacted+"\n" {
		t.Errorf("what was answered is not known: %q", got)
	}

	second := ask("NO")
	if _, err := client.Prompts.Answer(t.Context(), &controlpb.AnswerPromptRequest{Id: next("NO").Id, Cancel: true}); err != nil {
		t.Error(err)
	}
	if err := <-second; fault.KindOf(err) != fault.UserDenied {
		t.Errorf("cancelled: %v", err)
	}

	third := ask("GONE")
	next("GONE")
	deleted, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "alice"})
	if err != nil || deleted.SecretsDeleted != 0 {
		t.Errorf("%v, %v", deleted, err)
	}
	if err := <-third; fault.KindOf(err) != fault.UserDenied {
		t.Errorf("of a deleted agent: %v", err)
	}

	// The end of the daemon cancels all.
	newDesk(t, client, "carol")
	left := make(chan error, 1)
	go func() {
		_, err := client.Secrets.Ask(t.Context(), &controlpb.AskSecretRequest{Agent: "carol", Name: "LATER"})
		left <- err
	}()
	next("LATER")
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := <-left; err == nil {
		t.Error("it was answered by nobody")
	}
	clean(t, home)
}

// Deleting an agent with its secrets deletes those of its plugins too.
func TestAgentDeletedWithSecrets(t *testing.T) {
	home := secretHome(t)
	client, _ := serve(t, daemon.Options{Home: home})
	alice, bob := newDesk(t, client, "alice"), newDesk(t, client, "bob")
	alice.setSecret("ONE", canary)
	bob.setSecret("ONE", canary)
	if _, err := client.Secrets.Set(t.Context(), &controlpb.SetSecretRequest{Agent: "alice", Plugin: "p", Name: "TWO", Value: canary}); err != nil {
		t.Fatal(err)
	}
	shown, err := client.Agents.Show(t.Context(), &controlpb.ShowAgentRequest{Agent: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Agents.Delete(t.Context(), &controlpb.DeleteAgentRequest{Agent: "alice", Secrets: true})
	if err != nil || r.SecretsDeleted != 2 {
		t.Errorf("%v, %v", r, err)
	}
	for ref, want := range map[string]int{shown.Agent.Id: 0, "bob": 1} {
		if r, err := client.Secrets.List(t.Context(), &controlpb.ListSecretsRequest{Agent: ref}); err != nil || len(r.Keys) != want {
			t.Errorf("%s: %v, %v", ref, r, err)
		}
	}
}
