package guesttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

// shellCases check persistent shells and jobs.
func shellCases() []roomCase {
	return []roomCase{
		{"Shell", shellInRoom}, {"ShellsApart", shellsApart}, {"SpoolLinks", spoolLinks}, {"JobLogs", jobLogs}, {"EndWithTheRoom", endWithTheRoom},
	}
}

// shell runs a command in the agent's session.
func (a *agent) shell(ctx context.Context, t *testing.T, command string) engine.ShellResult {
	t.Helper()
	r, err := a.room().RunShell(ctx, engine.ShellCommand{Shell: a.session(), Command: command, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatalf("%q in the shell of %s: %v", command, a.User, err)
	}
	return r
}

func (a *agent) session() engine.Shell {
	return engine.Shell{Session: "test"}
}

func wantShell(t *testing.T, r engine.ShellResult, code int, out string) {
	t.Helper()
	if got := r.Stdout.String() + r.Stderr.String(); got != out || r.Code != code {
		t.Errorf("code %d, %q, want %d, %q (%+v)", r.Code, got, code, out, r)
	}
}

func shellInRoom(ctx context.Context, t *testing.T, alice, _ *agent) {
	first := alice.shell(ctx, t, "id -un; pwd; echo $HOME; echo problem >&2; cd /tmp; X=1; export Y=2; f() { echo f$X; }; false")
	wantShell(t, first, 1, string(alice.User)+"\n"+alice.Home+"\n"+alice.Home+"\nproblem\n")
	if first.Dir != "/tmp" {
		t.Errorf("the directory is %q", first.Dir)
	}
	wantShell(t, alice.shell(ctx, t, "f; pwd; sh -c 'echo $Y'; ls /dev/pts"), 0, "f1\n/tmp\n2\n0\nptmx\n")
	wantShell(t, alice.shell(ctx, t, "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr"), 0, "out\nerr\n")
	// The shell is in the room like any other command.
	if out := alice.shell(ctx, t, "ls /proc | grep -c '^[0-9]'; ls -d /workspace/agents/*").Stdout.String(); !strings.HasSuffix(out, "\n"+alice.Home+"\n") {
		t.Errorf("%q", out)
	}
	for _, forbidden := range []string{"touch /run/osaurus-shells/x", "rm -rf /run/osaurus-shells/*", "cat /run/osaurus-shells/*/said", "mkdir /run/osaurus-shells/*/x"} {
		if r := alice.shell(ctx, t, forbidden+" 2>/dev/null"); r.Code == 0 || r.Restarted {
			t.Errorf("%s: %+v", forbidden, r)
		}
	}
	wantShell(t, alice.shell(ctx, t, "echo on"), 0, "on\n")
}

func shellsApart(ctx context.Context, t *testing.T, alice, bob *agent) {
	alice.shell(ctx, t, "X="+secret)
	wantShell(t, bob.shell(ctx, t, "echo [$X]; ls /proc/*/environ >/dev/null 2>&1; ls /run/osaurus-shells | wc -l"), 0, "[]\n1\n")
	list, err := bob.room().Sessions(ctx)
	if err != nil || len(list) != 1 || list[0].User != string(bob.User) || list[0].State != engine.SessionIdle || list[0].Dir != bob.Home {
		t.Errorf("%+v %v", list, err)
	}
	n, err := bob.room().CloseSession(ctx, "")
	if err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	wantShell(t, alice.shell(ctx, t, "echo $X"), 0, secret+"\n")
}

func (a *agent) job(ctx context.Context, t *testing.T, script string) engine.Job {
	t.Helper()
	j, err := a.room().StartJob(ctx, engine.JobCommand{Args: sh(script)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// jobLogs checks that an agent can read the logs of its jobs, that not even its room's root can
// change them, and that others do not see them.
func jobLogs(ctx context.Context, t *testing.T, alice, bob *agent) {
	j := alice.job(ctx, t, "echo first; sleep 600")
	const folder = "/run/osaurus-jobs"
	if j.LogFile != folder+"/"+string(j.ID)+".log" {
		t.Errorf("the log is at %q", j.LogFile)
	}
	eventually(ctx, t, func() bool { out, _ := alice.run(ctx, t, "cat "+j.LogFile); return out == "first" })
	for _, forbidden := range []string{
		"echo x >>" + j.LogFile, ": >" + j.LogFile, "rm -f " + j.LogFile, "mv " + j.LogFile + " " + j.LogFile + ".1", "ln -s /etc/passwd " + j.LogFile + ".1",
		"touch " + folder + "/x", "chmod 777 " + j.LogFile, "chown 12345 " + folder, "mv " + folder + " /run/elsewhere", "rmdir " + folder,
	} {
		for who, run := range map[string]func(context.Context, *testing.T, string) (string, engine.Exit){"the agent": alice.run, "the room's root": alice.asRoot} {
			if out, exit := run(ctx, t, forbidden+" 2>&1"); exit.Status() == 0 {
				t.Errorf("%s did %s: %s", who, forbidden, out)
			}
		}
	}
	if out, _ := alice.run(ctx, t, "cat "+j.LogFile); out != "first" {
		t.Errorf("then it holds %q", out)
	}
	if out, exit := bob.run(ctx, t, "ls -A "+folder); out != "" || exit.Status() != 0 {
		t.Errorf("bob sees %q, %v", out, exit)
	}
}

func endWithTheRoom(ctx context.Context, t *testing.T, alice, _ *agent) {
	room := alice.room()
	alice.shell(ctx, t, "X=1")
	j := alice.job(ctx, t, "sleep 600")
	if err := alice.suite.Client.ResetRoom(ctx, alice.User); err != nil {
		t.Fatal(err)
	}
	alice.ensure(ctx, t)
	if _, err := room.Job(ctx, j.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a job outlived its room: %v", err)
	}
	if list, err := room.Sessions(ctx); err != nil || len(list) != 0 {
		t.Errorf("%+v %v", list, err)
	}
	wantShell(t, alice.shell(ctx, t, "echo [$X]"), 0, "[]\n")
}

// spoolLinks plants links in a shell's folder as the room's root. The guest's root does not follow
// them when it clears the folder.
func spoolLinks(ctx context.Context, t *testing.T, alice, bob *agent) {
	names := []string{"text", "in", "out", "err"} // as the files of a call
	for _, name := range names {
		keep(ctx, t, alice, alice.Home+"/"+name)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		// Ends with its session, with or without an error.
		_, _ = bob.room().RunShell(ctx, engine.ShellCommand{Shell: bob.session(), Command: "touch /tmp/runs; sleep 600", Timeout: 2 * time.Minute})
	}()
	eventually(ctx, t, func() bool { _, exit := bob.run(ctx, t, "[ -e /tmp/runs ]"); return exit.Status() == 0 })
	// Folders of ended calls are removed in the background.
	eventually(ctx, t, func() bool { out, _ := bob.asRoot(ctx, t, "ls -d /run/osaurus-shells/*/*/ | wc -l"); return out == "2" })
	out, exit := bob.asRoot(ctx, t, "cd /run/osaurus-shells/*/ && for d in */; do rm -r $d && ln -s "+alice.Home+" ${d%/} && echo link; done")
	if exit.Status() != 0 || out != "link\nlink" { // none, and the call's own
		t.Errorf("%+v %s", exit, out)
	}
	if n, err := bob.room().CloseSession(ctx, ""); err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	<-over
	for _, name := range names {
		if out, _ := alice.run(ctx, t, "cat "+name); out != secret {
			t.Errorf("alice's file %s holds %q", name, out)
		}
	}
	bob.asRoot(ctx, t, "rm -r /run/osaurus-shells/*")
}
