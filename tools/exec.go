package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

const (
	// maxExecTime is the longest run time of a command, in seconds. Longer work belongs in the
	// background, where it can be watched.
	maxExecTime = 300
	// execBudget also covers the start of a guest.
	execBudget = maxExecTime*time.Second + bootTime
	// bootTime is how long a call waits for a guest to start.
	bootTime = 3 * time.Minute
)

type execIn struct {
	Command    string `json:"command" jsonschema:"what one would type into a shell; many lines are fine" limit:"minlen=1"`
	Cwd        string `json:"cwd,omitempty" jsonschema:"the folder to run it in; relative to the home folder, which is the default"`
	Timeout    int    `json:"timeout,omitempty" jsonschema:"seconds after which it is ended" limit:"min=1,max=300,default=120"`
	IdleTime   int    `json:"idle_timeout,omitempty" jsonschema:"seconds without any output after which it is ended" limit:"min=1,max=300"`
	Background bool   `json:"background,omitempty" jsonschema:"return at once and let it run: for servers and long work. Look after it with sandbox_process"`
	Session    string `json:"session,omitempty" jsonschema:"run it in the persistent shell of this name, where folder, variables and functions stay from call to call"`
	Fresh      bool   `json:"fresh,omitempty" jsonschema:"run it outside the session, in a new shell"`
}

type execOut struct {
	Stdout   *string `json:"stdout,omitempty"` // set if the command ran to its end
	Stderr   *string `json:"stderr,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty" jsonschema:"128 + n if signal n ended it"`
	Cwd      string  `json:"cwd" jsonschema:"the folder it ran in; with a session, the folder it is in now"`

	TimedOut  bool   `json:"timed_out,omitempty"`
	IdledOut  bool   `json:"idle_timed_out,omitempty"`
	Limit     string `json:"limit,omitempty" jsonschema:"the agent's limit that it reached: oom, pids or quota"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"the middle of the output was left out"`
	Restarted bool   `json:"restarted,omitempty" jsonschema:"the session has a new shell: variables and functions of the old one are lost"`

	Background bool   `json:"background,omitempty"`
	JobID      string `json:"job_id,omitempty" jsonschema:"its id for sandbox_process"`
	PID        string `json:"pid,omitempty" jsonschema:"to look at; sandbox_process takes the job_id"`
	LogFile    string `json:"log_file,omitempty" jsonschema:"where its output is written"`
}

// newExec makes sandbox_exec.
func newExec(rooms Rooms) Tool {
	return inRoom(rooms, Spec{
		Name: "sandbox_exec", Title: "Run a command", Gate: Exec, Counted: true, Lean: true, Budget: execBudget,
		Hints: Hints{Destructive: true, OpenWorld: true},
		Description: `Run a shell command in your sandbox, as your user, in your home folder. For builds, tests, installs of your own, processes and the network. ` +
			`A failing command is a result (exit_code), not an error. Prefer the other tools for what they do: sandbox_read_file over cat, head and tail; ` +
			`sandbox_search_files over grep, find and ls; sandbox_edit_file over sed; sandbox_write_file over echo and here-documents; background:true over & and nohup.`,
	}, func(ctx context.Context, c *Call, in execIn) (execOut, error) {
		dir, err := c.folder("cwd", in.Cwd)
		if err != nil {
			return execOut{}, err
		}
		if strings.ContainsRune(in.Command, 0) {
			return execOut{}, wrongArgument("command", "a text without NUL characters", `the argument "command" holds a NUL character`)
		}
		switch {
		case in.Background:
			return execInBackground(ctx, c, in, dir)
		case in.Session != "" && !in.Fresh:
			return execInSession(ctx, c, in, dir)
		}
		return execOnce(ctx, c, in, dir)
	})
}

// login wraps a command line in a shell that fails if any part of a pipe fails.
func login(command string) []string {
	const script = `if [ -x /bin/bash ]; then exec /bin/bash -o pipefail -c "$1"; else exec /bin/sh -c "$1"; fi`
	return []string{"/bin/sh", "-c", script, "sh", command}
}

