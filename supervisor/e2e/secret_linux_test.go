//go:build !vzstandin

package e2e_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/engine"
)

// boundSecret uses two bound secrets in every way and then looks for their values everywhere.
func (g *gatewayTest) boundSecret(t *testing.T) {
	token, pass, planted := unguessable("token-"), unguessable("pass-"), unguessable("planted-")
	for name, b := range map[string]*controlpb.SetSecretRequest{
		"TOKEN": {Value: token, Binding: &controlpb.SecretBinding{Hosts: []string{apiHost}}},
		"PASS":  {Value: pass, Binding: &controlpb.SecretBinding{Hosts: []string{apiHost}, In: "basic"}},
	} {
		b.Agent, b.Name = "alice", name
		if _, err := g.Secrets.Set(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	placeholder := g.script(t, "alice", "osaurus-host secrets get TOKEN")
	if !regexp.MustCompile("^osr_[A-Za-z0-9]{32}$").MatchString(placeholder) {
		t.Fatalf("the placeholder is %q", placeholder)
	}
	g.uses(t, token, pass)
	g.misuses(t, token, pass)

	// What is searched for has to be found where it was put on purpose.
	coded := base64.StdEncoding.EncodeToString([]byte("alice:" + planted))
	job, err := g.Jobs.Start(t.Context(), &controlpb.StartJobRequest{Agent: "alice", Line: "PLANTED=" + planted + " CODED=" + coded + " exec sleep 100000"})
	if err != nil {
		t.Fatal(err)
	}
	g.exec(t, control.RunAs{Agent: "alice"}, engine.Command{Args: []string{"sh", "-c", "echo " + planted + coded + " > /root/planted"}, RoomRoot: true})
	g.script(t, "", "sync")
	if swaps := g.script(t, "", "cat /proc/swaps"); strings.Contains(swaps, "\n") {
		t.Errorf("the guest swaps: %s", swaps)
	}
	g.reports(t)

	if !strings.Contains(g.said.String(), "secret.send") {
		t.Error("the audit does not say that the secrets were sent")
	}

	all := formsOf("TOKEN", "alice", token)
	maps.Copy(all, formsOf("PASS", "alice", pass))
	all["planted"], all["coded"], all["placeholder"] = planted, coded, placeholder
	look := func(where string, search func(found map[string]bool), want ...string) {
		t.Helper()
		found := map[string]bool{}
		search(found)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", where, got, want)
		}
	}
	look("the guest's memory", func(found map[string]bool) { all.memory(t, found) }, "coded", "placeholder", "planted")
	look("the guest's disk", func(found map[string]bool) {
		if n, err := all.file(g.home.DataDisk(), found); n == 0 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}, "coded", "planted")
	look("the environment of processes", func(found map[string]bool) {
		// In hexadecimal, which is not redacted. A process may end before it is read.
		text, err := hex.DecodeString(g.script(t, "", `cat /proc/[0-9]*/environ 2>/dev/null | od -An -v -tx1 | tr -d ' \n'`))
		if err != nil {
			t.Error(err)
		}
		all.in(text, found)
	}, "coded", "planted")
	look("the home", func(found map[string]bool) { all.folder(t, string(g.home), found) }, "coded", "placeholder", "planted")
	look("what calls returned and the log", func(found map[string]bool) { all.in([]byte(g.said.String()), found) }, "coded", "placeholder", "planted")
	if _, err := g.Jobs.Kill(t.Context(), &controlpb.KillJobRequest{Agent: "alice", Id: job.Job.Id, Kill: true}); err != nil {
		t.Error(err)
	}
}

// uses sends the secrets from every kind of program. Each value has to arrive, in its position only.
func (g *gatewayTest) uses(t *testing.T, token, pass string) {
	const get = `"Authorization: Bearer $(osaurus-host secrets get TOKEN)"`
	curl := func(path string) string { return "curl -sS -m 90 -H " + get + " https://" + apiHost + path }
	python := `python3 -c 'import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})).read().decode())'`
	bearer, basic := "Bearer "+token, "Basic "+base64.StdEncoding.EncodeToString([]byte("alice:"+pass))
	for _, use := range []struct {
		path, want string
		run        func(path string) string
	}{
		{"/curl", bearer, func(path string) string { return g.script(t, "alice", curl(path)) }},
		{"/python", bearer, func(path string) string {
			return g.script(t, "alice", python+" https://"+apiHost+path+` "$(osaurus-host secrets get TOKEN)"`)
		}},
		{"/lent", bearer, func(path string) string {
			return g.exec(t, control.RunAs{Agent: "alice", Secrets: []string{"TOKEN"}}, engine.Command{Args: []string{"sh", "-c", `curl -sS -m 90 --oauth2-bearer "$TOKEN" https://` + apiHost + path}})
		}},
		{"/basic", basic, func(path string) string {
			return g.script(t, "alice", `curl -sS -m 90 -u "alice:$(osaurus-host secrets get PASS)" https://`+apiHost+path+" | tee basic")
		}},
		{"/session", bearer, func(path string) string {
			command := "T=$(osaurus-host secrets get TOKEN); echo $T; " + curl(path)
			r, err := g.Shells.Run(t.Context(), &controlpb.RunInSessionRequest{Agent: "alice", Session: "s", Command: command, Timeout: durationpb.New(toolTime)})
			return fmt.Sprint(string(r.GetStdout().GetHead()), string(r.GetStderr().GetHead()), err)
		}},
		{"/job", bearer, func(path string) string {
			r, err := g.Jobs.Start(t.Context(), &controlpb.StartJobRequest{Agent: "alice", Line: curl(path)})
			if err != nil {
				return err.Error()
			}
			var said strings.Builder
			for m, err := range control.Messages(g.Jobs.Tail(t.Context(), &controlpb.TailJobRequest{Agent: "alice", Id: r.Job.Id, Follow: true})) {
				said.Write(m.GetData())
				if err != nil {
					t.Error(err)
				}
			}
			return said.String()
		}},
		{"/tool", bearer, func(path string) string {
			envelope, err := g.CallTool(t.Context(), &controlpb.CallToolRequest{Agent: "alice", Tool: "sandbox_exec", Arguments: arguments(t, map[string]string{"command": curl(path)})}, nil)
			return fmt.Sprint(envelope, err)
		}},
		{"/fails", bearer, func(path string) string { return g.script(t, "alice", curl(path)+" -v --fail-with-body") }},
	} {
		said := use.run(use.path)
		fmt.Fprintln(&g.said, said)
		got := g.arrivals()
		if len(got) != 1 || got[0].host != apiHost || got[0].path != use.path || got[0].authorization != use.want || strings.Contains(got[0].rest, token) || strings.Contains(got[0].rest, pass) {
			t.Errorf("%s: %+v arrived, and it said %s", use.path, got, said)
		}
		if !strings.Contains(said, "[REDACTED:") { // the server sent it back
			t.Errorf("%s: it said %s", use.path, said)
		}
	}
}

// misuses send placeholders to where they do not belong. No value may leave.
func (g *gatewayTest) misuses(t *testing.T, token, pass string) {
	const get = `$(osaurus-host secrets get TOKEN)`
	for _, script := range []string{
		`curl -sS -m 90 -H "Authorization: Bearer ` + get + `" https://` + otherHost + "/header",
		`curl -sS -m 90 -H "X-Api-Key: ` + get + `" https://` + apiHost + "/key",
		`curl -sS -m 90 https://` + apiHost + "/path/" + get,
		`curl -sS -m 90 "https://` + apiHost + `/query?token=` + get + `"`,
		`curl -sS -m 90 -d "` + get + `" https://` + apiHost + "/body",
		`curl -sS -m 90 -H "Authorization: Bearer ` + get + `" http://` + apiHost + "/cleartext",
		`curl -sS -m 90 -H "Authorization: Bearer ` + get + `" https://` + apiHost + ":444/closed",
		`curl -sS -m 90 -k --connect-to ` + otherHost + ":443:" + apiHost + `:443 -H "Authorization: Bearer ` + get + `" https://` + otherHost + "/fronted",
	} {
		said := g.script(t, "alice", script)
		for _, a := range g.arrivals() {
			if text := fmt.Sprint(a); strings.Contains(text, token) || strings.Contains(text, pass) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("alice:"+pass))) {
				t.Errorf("%s: %+v arrived, and it said %s", script, a, said)
			}
		}
	}
}

// reports asks for everything that is recorded.
func (g *gatewayTest) reports(t *testing.T) {
	collect := func(v any, err error) {
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintln(&g.said, v)
	}
	collect(g.Shells.Transcript(t.Context(), &controlpb.TranscriptRequest{Agent: "alice", Session: "s"}))
	collect(g.Jobs.List(t.Context(), &controlpb.ListJobsRequest{}))
	collect(g.Secrets.List(t.Context(), &controlpb.ListSecretsRequest{Agent: "alice"}))
	collect(g.Status(t.Context(), &controlpb.StatusRequest{}))
	for m, err := range control.Messages(g.ListAudit(t.Context(), &controlpb.ListAuditRequest{})) {
		collect(m, err)
	}
	for m, err := range control.Messages(g.Events(t.Context(), &controlpb.EventsRequest{})) {
		collect(m, err)
	}
	for m, err := range control.Messages(g.Network.Flows(t.Context(), &controlpb.NetworkFlowsRequest{Agent: "alice"})) {
		collect(m, err)
	}
	for m, err := range control.Messages(g.Logs(t.Context(), &controlpb.LogsRequest{})) {
		collect(m, err)
	}
}
