package control

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// dialAs, if set, makes the test program connect to this address.
const dialAs = "OSAURUS_TEST_DIAL"

func TestMain(m *testing.M) {
	if address := os.Getenv(dialAs); address != "" {
		conn, err := net.Dial("unix", address)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			_, err = conn.Read(make([]byte, 1))
		}
		fmt.Print(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Other users are refused even where the file system allows them: an abstract socket has no
// mode.
func TestOtherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else for a moment")
	}
	name := fmt.Sprintf("@osaurus-test-%d", os.Getpid())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := ownOnly{l}.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello"))
		}
	}()
	for uid, want := range map[uint32]string{0: "<nil>", 65534: "EOF"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{dialAs + "=" + name}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if out, err := cmd.Output(); err != nil || string(out) != want {
			t.Errorf("uid %d: %q, %v; want %q", uid, out, err, want)
		}
	}
}
