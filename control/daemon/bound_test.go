package daemon_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// A bound secret is a placeholder for commands, jobs and sessions. Its value is in no file, output,
// transcript, list or audit, also after a restart.
func TestBoundSecret(t *testing.T) {
	home := secretHome(t)
	var log view
	client, end := serve(t, daemon.Options{Home: home, Log: &log})
	alice := newDesk(t, client, "alice")
	bind := func(c *control.Client, agent string, b *controlpb.SecretBinding) error {
		_, err := c.Secrets.Set(t.Context(), &controlpb.SetSecretRequest{Agent: agent, Name: "TOKEN", Value: canary, Binding: b})
		return err
	}
	if err := bind(client, "alice", &controlpb.SecretBinding{Hosts: []string{"API.example.org"}, In: "header", Key: "X-Api-Key", Require: true}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []*controlpb.SecretBinding{{}, {Hosts: []string{"*.example.org"}}, {Hosts: []string{"a.example"}, In: "body"}} {
		if err := bind(client, "alice", bad); fault.KindOf(err) != fault.InvalidArgs {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := client.Agents.Create(t.Context(), &controlpb.CreateAgentRequest{Name: "closed", Settings: map[string]string{"network": "none"}}); err != nil {
		t.Fatal(err)
	}
	good := &controlpb.SecretBinding{Hosts: []string{"a.example"}}
	if err := bind(client, "closed", good); fault.KindOf(err) != fault.Rejected || fault.AdviceOf(err) == "" {
		t.Errorf("without a network: %v", err)
	}
	if err := bind(client, "@host", good); fault.KindOf(err) != fault.InvalidArgs && fault.KindOf(err) != fault.NotFound {
		t.Errorf("of this computer: %v", err)
	}

	seen := map[string]bool{}
	look := func(c *control.Client) {
		t.Helper()
		r, err := c.Secrets.List(t.Context(), &controlpb.ListSecretsRequest{Agent: "alice"})
		if err != nil || len(r.Keys) != 1 || fmt.Sprint(r.Keys[0].Binding.GetHosts(), r.Keys[0].Binding.GetIn(), r.Keys[0].Binding.GetKey(), r.Keys[0].Binding.GetRequire()) != "[api.example.org]headerX-Api-Keytrue" {
			t.Errorf("%v, %v", r, err)
		}
		var out bytes.Buffer
		p, err := c.Run(t.Context(), control.RunAs{Agent: "alice", Secrets: []string{"TOKEN"}}, engine.Command{Args: []string{"env"}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		token := regexp.MustCompile(`(?m)^TOKEN=(osr_[A-Za-z0-9]{32})$`).FindStringSubmatch(out.String())
		if token == nil || strings.Contains(out.String(), canary) {
			t.Fatalf("the environment: %s", &out)
		}
		seen[token[1]] = true
	}
	look(client)
	job, err := client.Jobs.Start(t.Context(), &controlpb.StartJobRequest{Agent: "alice", Args: []string{"sh", "-c", `echo "$TOKEN"`}, Secrets: []string{"TOKEN"}})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := alice.tail(&controlpb.TailJobRequest{Agent: "alice", Id: job.Job.Id, Follow: true})
	seen[strings.TrimSpace(data)] = true
	if err != nil {
		t.Error(err)
	}
	if r := alice.run("s", "echo "+canary); !strings.Contains(r.Stdout.String(), redacted) {
		t.Errorf("a session: %+v", r)
	}
	if text, err := alice.transcript("s"); err != nil || strings.Contains(text, canary) {
		t.Errorf("a transcript: %q, %v", text, err)
	}
	bound := 0
	for e, err := range control.Messages(client.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Action == "secret.set" && strings.Contains(e.Subject, "for api.example.org (header X-Api-Key, required)") {
			bound++
		}
	}
	if bound == 0 {
		t.Errorf("the binding is not in the audit")
	}
	if err := end(); err != nil {
		t.Error(err)
	}

	client, end = serve(t, daemon.Options{Home: home, Log: &log})
	look(client)
	if len(seen) != 1 {
		t.Errorf("placeholders: %v", seen)
	}
	if _, err := client.Secrets.Delete(t.Context(), &controlpb.DeleteSecretRequest{Agent: "alice", Name: "TOKEN"}); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	clean(t, home)
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log: %s", &log)
	}
}
