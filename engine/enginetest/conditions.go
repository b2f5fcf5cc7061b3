package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
)

func argumentsVerbatim(ctx context.Context, t *trial) error {
	args := []string{"", " a  b ", `"'\`, "$HOME", "*", "-n", "line\nline", "ü\xff", ";exit 7"}
	req := t.line("")
	req.Command = engine.Argv("printf", append([]string{`%s|`}, args...)...)
	return t.expect(ctx, req, 0, strings.Join(args, "|")+"|")
}

func envIsADelta(ctx context.Context, t *trial) error {
	const odd = " a=b 'c' \"d\" $e\nf ü "
	req := t.line(`printf '%s|' "$ODD" "$EMPTY" "${EMPTY+set}"; [ -n "$PATH" ] && command -v cat > /dev/null && echo path`)
	req.Env = map[string]string{"ODD": odd, "EMPTY": ""}
	if err := t.expect(ctx, req, 0, odd+"||set|path\n"); err != nil {
		return err
	}
	// The request's variables override the engine's, also for looking up the program.
	req = t.line(`mkdir bin && printf '#!/bin/sh\necho mine\n' > bin/cat && chmod 755 bin/cat`)
	if err := t.expect(ctx, req, 0, ""); err != nil {
		return err
	}
	req = t.line("")
	req.Command, req.Env = engine.Argv("cat"), map[string]string{"PATH": t.dir + "/bin:/usr/bin:/bin"}
	return t.expect(ctx, req, 0, "mine\n")
}

func callersEnvStays(ctx context.Context, t *trial) error {
	const name = "SANDBOXTEST_OF_THE_CALLER"
	if err := os.Setenv(name, rand.Text()); err != nil {
		return err
	}
	defer os.Unsetenv(name)
	return t.expect(ctx, t.line(`env | grep `+name+`; :`), 0, "")
}

func worksInWorkspace(ctx context.Context, t *trial) error {
	return errors.Join(
		t.expect(ctx, t.line(`echo text > here && mkdir deeper && mv here deeper/there`), 0, ""),
		t.expect(ctx, engine.Request{Command: engine.Argv("cat", "there"), WorkspaceRoot: t.dir + "/deeper"}, 0, "text\n"),
		t.expect(ctx, t.line(`cat deeper/there; cat "$PWD/deeper/there"`), 0, "text\ntext\n"),
	)
}

func commandNotFound(ctx context.Context, t *trial) error {
	if err := t.expect(ctx, t.line(`echo no > program; chmod 644 program`), 0, ""); err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		req  engine.Request
		want fault.Kind
	}{
		{"no such name", engine.Request{Command: engine.Argv("sandboxtest-no-such-program"), WorkspaceRoot: t.dir}, fault.NotFound},
		{"no such path", engine.Request{Command: engine.Argv("/no/such/program"), WorkspaceRoot: t.dir}, fault.NotFound},
		{"no such workspace", engine.Request{Command: engine.Argv("true"), WorkspaceRoot: t.dir + "/missing"}, fault.NotFound},
		{"a file that is no program", engine.Request{Command: engine.Argv("./program"), WorkspaceRoot: t.dir}, fault.Rejected},
	} {
		h, err := t.suite.Sandbox.Start(ctx, c.req)
		if err == nil {
			return errors.Join(fmt.Errorf("%s: it was started", c.name), h.Close())
		}
		if fault.KindOf(err) != c.want {
			return fmt.Errorf("%s: %s (%w), want %s", c.name, fault.KindOf(err), err, c.want)
		}
	}
	got, err := t.finish(ctx, t.line(`sandboxtest-no-such-program`))
	if err == nil && (got.Exit.Code != 127 || len(got.Stderr) == 0) {
		err = fmt.Errorf("no such program in a line for the shell: exit %+v, errors %s", got.Exit, quote(got.Stderr))
	}
	return err
}

func badRequests(ctx context.Context, t *trial) error {
	for name, edit := range map[string]func(*engine.Request){
		"no command":              func(r *engine.Request) { r.Command = engine.Program{} },
		"a program without name":  func(r *engine.Request) { r.Command = engine.Argv("") },
		"two commands":            func(r *engine.Request) { r.Command.Args = []string{"true"} },
		"a NUL in the command":    func(r *engine.Request) { r.Command = engine.Argv("echo", "a\x00b") },
		"a relative workspace":    func(r *engine.Request) { r.WorkspaceRoot = "." },
		"no workspace":            func(r *engine.Request) { r.WorkspaceRoot = "" },
		"everything as workspace": func(r *engine.Request) { r.WorkspaceRoot = "/" },
		"a variable without name": func(r *engine.Request) { r.Env = map[string]string{"": "x"} },
		"a variable with =":       func(r *engine.Request) { r.Env = map[string]string{"a=b": "x"} },
		"a NUL in a variable":     func(r *engine.Request) { r.Env = map[string]string{"a": "x\x00"} },
		"a negative timeout":      func(r *engine.Request) { r.Timeout = -1 },
		"a negative limit":        func(r *engine.Request) { r.MaxOutputBytes = -1 },
		"a tenant of two lines":   func(r *engine.Request) { r.Tenant = "a\nb" },
		"an endless tenant":       func(r *engine.Request) { r.Tenant = engine.Tenant(strings.Repeat("a", engine.MaxTenantBytes+1)) },
	} {
		req := t.line("echo started > started")
		edit(&req)
		h, err := t.suite.Sandbox.Start(ctx, req)
		if err == nil {
			return errors.Join(fmt.Errorf("%s: it was started", name), h.Close())
		}
		if fault.KindOf(err) != fault.InvalidArgs {
			return fmt.Errorf("%s: %s (%w), want invalid_args", name, fault.KindOf(err), err)
		}
	}
	return t.expect(ctx, t.line(`ls`), 0, "")
}

func startContext(ctx context.Context, t *trial) error {
	ended, end := context.WithCancel(ctx)
	end()
	if h, err := t.suite.Sandbox.Start(ended, t.line("echo started > started")); err == nil {
		return errors.Join(errors.New("it was started with a ctx that had ended"), h.Close())
	}
	started, end := context.WithCancel(ctx)
	defer end()
	h, err := t.start(started, t.line("while [ ! -e end ]; do sleep 0.05; done; rm end; ls; exit 3"))
	if err != nil {
		return err
	}
	defer h.Close()
	end()
	time.Sleep(time.Second) // for an engine that ends it
	if err := t.expect(ctx, t.line("touch end"), 0, ""); err != nil {
		return err
	}
	got, err := engine.Collect(ctx, h)
	if err == nil && (got.Exit.Code != 3 || len(got.Stdout) > 0) {
		err = fmt.Errorf("a command whose start's ctx ended: exit %+v, output %s", got.Exit, quote(got.Stdout))
	}
	return err
}

func tenantIsAudited(ctx context.Context, t *trial) error {
	if t.suite.Audited == nil {
		return errors.New("the suite does not say how to look at the engine's record")
	}
	tenant := engine.Tenant("sandboxtest-" + strings.ToLower(rand.Text()))
	if found, err := t.suite.Audited(ctx, tenant); err != nil || found {
		return fmt.Errorf("a tenant that never ran anything: in the record %v, %v", found, err)
	}
	req := t.line("exit 0")
	req.Tenant = tenant
	if err := t.expect(ctx, req, 0, ""); err != nil {
		return err
	}
	return t.eventually("the tenant is not in the record", func() (bool, error) { return t.suite.Audited(ctx, tenant) })
}

// eventually waits until a condition holds.
func (t *trial) eventually(not string, look func() (bool, error)) error {
	for end := time.Now().Add(t.soon); ; time.Sleep(50 * time.Millisecond) {
		if ok, err := look(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s %s", t.soon, not)
		}
	}
}
