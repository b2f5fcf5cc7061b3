package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/tools/packages"
)

// answers is a room with prepared answers: a command gets the next answer for its first words. The last
// one is repeated.
type answers struct {
	engine.Room
	says map[string][]said

	mu  sync.Mutex
	ran []string
}

// said is the result of a command. The zero value is success without output.
type said struct {
	output string
	exit   engine.Exit
	none   bool          // there is no such program
	takes  time.Duration // without output
	// writesFor is how long it writes before that, with pauses.
	writesFor time.Duration
}

func (a *answers) Exec(ctx context.Context, cmd engine.Command) (engine.Process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := strings.Join(cmd.Args, " ")
	if cmd.RoomRoot != (cmd.Dir == "/") {
		line = "in the wrong folder: " + line
	}
	a.ran = append(a.ran, line)
	for words, list := range a.says {
		if !strings.HasPrefix(line, words) {
			continue
		}
		next := list[0]
		if len(list) > 1 {
			a.says[words] = list[1:]
		}
		if next.none {
			return nil, fault.Newf(fault.NotFound, "run command", cmd.Args[0], "not there")
		}
		return answering{ctx: ctx, cmd: cmd, said: next}, nil
	}
	return answering{ctx: ctx, cmd: cmd}, nil
}

type answering struct {
	engine.Process
	ctx context.Context
	cmd engine.Command
	said
}

func (a answering) Wait() (engine.Exit, error) {
	for begun := time.Now(); time.Since(begun) < a.writesFor; time.Sleep(a.cmd.IdleTimeout / 2) {
		if _, err := io.WriteString(a.cmd.Stdout, "Unpacking\n"); err != nil || a.cmd.Timeout != 0 {
			return engine.Exit{Idle: true}, err
		}
	}
	if a.takes > 0 {
		select {
		case <-time.After(min(a.takes, a.cmd.IdleTimeout)):
			a.exit.Idle = a.takes > a.cmd.IdleTimeout
		case <-a.ctx.Done():
			return engine.Exit{}, context.Cause(a.ctx)
		}
	}
	_, err := io.WriteString(a.cmd.Stdout, a.output)
	return a.exit, err
}

// asked calls a tool and returns the envelope and the commands that were run.
func (a *answers) asked(t *testing.T, tool, arguments string) (e map[string]any, ran []string) {
	t.Helper()
	r := NewRegistry(slog.New(slog.DiscardHandler), Sandbox(Host{Rooms: func(Agent) engine.Room { return a }, Installer: NewInstaller(func(Agent) engine.Executor { return a })})...)
	call := alice()
	call.Home = "/home/alice"
	text := r.Call(t.Context(), call, tool, json.RawMessage(arguments)).Text()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	if result, ok := e["result"].(map[string]any); ok {
		e = result
	}
	return e, a.ran
}

// An install is ended only if its manager writes nothing for too long.
func TestInstallSilence(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		for _, fails := range []bool{false, true} {
			last := said{takes: time.Second}
			if fails {
				last.takes = time.Hour
			}
			last.writesFor = 4 * idleLimit
			a := &answers{says: map[string][]said{"npm": {last}}}
			call := alice()
			_, err := NewInstaller(func(Agent) engine.Executor { return a }).Install(t.Context(), &call, packages.NPM, []string{"x"})
			if f, failed := errors.AsType[*Failure](err); failed != fails || failed && (f.Kind != fault.Timeout || !strings.Contains(f.Message, "wrote nothing for "+idleLimit.String())) {
				t.Errorf("silent at the end %v: %v", fails, err)
			}
		}
	})
}

func failing(output string) said { return said{output: output, exit: engine.Exit{Code: 1}} }