func execOnce(ctx context.Context, c *Call, in execIn, dir string) (execOut, error) {
	ran, err := Run(ctx, c.room, engine.Command{
		Args: login(in.Command), Env: environment(c.Agent), Dir: dir,
		Timeout: time.Duration(in.Timeout) * time.Second, IdleTimeout: time.Duration(in.IdleTime) * time.Second,
	})
	if err != nil {
		return execOut{}, wrongFolder(err, in.Cwd, dir)
	}
	out := execOut{
		Stdout: &ran.Stdout, Stderr: &ran.Stderr, ExitCode: &ran.ExitCode, Cwd: dir,
		TimedOut: ran.TimedOut, IdledOut: ran.IdledOut, Limit: ran.Limit, Truncated: ran.Truncated,
	}
	if ran.IdledOut {
		c.Warn("it was ended after writing nothing for %d s", in.IdleTime)
	}
	advise(c, in, out)
	return out, nil
}

func execInSession(ctx context.Context, c *Call, in execIn, dir string) (execOut, error) {
	id, err := config.ParseSessionID(in.Session)
	if err != nil {
		return execOut{}, wrongArgument("session", fault.AdviceOf(err), `the argument "session" is %s`, quoted(in.Session))
	}
	if in.IdleTime != 0 {
		c.Warn("idle_timeout does not count in a session")
	}
	command := in.Command
	if in.Cwd != "" {
		command = "cd -- " + printable.Quote(dir) + " && { " + command + "\n}"
	}
	r, err := c.room.RunShell(ctx, engine.ShellCommand{
		Shell: engine.Shell{Session: id, Env: environment(c.Agent)}, Command: command, Timeout: time.Duration(in.Timeout) * time.Second,
	})
	if err != nil {
		return execOut{}, err
	}
	if r.Exited {
		c.Warn("the session's shell ended with it: the next command gets a new one")
	}
	if r.Cancelled {
		c.Warn("a person ended it, or the call before it was given up")
	}
	for _, late := range r.Late {
		c.Warn("meanwhile %s wrote in the background: %s", quoted(late.Command), late.Output)
	}
	if r.Restarted {
		c.Warn("the shell of session %s is a new one (%s): variables, functions and the folder of before are lost", id, r.RestartCause)
	}
	stdout, stderr := strings.ToValidUTF8(r.Stdout.String(), "\uFFFD"), strings.ToValidUTF8(r.Stderr.String(), "\uFFFD")
	out := execOut{
		Stdout: &stdout, Stderr: &stderr,
		ExitCode: &r.Code, Cwd: r.Dir, TimedOut: r.TimedOut, Restarted: r.Restarted,
		Truncated: r.Stdout.Omitted+r.Stderr.Omitted > 0,
	}
	advise(c, in, out)
	return out, nil
}

func execInBackground(ctx context.Context, c *Call, in execIn, dir string) (execOut, error) {
	if in.Session != "" && !in.Fresh {
		c.Warn("background commands run in their own shell, not in the session")
	}
	job, err := c.room.StartJob(ctx, engine.JobCommand{
		Args: login(in.Command), Env: environment(c.Agent), Dir: dir, Label: printable.First(in.Command, maxLabel),
	})
	if err != nil {
		return execOut{}, wrongFolder(err, in.Cwd, dir)
	}
	return execOut{Background: true, JobID: string(job.ID), PID: fmt.Sprint(job.PID), LogFile: job.LogFile, Cwd: dir}, nil
}

// maxLabel bounds the part of a command that names its job.
const maxLabel = 120

// wrongFolder names the argument cwd as the cause if the guest did not find dir.
func wrongFolder(err error, cwd, dir string) error {
	if cwd == "" || fault.KindOf(err) != fault.NotFound || !isAbout(err, dir) {
		return err
	}
	f := wrongArgument("cwd", "a folder that is there; relative to your home folder",
		"there is no folder %s. sandbox_search_files and sandbox_read_file show what there is", quoted(cwd))
	if f.Cause = err; hostLike(cwd) {
		f.Message += ": it looks like a path on the person's computer, which the sandbox cannot see"
	}
	return f
}

// isAbout reports whether an error, or one it wraps, has this subject.
func isAbout(err error, subject string) bool {
	for f, ok := errors.AsType[*fault.Error](err); ok; f, ok = errors.AsType[*fault.Error](f.Err) {
		if f.Subject == subject {
			return true
		}
	}
	return false
}
