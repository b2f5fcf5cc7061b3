package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/timetest"
)

// as runs a script as an agent and returns its exit code and output.
func as(t *testing.T, agent, script string, flags ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	args := append(append([]string{"exec", agent}, flags...), "--", "sh", "-c", script)
	code := run(t.Context(), console{strings.NewReader(""), &out, &out}, args)
	return code, strings.TrimSpace(out.String())
}

// does runs a script as an agent, which must work and, unless want is empty, print want.
func does(t *testing.T, agent, want, script string, flags ...string) {
	t.Helper()
	if code, out := as(t, agent, script, flags...); code != 0 || want != "" && out != want {
		t.Errorf("%s of %s: %d, %q, want %q", script, agent, code, out, want)
	}
}

// startsQuickly makes the running guest start programs as quickly as those of lab.Driver.
func startsQuickly(t *testing.T) {
	t.Helper()
	ok(t, "exec", "--root", "--", "sh", "-c", "echo 0 > /proc/sys/kernel/randomize_va_space")
}

// TestAgents creates, uses, resets, renames and deletes agents in a real guest.
func TestAgents(t *testing.T) {
	home := sessionHome(t, "home")
	ok(t, "config", "set", "pack="+lab.DebianPack(t).Dir)
	ok(t, "up")
	startsQuickly(t)
	ok(t, "agent", "create", "Alice")
	ok(t, "agent", "create", "bob", "network=none")

	t.Run("each is its own user at home", func(t *testing.T) {
		for agent, want := range map[string]string{"alice": "agent-alice 20000 /workspace/agents/alice", "bob": "agent-bob 20001 /workspace/agents/bob"} {
			does(t, agent, want, "echo $(whoami) $(id -u) $(pwd)")
			does(t, agent, agent, "ls /workspace/agents")
			does(t, agent, agent, "echo "+agent+" > ~/mine && cat ~/mine")
			if text, err := os.ReadFile(filepath.Join(home.AgentHome(config.AgentName(agent)), "mine")); err != nil || string(text) != agent+"\n" {
				t.Errorf("on this computer: %q %v", text, err)
			}
		}
	})
	t.Run("secrets", agentSecrets)
	t.Run("mcp", tryMCP)
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
		// The shell prints before it becomes sleep.
		timetest.Eventually(t, "the command is listed", func() bool { return strings.Contains(ok(t, "ps", "bob"), "sleep 1000") })
		if out := ok(t, "ps", "alice"); strings.Contains(out, "sleep 1000") {
			t.Errorf("%s", out)
		}
		if out := ok(t, "top", "--count", "2", "--every", "200ms"); !strings.Contains(out, "alice") || !strings.Contains(out, "bob") || strings.Contains(out, "\x1b") {
			t.Errorf("%q", out)
		}
		var tick struct {
			Agents []struct {
				Processes uint32
				Memory    string
			}
		}
		if err := json.Unmarshal([]byte(ok(t, "top", "bob", "--json", "--count", "1")), &tick); err != nil || len(tick.Agents) != 1 || tick.Agents[0].Processes != 1 || tick.Agents[0].Memory == "0" {
			t.Errorf("%v %+v", err, tick)
		}
		ok(t, "agent", "delete", "bob", "--yes")
		if err := p.Wait(); err == nil {
			t.Error("what a deleted agent ran ended well")
		}
	})
	t.Run("deleted and made again", func(t *testing.T) {
		ok(t, "agent", "create", "bob", "network=none")
		does(t, "bob", "20002\nbob", "id -u; cat ~/mine")
		if _, out, _ := sandbox(t, "exec", "--root", "--", "sh", "-c", "cut -d: -f1,3 /etc/passwd | grep agent; ls /workspace/agents"); strings.Contains(out, "20001") {
			t.Errorf("%s", out)
		}
	})
	t.Run("packages and reset", func(t *testing.T) {
		const mark = "/usr/local/mark"
		does(t, "alice", "0", "id -u; touch "+mark, "--root")
		if code, _ := as(t, "alice", "touch /usr/local/other"); code == 0 {
			t.Error("alice wrote to /usr/local")
		}
		if code, _ := as(t, "bob", "test -e "+mark); code == 0 {
			t.Error("bob sees what alice installed")
		}
		does(t, "alice", "", "osaurus-host config set visits 7 && cp /run/osaurus/agent-alice.token old")
		// Her programs always use the current token, and an old one is refused.
		asks := func(when string) {
			t.Helper()
			does(t, "alice", "7", "osaurus-host config get visits")
			does(t, "alice", "", "! OSAURUS_TOKEN_FILE=old osaurus-host config get visits && cp /run/osaurus/agent-alice.token old")
		}
		t.Run("terminals, over a restart", tryTerminalsInAGuest)
		asks("after a restart")
		pageWorks(t, "alice", "a restart")
		does(t, "alice", "alice", "test -e "+mark+" && cat ~/mine")
		ok(t, "agent", "reset", "alice", "--yes")
		asks("after a reset")
		pageWorks(t, "alice", "a reset")
		does(t, "alice", "alice", "! test -e "+mark+" && cat ~/mine")
	})
	t.Run("renamed and deleted while the guest is down", func(t *testing.T) {
		ok(t, "agent", "rename", "alice", "carol")
		does(t, "carol", "agent-alice\n/workspace/agents/alice", "whoami; pwd")
		ok(t, "down")
		if _, _, stderr := sandbox(t, "agent", "delete", "bob", "--yes", "--workspace"); !strings.Contains(stderr, "next time") {
			t.Errorf("%s", stderr)
		}
		if _, err := os.Stat(home.AgentHome("bob")); !os.IsNotExist(err) {
			t.Errorf("%v", err)
		}
		// The workspace and its plugins survive the disk.
		ok(t, "reset", "--yes")
		does(t, "carol", "agent-alice\n/workspace/agents/alice\nalice", "whoami; pwd; cat mine")
		pageWorks(t, "carol", "a reset of the whole sandbox")
		if _, out, _ := sandbox(t, "exec", "--root", "--", "sh", "-c", "grep -c agent-bob /etc/passwd; true"); strings.TrimSpace(out) != "0" {
			t.Errorf("%s", out)
		}
	})
	t.Run("plugins when the daemon was killed", func(t *testing.T) { tryPluginsAfterAll(t, home, "carol") })
}

// agentSecrets checks that no output shows an agent's secret, and that no other agent sees it.
func agentSecrets(t *testing.T) {
	ok(t, "config", "set", "secrets=file")
	feed(t, secretToken, "secret", "set", "alice", "TOKEN")
	if code, out := as(t, "alice", "echo "+secretToken+"; printf user:"+secretToken+" | base64; echo "+secretToken+" >&2"); code != 0 || strings.Count(out, "[REDACTED:TOKEN]") != 3 {
		t.Errorf("%d, %q", code, out)
	}
	does(t, "alice", "[REDACTED:TOKEN]", "echo "+secretToken, "--tty")
	does(t, "alice", "[REDACTED:TOKEN]", "echo "+secretToken, "--session", "s")
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
}