func TestInstalls(t *testing.T) {
	const (
		locked = "ERROR: Unable to lock database: Resource temporarily unavailable\n"
		apkAdd = "apk add --no-cache --no-progress --wait 20 -- jq"
		apt    = "apt-get --yes --quiet -o DPkg::Lock::Timeout=20 -o Dpkg::Use-Pty=0 "
		aptGet = apt + "install --no-install-recommends -- jq"
		npmGet = "npm --no-update-notifier --cache /home/alice/.cache/npm install --no-audit --no-fund --no-progress --prefix /home/alice/.osaurus/node_workspace -- jq"
		python = "/home/alice/.venv/bin/python3 -m pip "
		pipGet = python + "install --disable-pip-version-check --no-input --progress-bar off -- jq"
		venv   = "python3 -m venv --clear /home/alice/.venv"
	)
	debian := []said{{none: true}}
	for _, tc := range []struct {
		name, tool string
		says       map[string][]said
		want       map[string]any // of the result or the failure
		ran        []string       // nil is not compared
	}{
		{"apk", "sandbox_install", nil, map[string]any{"manager": "apk", "exit_code": 0.0, "retried": nil},
			[]string{"apk --version", "cat /etc/apk/world", apkAdd}},
		{"apt", "sandbox_install", map[string][]said{"apk": debian}, map[string]any{"manager": "apt"},
			[]string{"apk --version", "dpkg-query --show --showformat=${binary:Package} ${db:Status-Status}\n", apt + "update", aptGet}},
		{"pip", "sandbox_pip_install", nil, map[string]any{"manager": "pip", "output": ""}, []string{pipGet}},
		{"npm", "sandbox_npm_install", nil, map[string]any{"manager": "npm"}, []string{npmGet}},

		{"locked", "sandbox_install", map[string][]said{"apk add": {failing(locked), {output: "OK"}}}, map[string]any{"retried": true, "output": "OK"},
			[]string{"apk --version", "cat /etc/apk/world", apkAdd, apkAdd}},
		{"after a broken install", "sandbox_install", map[string][]said{"apk add": {failing("1 error; 8 MiB in 17 packages\n"), {}}}, map[string]any{"retried": true},
			[]string{"apk --version", "cat /etc/apk/world", apkAdd, "apk fix --no-cache --no-progress --wait 20", apkAdd}},
		{"repair fails", "sandbox_install", map[string][]said{"apk add": {failing("1 error; 8 MiB in 17 packages\n")}, "apk fix": {failing("ERROR: no\n")}},
			map[string]any{"kind": "execution_error", "retryable": false, "failure_class": "broken", "retried": nil, "cleanup_failed": true, "output": "1 error; 8 MiB in 17 packages\nERROR: no\n"}, nil},
		{"script fails", "sandbox_install", map[string][]said{"apk add": {failing("ERROR: jq-1.post-install: script exited with error 3\n1 error; \n")}, "cat": {{output: "base\n"}, {output: "base\njq\n"}}},
			map[string]any{"failure_class": "script_failed", "retried": nil, "cleanup_failed": nil}, []string{"apk --version", "cat /etc/apk/world", apkAdd, "cat /etc/apk/world", "apk del --no-progress --wait 20 -- jq"}},
		{"apt was interrupted", "sandbox_install", map[string][]said{"apk": debian, aptGet: {failing("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'\n"), {}}}, map[string]any{"retried": true},
			[]string{"apk --version", "dpkg-query --show --showformat=${binary:Package} ${db:Status-Status}\n", apt + "update", aptGet, "dpkg --configure --pending", apt + "--fix-broken install", aptGet}},
		{"refresh reports the reason", "sandbox_install", map[string][]said{"apk": debian, apt + "update": {failing("Err: Temporary failure resolving 'deb'\n")}, aptGet: {failing("E: Unable to locate package jq\n")}},
			map[string]any{"failure_class": "no_network", "retried": true, "cleanup_failed": nil}, nil},
		{"silent for too long", "sandbox_install", map[string][]said{"apk add": {{exit: engine.Exit{Signal: engine.SIGTERM, Idle: true}}}},
			map[string]any{"kind": "timeout", "failure_class": "timeout", "message": "apk did not install jq (timeout): it wrote nothing for 4m0s. Try again, with fewer packages in a call: it may wait for a slow server."}, nil},
		{"no DNS", "sandbox_pip_install", map[string][]said{python: {failing("WARNING: Temporary failure in name resolution\nERROR: Could not find a version that satisfies the requirement x\n")}},
			map[string]any{"failure_class": "no_network", "message": "pip did not install jq (no_network): its index was not reached. Try again once the network is there."}, nil},
		{"out of memory", "sandbox_pip_install", map[string][]said{python: {{exit: engine.Exit{Signal: engine.SIGKILL, OOM: true}}}}, map[string]any{"failure_class": "out_of_memory"}, nil},
		{"full disk", "sandbox_npm_install", map[string][]said{"npm": {{exit: engine.Exit{Code: 1, Quota: true}}}}, map[string]any{"failure_class": "no_space"}, nil},

		{"no environment", "sandbox_pip_install", map[string][]said{python: {{none: true}, {}}}, map[string]any{"manager": "pip", "retried": nil}, []string{pipGet, venv, pipGet}},
		{"broken environment", "sandbox_pip_install", map[string][]said{python: {failing("python3: No module named pip\n"), {}}}, map[string]any{"retried": true}, []string{pipGet, venv, pipGet}},
		{"without Python", "sandbox_pip_install", map[string][]said{python: {{none: true}}, "python3": {{none: true}}}, map[string]any{"kind": "unavailable", "retryable": false, "failure_class": "no_manager"}, nil},
		{"without npm", "sandbox_npm_install", map[string][]said{"npm": {{none: true}}}, map[string]any{"kind": "unavailable", "message": `the sandbox has no npm. Call sandbox_install with ["nodejs", "npm"].`}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			timetest.Synthetic(t, func(t *testing.T) { // for the pause before the second attempt
				a := &answers{says: tc.says}
				got, ran := a.asked(t, tc.tool, `{"packages":["jq"]}`)
				for key, want := range tc.want {
					if got[key] != want {
						t.Errorf("%s: %v, want %v in %v", key, got[key], want, got)
					}
				}
				if tc.ran != nil && !slices.Equal(ran, tc.ran) {
					t.Errorf("ran %q\nwant %q", ran, tc.ran)
				}
			})
		})
	}
}

