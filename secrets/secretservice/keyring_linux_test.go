package secretservice_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"osaurus-sandbox/secrets/secretservice"
)

// patience is how long a bus or a keyring may take to start on a busy host.
const patience = 30 * time.Second

// newBus starts a session bus for this test. With services, the bus starts the system's programs on
// demand.
func newBus(t *testing.T, services bool) (daemon *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{
		"HOME": dir, "XDG_RUNTIME_DIR": dir, "XDG_DATA_HOME": filepath.Join(dir, "data"), "DISPLAY": "", "WAYLAND_DISPLAY": "",
	} {
		t.Setenv(name, value)
	}
	folders := ""
	if services {
		folders = "<standard_session_servicedirs/>"
	}
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:dir=`+dir+`</listen>`+folders+`
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dbus-daemon", "--config-file="+config, "--nofork", "--print-address")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	run(t, cmd)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	return cmd
}

// run starts a program that is killed at the end of the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make setup installs it)", err)
	}
	t.Cleanup(func() { stop(cmd) })
}

func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed, or has been waited for
}

// startKeyring starts GNOME's keyring, unlocks it if a password is given, and returns when it
// answers.
func startKeyring(t *testing.T, password string) *exec.Cmd {
	t.Helper()
	args := []string{"--foreground", "--components=secrets", "--control-directory=" + filepath.Join(t.TempDir(), "control")}
	if password != "" {
		args = append(args, "--unlock")
	}
	cmd := exec.Command("gnome-keyring-daemon", args...)
	cmd.Stdin = strings.NewReader(password)
	run(t, cmd)
	conn := connect(t)
	deadline := time.Now().Add(patience)
	for {
		var has bool
		if err := conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, "org.freedesktop.secrets").Store(&has); err != nil {
			t.Fatal(err)
		}
		if has { // an earlier call would make the bus start another
			if _, err := secretservice.New().Check(t.Context()); password == "" || err == nil {
				return cmd
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the keyring is not there, or locked")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// connect returns a new connection.
func connect(t *testing.T) *dbus.Conn {
	t.Helper()
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// lock locks the default keyring.
func lock(t *testing.T) {
	t.Helper()
	service := connect(t).Object("org.freedesktop.secrets", "/org/freedesktop/secrets")
	var keyring, prompt dbus.ObjectPath
	var locked []dbus.ObjectPath
	if err := service.Call("org.freedesktop.Secret.Service.ReadAlias", 0, "default").Store(&keyring); err != nil {
		t.Fatal(err)
	}
	if err := service.Call("org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{keyring}).Store(&locked, &prompt); err != nil || len(locked) != 1 {
		t.Fatal(err, locked)
	}
}

// tool runs secret-tool.
func tool(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "secret-tool", args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, e.Stderr)
	}
	return string(out), err
}

// eavesdrop returns all messages on the bus until the test ends. The connection must not be closed
// before, because it would panic at the next message.
func eavesdrop(t *testing.T, conn *dbus.Conn) <-chan string {
	heard := make(chan *dbus.Message, 64)
	conn.Eavesdrop(heard)
	t.Cleanup(func() {
		conn.Eavesdrop(nil)
		close(heard)
	})
	messages := make(chan string, 4096) // more than a test sends
	go func() {
		for m := range heard {
			messages <- fmt.Sprintf("%v %s\n", m, flat(m.Body))
		}
	}()
	return messages
}

// flat writes a message with its bytes as text.
func flat(body []any) string {
	var b strings.Builder
	for _, it := range body {
		switch it := it.(type) {
		case []byte:
			b.Write(it)
		case []any:
			b.WriteString(flat(it))
		case dbus.Variant:
			b.WriteString(flat([]any{it.Value()}))
		default:
			fmt.Fprint(&b, it)
		}
		b.WriteByte(' ')
	}
	return b.String()
}
