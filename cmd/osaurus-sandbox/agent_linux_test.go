package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
)

// as runs a command as an agent and returns its exit code and all it wrote.
func as(t *testing.T, agent, script string, flags ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	args := append(append([]string{"exec", agent}, flags...), "--", "sh", "-c", script)
	code := run(t.Context(), console{strings.NewReader(""), &out, &out}, args)
	return code, strings.TrimSpace(out.String())
}

// ok runs a command line that must work.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, out, stderr := sandbox(t, args...)
	if code != 0 {
		t.Fatalf("%v: %d, %s", args, code, stderr)
	}
	return out
}

// startsQuickly has the guest that runs start programs as those of lab.Driver do.
func startsQuickly(t *testing.T) {
	t.Helper()
	ok(t, "exec", "--root", "--", "sh", "-c", "echo 0 > /proc/sys/kernel/randomize_va_space")
}

// TestAgents is the life of agents in a real guest.
func TestAgents(t *testing.T) {
	home := sessionHome(t, "home")
	if code, _, stderr := sandbox(t, "config", "set", "pack="+lab.DebianPack(t).Dir); code != 0 {
		t.Fatal(stderr)
	}
	ok(t, "up")
	startsQuickly(t)
	ok(t, "agent", "create", "Alice")
	ok(t, "agent", "create", "bob", "network=none")

	t.Run("each is its own user at home", func(t *testing.T) {
		for agent, want := range map[string]string{"alice": "agent-alice 20000 /workspace/agents/alice", "bob": "agent-bob 20001 /workspace/agents/bob"} {
			if code, out := as(t, agent, "echo $(whoami) $(id -u) $(pwd)"); code != 0 || out != want {
				t.Errorf("%s: %d, %q", agent, code, out)
			}
			if code, out := as(t, agent, "ls /workspace/agents"); code != 0 || out != agent {
				t.Errorf("%s sees %q", agent, out)
			}
			if code, _ := as(t, agent, "echo "+agent+" > ~/mine && cat ~/mine"); code != 0 {
				t.Errorf("%s cannot write to its home", agent)
			}
			if text, err := os.ReadFile(filepath.Join(home.AgentHome(config.AgentName(agent)), "mine")); err != nil || string(text) != agent+"\n" {
				t.Errorf("on this computer: %q %v", text, err)
			}
		}
	})
	t.Run("what is shared is everybody's", func(t *testing.T) {
		as(t, "alice", "echo from alice > /workspace/shared/both")
		if code, out := as(t, "bob", "echo and bob >> /workspace/shared/both && cat /workspace/shared/both && chmod 600 /workspace/shared/both"); code != 0 || out != "from alice\nand bob" {
			t.Errorf("%d, %q", code, out)
		}
		if code, out := as(t, "alice", "rm /workspace/shared/both"); code != 0 {
			t.Errorf("%d, %q", code, out)
		}
	})
	t.Run("environment, folder, exit code, time", func(t *testing.T) {
		if code, out := as(t, "alice", "echo $A $HOME; pwd; exit 37", "--env", "A=b", "--cwd", "/tmp"); code != 37 || out != "b /workspace/agents/alice\n/tmp" {
			t.Errorf("%d, %q", code, out)
		}
		if code, _, stderr := sandbox(t, "exec", "carol", "--", "true"); code != exitSandbox || !strings.Contains(stderr, "agent list") {
			t.Errorf("nobody: %d, %s", code, stderr)
		}
		if code, _, _ := sandbox(t, "exec", "alice", "--", "no-such-command"); code != exitNoCommand {
			t.Errorf("no such command: %d", code)
		}
		if code, _, stderr := sandbox(t, "exec", "alice", "true"); code != exitSandbox || !strings.Contains(stderr, "--") {
			t.Errorf("without --: %d, %s", code, stderr)
		}
	})
	t.Run("secrets", func(t *testing.T) { agentSecrets(t, home) })
	t.Run("mcp", tryMCP)
	t.Run("installed plugins", func(t *testing.T) { tryInstalls(t, home) })
	t.Run("the page's recipe", func(t *testing.T) { tryPage(t, home) })
	t.Run("terminal", func(t *testing.T) {
		if code, out := as(t, "alice", "tty && stty size", "--tty"); code != 0 || !strings.Contains(out, "/dev/pts/") || !strings.Contains(out, "24 80") {
			t.Errorf("%d, %q", code, out)
		}
	})
	t.Run("cp", func(t *testing.T) { tryCp(t, home) })
	t.Run("forward", func(t *testing.T) { tryForward(t, home) })
	t.Run("ps and top", func(t *testing.T) {
		p := start(t, "exec", "bob", "--", "sh", "-c", "echo on; exec sleep 1000")
		p.await(t, "on\n")
		end := time.Now().Add(seenWithin)
		for out := ok(t, "ps", "bob"); !strings.Contains(out, "sleep 1000"); out = ok(t, "ps", "bob") {
			if time.Now().After(end) { // the shell has said its word before it became sleep
				t.Fatal(out)
			}
		}
		if out := ok(t, "ps", "alice"); strings.Contains(out, "sleep 1000") {
			t.Errorf("%s", out)
		}
		if out := ok(t, "top", "--count", "2", "--every", "200ms"); !strings.Contains(out, "alice") || !strings.Contains(out, "bob") || strings.Contains(out, "\x1b") {
			t.Errorf("%q", out)
		}
		var tick tick
		if err := json.Unmarshal([]byte(ok(t, "top", "bob", "--json", "--count", "1")), &tick); err != nil || len(tick.Agents) != 1 || tick.Agents[0].Processes != 1 || tick.Agents[0].Memory == 0 {
			t.Errorf("%v %+v", err, tick)
		}
		ok(t, "agent", "delete", "bob", "--yes")
		if err := p.Wait(); err == nil {
			t.Error("what a deleted agent ran ended well")
		}
	})
	t.Run("deleted and made again", func(t *testing.T) {
		ok(t, "agent", "create", "bob", "network=none")
		if code, out := as(t, "bob", "id -u; cat ~/mine"); code != 0 || out != "20002\nbob" {
			t.Errorf("%d, %s", code, out)
		}
		if _, out, _ := sandbox(t, "exec", "--root", "--", "sh", "-c", "cut -d: -f1,3 /etc/passwd | grep agent; ls /workspace/agents"); strings.Contains(out, "20001") {
			t.Errorf("%s", out)
		}
	})
	t.Run("packages and reset", func(t *testing.T) {
		const mark = "/usr/local/mark"
		if code, out := as(t, "alice", "id -u; touch "+mark, "--root"); code != 0 || out != "0" {
			t.Errorf("%d, %s", code, out)
		}
		if code, _ := as(t, "alice", "touch /usr/local/other"); code == 0 {
			t.Error("alice wrote to /usr/local")
		}
		if code, _ := as(t, "bob", "test -e "+mark); code == 0 {
			t.Error("bob sees what alice installed")
		}
		if code, out := as(t, "alice", "osaurus-host config set visits 7 && cp /run/osaurus/agent-alice.token old"); code != 0 {
			t.Errorf("%d, %s", code, out)
		}
		// Her programs need not be told of the token that alice has now, and have no use of the one before.
		asks := func(when string) {
			t.Helper()
			if code, out := as(t, "alice", "osaurus-host config get visits"); code != 0 || out != "7" {
				t.Errorf("%s the host answers alice %d, %s", when, code, out)
			}
			if code, out := as(t, "alice", "! OSAURUS_TOKEN_FILE=old osaurus-host config get visits && cp /run/osaurus/agent-alice.token old"); code != 0 {
				t.Errorf("%s her old token counts: %d, %s", when, code, out)
			}
		}
		t.Run("terminals, over a restart", tryTerminalsInAGuest)
		asks("after a restart")
		pluginWorks(t, "alice", "a restart")
		pageWorks(t, "alice", "a restart")
		if code, out := as(t, "alice", "test -e "+mark+" && cat ~/mine"); code != 0 || out != "alice" {
			t.Errorf("after a restart: %d, %s", code, out)
		}
		ok(t, "agent", "reset", "alice", "--yes")
		asks("after a reset")
		pluginWorks(t, "alice", "a reset")
		pageWorks(t, "alice", "a reset")
		if code, out := as(t, "alice", "! test -e "+mark+" && cat ~/mine"); code != 0 || out != "alice" {
			t.Errorf("after a reset: %d, %s", code, out)
		}
	})
	t.Run("renamed and deleted while the guest is down", func(t *testing.T) {
		ok(t, "agent", "rename", "alice", "carol")
		if _, out := as(t, "carol", "whoami; pwd"); out != "agent-alice\n/workspace/agents/alice" {
			t.Errorf("%s", out)
		}
		ok(t, "down")
		if _, _, stderr := sandbox(t, "agent", "delete", "bob", "--yes", "--workspace"); !strings.Contains(stderr, "next time") {
			t.Errorf("%s", stderr)
		}
		if _, err := os.Stat(home.AgentHome("bob")); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
		// The workspace outlives the disk, and with it plugins do.
		ok(t, "reset", "--yes")
		if _, out := as(t, "carol", "whoami; pwd; cat mine"); out != "agent-alice\n/workspace/agents/carol\nalice" {
			t.Errorf("%s", out)
		}
		pluginWorks(t, "carol", "a reset of the whole sandbox")
		pageWorks(t, "carol", "a reset of the whole sandbox")
		if _, out, _ := sandbox(t, "exec", "--root", "--", "sh", "-c", "grep -c agent-bob /etc/passwd; true"); strings.TrimSpace(out) != "0" {
			t.Errorf("%s", out)
		}
	})
	t.Run("asks before it deletes", func(t *testing.T) {
		if code, _, stderr := sandbox(t, "agent", "delete", "carol"); code != fault.ExitInvalidArgs || !strings.Contains(stderr, "--yes") {
			t.Errorf("%d, %s", code, stderr)
		}
	})
	t.Run("on the record", func(t *testing.T) {
		for _, tc := range []struct {
			want string
			args []string
		}{
			{"agent.deleted", []string{"events"}}, {"exec.room-root", []string{"audit", "list", "--agent", "alice"}}, {"bob: with its workspace", []string{"audit", "list"}},
		} {
			if out := ok(t, tc.args...); !strings.Contains(out, tc.want) {
				t.Errorf("%v: no %q in %s", tc.args, tc.want, out)
			}
		}
	})
	t.Run("plugins when the daemon was killed", func(t *testing.T) { tryPluginsAfterAll(t, home, "carol") })
}