func TestInstallRefusesNames(t *testing.T) {
	for tool, packages := range map[string]string{
		"sandbox_install": `["jq", "--allow-untrusted"]`, "sandbox_pip_install": `"git+https://example.com/x"`, "sandbox_npm_install": `["../x"]`,
	} {
		a := &answers{}
		e, ran := a.asked(t, tool, `{"packages":`+packages+`}`)
		if e["kind"] != "invalid_args" || e["field"] != "packages" || !strings.Contains(e["expected"].(string), "no option") {
			t.Errorf("%s: %v", tool, e)
		}
		if len(ran) > 1 || len(ran) == 1 && ran[0] != "apk --version" {
			t.Errorf("%s has run %q", tool, ran)
		}
	}
	if e, _ := new(answers).asked(t, "sandbox_pip_install", `{"packages":[]}`); e["kind"] != "invalid_args" || e["field"] != "packages" {
		t.Errorf("none: %v", e)
	}
}

func TestInstallOutput(t *testing.T) {
	a := &answers{says: map[string][]said{"npm": {failing("begins\n" + strings.Repeat("x", 3*maxInstallOutput) + "\nnpm error code E404\nnpm error 404 nothing\n")}}}
	var told []string
	call := alice()
	call.Settings.Network = config.NetworkClosed
	call.Tell = func(p Progress) { told = append(told, p.Text) }
	_, err := NewInstaller(func(Agent) engine.Executor { return a }).Install(t.Context(), &call, packages.NPM, []string{"nothing"})
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		t.Fatal(err)
	}
	output, _ := f.More["output"].(string)
	if n := len(output); n > maxInstallOutput+100 || !strings.HasPrefix(output, "begins\n") || !strings.HasSuffix(output, "404 nothing\n") {
		t.Errorf("%d bytes of output", n)
	}
	if want := "npm did not install nothing (not_found): npm error code E404. "; !strings.HasPrefix(f.Message, want) {
		t.Errorf("%s", f.Message)
	}
	if len(told) != 2 || told[0] != "npm installs nothing" || told[1] != "npm error 404 nothing" {
		t.Errorf("progress: %.300q", told)
	}

	a = &answers{says: map[string][]said{"npm": {failing("npm error code ENOTFOUND\n")}}}
	if _, err = NewInstaller(func(Agent) engine.Executor { return a }).Install(t.Context(), &call, packages.NPM, []string{"x"}); !strings.Contains(err.Error(), "agent set alice network=open") {
		t.Errorf("without a network: %v", err)
	}
}

// Installs of an agent run one after the other, and agents do not wait for each other.
func TestInstallQueue(t *testing.T) {
	timetest.Synthetic(t, func(t *testing.T) {
		a := &answers{says: map[string][]said{"": {{takes: time.Minute}}}}
		i := NewInstaller(func(Agent) engine.Executor { return a })
		begun := time.Now()
		ends := make(chan time.Duration, 3)
		for _, agent := range []config.AgentID{"A", "A", "B"} {
			go func() {
				call := alice()
				call.ID = agent
				if _, err := i.Install(t.Context(), &call, packages.NPM, []string{"x"}); err != nil {
					t.Error(err)
				}
				ends <- time.Since(begun)
			}()
		}
		for _, want := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute} {
			if got := <-ends; got != want {
				t.Errorf("ended after %v, want %v", got, want)
			}
		}
	})
}