// agentSecrets: what an agent does with a secret of its is seen by nobody else,
// and written nowhere.
func agentSecrets(t *testing.T, home config.Home) {
	ok(t, "config", "set", "secrets=file")
	if code, _, stderr := fed(t, secretToken, "secret", "set", "alice", "TOKEN"); code != 0 {
		t.Fatal(stderr)
	}
	if code, out := as(t, "alice", "echo "+secretToken+"; printf user:"+secretToken+" | base64; echo "+secretToken+" >&2"); code != 0 || strings.Count(out, "[REDACTED:TOKEN]") != 3 {
		t.Errorf("%d, %q", code, out)
	}
	if code, out := as(t, "alice", "echo "+secretToken, "--tty"); code != 0 || out != "[REDACTED:TOKEN]" {
		t.Errorf("on a terminal: %d, %q", code, out)
	}
	if code, out := as(t, "alice", "echo "+secretToken, "--session", "s"); code != 0 || out != "[REDACTED:TOKEN]" {
		t.Errorf("in a session: %d, %q", code, out)
	}
	id := strings.TrimSpace(ok(t, "job", "start", "alice", "--env", "T="+secretToken, "--", "sh", "-c", "echo $T; sleep 1000; : "+secretToken))
	if code, out := as(t, "bob", "env; cat /proc/*/environ /proc/*/cmdline; ps -ef"); strings.Contains(out, secretToken) || !strings.Contains(out, "HOME=") {
		t.Errorf("another agent sees it: %d, %q", code, out)
	}
	for _, args := range [][]string{{"ps"}, {"job", "list"}, {"job", "tail", "alice", id}, {"session", "list"}, {"session", "show", "alice", "s"}, {"events"}, {"logs"}, {"audit", "list", "--json"}} {
		if code, out, stderr := fed(t, "", args...); code != 0 || out == "" {
			t.Errorf("%v: %d, %q, %s", args, code, out, stderr)
		}
	}
	ok(t, "job", "kill", "--kill", "alice", id)
	for _, folder := range []string{"logs", "config", "run", "."} {
		files, err := os.ReadDir(filepath.Join(string(home), folder))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %v", folder, err)
		}
		for _, file := range files {
			if !file.Type().IsRegular() {
				continue
			}
			if text, err := os.ReadFile(filepath.Join(string(home), folder, file.Name())); err != nil || bytes.Contains(text, []byte(secretToken)) {
				t.Errorf("%s/%s has it, %v", folder, file.Name(), err)
			}
		}
	}
}
